"""What all tests share: two logical CPU devices (or TEST_LOGICAL_CPUS), and paths of data that may be missing."""

import os
import pathlib

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")  # as the commands have it

import pytest
import tensorflow as tf

# Before anything touches the devices: strategies over two replicas are tested on one CPU.
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
    """Real vocabularies, texts and weights beside the project; not part of it."""
    if not (SHARED / "vocabs").is_dir():
        pytest.skip("the folder of shared data is not beside the project")
    return SHARED
