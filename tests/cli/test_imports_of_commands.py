"""Garbage collection and hidden packages around the import of TensorFlow."""

import gc
import importlib
import sys

import pytest

from keras_bert_app.cli.common import app


@pytest.fixture
def fresh(monkeypatch):
    """The state before the import. The objects that conftest.py froze are frozen again afterwards."""
    monkeypatch.delitem(sys.modules, "tensorflow")
    gc.unfreeze()
    yield
    gc.freeze()


def test_what_is_imported_is_not_looked_through_for_garbage(fresh):
    with app._without_collection():
        assert not gc.isenabled()
    assert gc.isenabled() and gc.get_freeze_count() > 100_000


def test_an_import_that_fails_leaves_collection_on_and_nothing_out_of_it(fresh):
    with pytest.raises(ImportError), app._without_collection():
        raise ImportError
    assert gc.isenabled() and not gc.get_freeze_count()


def test_a_command_beside_others_leaves_collection_as_it_is():
    before = gc.get_freeze_count()
    with app._without_collection():
        assert gc.isenabled()
    assert gc.get_freeze_count() == before


def test_a_package_that_keras_does_without_is_hidden_during_its_import_alone(monkeypatch):
    monkeypatch.setattr(app, "_EXTRAS_OF_KERAS", ("wave", "sys"))
    monkeypatch.delitem(sys.modules, "wave", raising=False)
    with app._without_extras_of_keras():
        with pytest.raises(ImportError):
            importlib.import_module("wave")
        assert importlib.import_module("sys") is sys  # it was loaded before
    assert importlib.import_module("wave").__name__ == "wave"
