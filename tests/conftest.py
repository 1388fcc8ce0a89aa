"""Setup for all tests: two logical CPU devices (or TEST_LOGICAL_CPUS), their order, and the paths of test data."""

import gc
import os
import pathlib

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")  # keras_bert_app sets it, too
# Without optimization by LLVM, XLA compiles in half the time. The programs of tests run briefly, so this saves time.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")
# Each worker has a core of its own. OpenMP's second thread (scikit-learn) would spend that core's time on waiting.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import pytest
from xdist import is_xdist_controller

GOLDEN = pathlib.Path(__file__).parent / "golden"
SHARED = pathlib.Path(__file__).parents[2] / "shared"


def pytest_sessionstart(session):
    """Makes logical devices of one CPU for tests of strategies, before TensorFlow starts its devices."""
    if is_xdist_controller(session):
        return  # the controller runs no test, and importing TensorFlow takes as long as ten tests
    import tensorflow as tf

    num_cpus = int(os.environ.get("TEST_LOGICAL_CPUS", 2))
    tf.config.set_logical_device_configuration(
        tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * num_cpus
    )


def pytest_collection_modifyitems(items):
    """Starts the long tests first, so that no worker still runs one when the other workers have ended."""
    items.sort(key=lambda item: item.get_closest_marker("long") is None)


def pytest_collection_finish():
    """Excludes the half a million objects of the loaded modules from later garbage collections, which are rarer too."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 10, 10)


@pytest.fixture
def golden():
    return GOLDEN


@pytest.fixture
def shared():
    """The folder of real vocabularies, texts and weights next to the project. The repository does not contain it."""
    if not (SHARED / "vocabs").is_dir():
        pytest.skip(f"{SHARED}/vocabs does not exist; this test needs its vocabularies")
    return SHARED
