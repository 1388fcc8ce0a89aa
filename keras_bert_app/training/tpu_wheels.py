"""The installed build of TensorFlow, and whether it fits the TPU.

The module does not load TensorFlow.
"""

import glob
import importlib.metadata
import os

from keras_bert_app.errors import UserError

# Colab and the images of TPU VMs set these variables on machines with chips.
SIGNS_OF_CHIPS = ("TPU_ACCELERATOR_TYPE", "COLAB_TPU_1VM")
# Version of tensorflow-tpu -> version of libtpu. The wheel accepts newer versions (libtpu ~= 0.0.14), but with a newer
# libtpu, importing TensorFlow aborts the process.
_LIBTPU = {"2.20.0": "0.0.14"}


def chips() -> list[str]:
    """The device files of TPU chips.

    TPU v2 to v4 have their own driver. Later chips use vfio, which other devices may use too.
    """
    return glob.glob("/dev/accel[0-9]*") or glob.glob("/dev/vfio/[0-9]*")


def installed() -> str | None:
    """The version of the tensorflow-tpu wheel; None if TensorFlow is built without TPUs."""
    return _version("tensorflow-tpu")


def check() -> None:
    """Checks the installed wheels.

    Raises:
        UserError: importing TensorFlow would abort the process, or pip has mixed up two builds of TensorFlow.
    """
    version = installed()
    if not version:
        return
    wanted, libtpu = _LIBTPU.get(version), _version("libtpu")
    # With TPU_LOAD_LIBRARY=0 TensorFlow does not load libtpu. A machine without a TPU can then lower programs for one.
    if wanted and libtpu and libtpu != wanted and os.environ.get("TPU_LOAD_LIBRARY") != "0":
        raise UserError(
            f"libtpu {libtpu} is installed, but tensorflow-tpu {version} cannot start with this version; "
            f"pip install libtpu=={wanted}"
        )
    if other := _version("tensorflow"):
        raise UserError(
            f"tensorflow {other} is installed over tensorflow-tpu {version} and replaces its files; pip uninstall "
            "both, then pip install -r requirements-tpu.txt and pip install --no-deps -r requirements-tpu-no-deps.txt"
        )


def _version(name):
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
