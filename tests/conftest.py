"""Setup for all tests: two logical CPU devices (or TEST_LOGICAL_CPUS), and the paths of test data."""

import os
import pathlib

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")  # the commands set it too

import pytest
import tensorflow as tf

# Tests of strategies run two replicas on one CPU. TensorFlow must learn this before it starts its devices.
NUM_CPUS = int(os.environ.get("TEST_LOGICAL_CPUS", 2))
tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * NUM_CPUS
)

GOLDEN = pathlib.Path(__file__).parent / "golden"
SHARED = pathlib.Path(__file__).parents[2] / "shared"


@pytest.fixture
def golden():
    return GOLDEN


@pytest.fixture
def shared():
    """The folder of real vocabularies, texts and weights next to the project. The repository does not contain it."""
    if not (SHARED / "vocabs").is_dir():
        pytest.skip("the folder of shared data is not beside the project")
    return SHARED
