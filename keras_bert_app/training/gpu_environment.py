"""Sets environment variables that TensorFlow and XLA read at their start, for NVIDIA GPUs.

This module does not import TensorFlow, so a command can call it before that import.
"""

import contextlib
import glob
import hashlib
import importlib.metadata
import os
import pathlib
import sys

# These options turn off steps of XLA's compilation that gave no speed. On an H200, BERT base took 36.4 ms a step with
# and without the options. It compiled in 29 s with them, and in 86 to 106 s without. Without autotuning, every process
# also multiplies with the same kernels, which --deterministic needs.
_XLA_OPTIONS = {"xla_gpu_enable_triton_gemm": "false", "xla_gpu_autotune_level": "0"}
_MOST_CACHE_BYTES = 2 << 30


def prepare() -> None:
    """Sets the variables that are not set yet. It does nothing on a machine without an NVIDIA GPU.

    TensorFlow takes memory as it needs it, so two processes can share a GPU. XLA compiles with the measured options of
    _XLA_OPTIONS. On a machine with one visible GPU, TensorFlow keeps compiled programs in cache_directory. The next
    start of the same program reads them.
    """
    devices = _devices()
    if not devices:
        return
    os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")
    flags = os.environ.get("XLA_FLAGS", "")
    missing = [f"--{name}={value}" for name, value in _XLA_OPTIONS.items() if name not in flags]
    os.environ["XLA_FLAGS"] = " ".join([flags, *missing]).strip()
    options = os.environ.get("TF_XLA_FLAGS", "")
    # A compiled program belongs to one GPU.
    if len(devices) == 1 and "persistent_cache" not in options:
        directory = cache_directory()
        if not _is_writable(directory):
            print(
                f"{directory}: cannot be written, so each start compiles anew; XDG_CACHE_HOME names another place",
                file=sys.stderr,
            )
            return
        keep_newest(directory.parent, _MOST_CACHE_BYTES)
        os.environ["TF_XLA_FLAGS"] = (
            f"{options} --tf_xla_persistent_cache_directory={directory} --tf_xla_persistent_cache_device_types=GPU"
        ).strip()


def cache_directory() -> pathlib.Path:
    """The directory of this user's compiled programs.

    Each combination of TensorFlow version, driver and XLA options has its own directory. You can delete it at any time.
    TensorFlow then compiles the programs again.
    """
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    driver = pathlib.Path("/proc/driver/nvidia/version")
    key = (
        importlib.metadata.version("tensorflow"),
        driver.read_text() if driver.is_file() else "",
        os.environ.get("XLA_FLAGS", ""),
    )
    return pathlib.Path(home, "keras_bert_app", "xla", hashlib.sha256(repr(key).encode()).hexdigest()[:16])


def keep_newest(directory: pathlib.Path, most_bytes: int) -> None:
    """Deletes the oldest files in the folders of a directory until the rest has at most most_bytes bytes.

    Args:
        directory: the directory. Files that lie directly in the directory stay.
        most_bytes: limit for the sum of the sizes.
    """
    files, total = [], 0
    for path in directory.glob("*/*"):
        with contextlib.suppress(OSError):  # another process may rename or delete the file at any time
            if path.is_file():
                about = path.stat()
                files.append((about.st_mtime, about.st_size, path))
    for _, size, path in sorted(files, reverse=True):
        total += size
        if total > most_bytes:
            with contextlib.suppress(OSError):
                path.unlink()


def _is_writable(directory):
    if directory.parts[0] == "~":  # of a user without a home
        return False
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(directory, os.W_OK)


def _devices() -> list[str]:
    """The device files of the NVIDIA GPUs that CUDA_VISIBLE_DEVICES does not hide, including WSL's."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    devices = sorted(glob.glob("/dev/nvidia[0-9]*")) or glob.glob("/dev/dxg")
    if visible is None:
        return devices
    return devices[: sum(bool(name.strip()) and name.strip() != "-1" for name in visible.split(","))]
