"""Commands pause garbage collection and hide packages while they import TensorFlow."""

import gc
import importlib
import sys

import pytest

from keras_bert_app.cli.common import app


@pytest.fixture
def fresh(monkeypatch):
    """The state before TensorFlow is imported. Afterwards the fixture freezes all objects again, as conftest.py did."""
    monkeypatch.delitem(sys.modules, "tensorflow")
    gc.unfreeze()
    yield
    gc.freeze()


def test_garbage_collection_skips_the_objects_of_imported_modules(fresh):
    with app._without_collection():
        assert not gc.isenabled()
    assert gc.isenabled() and gc.get_freeze_count() > 100_000


def test_an_import_that_fails_leaves_collection_on_and_freezes_nothing(fresh):
    with pytest.raises(ImportError), app._without_collection():
        raise ImportError
    assert gc.isenabled() and not gc.get_freeze_count()


def test_a_command_leaves_collection_unchanged_if_tensorflow_is_loaded_already():
    before = gc.get_freeze_count()
    with app._without_collection():
        assert gc.isenabled()
    assert gc.get_freeze_count() == before


def test_a_package_that_keras_does_not_need_is_hidden_only_during_the_import_of_keras(monkeypatch):
    monkeypatch.setattr(app, "_EXTRAS_OF_KERAS", ("wave", "sys"))
    monkeypatch.delitem(sys.modules, "wave", raising=False)
    with app._without_extras_of_keras():
        with pytest.raises(ImportError):
            importlib.import_module("wave")
        assert importlib.import_module("sys") is sys  # sys was loaded before, so it stays
    assert importlib.import_module("wave").__name__ == "wave"
