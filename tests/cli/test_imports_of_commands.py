"""Garbage collection around the import of TensorFlow."""

import gc
import sys

import pytest

from keras_bert_app.cli.common import app


@pytest.fixture
def fresh(monkeypatch):
    """The state before the import. Objects that a test froze return to the garbage collector."""
    monkeypatch.delitem(sys.modules, "tensorflow")
    yield
    gc.unfreeze()


def test_what_is_imported_is_not_looked_through_for_garbage(fresh):
    with app._without_collection():
        assert not gc.isenabled()
    assert gc.isenabled() and gc.get_freeze_count() > 100_000


def test_an_import_that_fails_leaves_collection_on_and_nothing_out_of_it(fresh):
    with pytest.raises(ImportError), app._without_collection():
        raise ImportError
    assert gc.isenabled() and not gc.get_freeze_count()


def test_a_command_beside_others_leaves_collection_as_it_is():
    with app._without_collection():
        assert gc.isenabled()
    assert not gc.get_freeze_count()
