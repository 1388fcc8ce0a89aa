"""Which build of TensorFlow is installed, and whether it fits the TPU. Loads no TensorFlow."""

import glob
import importlib.metadata
import os

from keras_bert_app.errors import UserError

# Set on machines that have chips, by Colab and the images of TPU VMs.
SIGNS_OF_CHIPS = ("TPU_ACCELERATOR_TYPE", "COLAB_TPU_1VM")
# tensorflow-tpu asks for libtpu ~= 0.0.14, and with a newer one of these the process aborts while it is imported.
_LIBTPU = {"2.20.0": "0.0.14"}


def chips():
    """The device files of TPU chips: v2 to v4 have a driver of their own, later ones come by vfio, as other cards may."""
    return glob.glob("/dev/accel[0-9]*") or glob.glob("/dev/vfio/[0-9]*")


def installed():
    """The version of the tensorflow-tpu wheel, or None where TensorFlow is built without TPUs."""
    return _version("tensorflow-tpu")


def check():
    """Raises UserError where importing TensorFlow would abort the process, or pip has mixed up two builds of it."""
    version = installed()
    if not version:
        return
    wanted, found = _LIBTPU.get(version), _version("libtpu")
    # Without the library nothing of it is loaded, which is how programs are lowered for a TPU elsewhere.
    if wanted and found and found != wanted and os.environ.get("TPU_LOAD_LIBRARY") != "0":
        raise UserError(
            f"libtpu {found} is installed, with which tensorflow-tpu {version} cannot start; "
            f"pip install libtpu=={wanted}"
        )
    if other := _version("tensorflow"):
        raise UserError(
            f"tensorflow {other} is installed over tensorflow-tpu {version}, whose files it replaces; pip uninstall "
            "both, then install requirements-tpu.txt, tensorflow-text with --no-deps"
        )


def _version(name):
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
