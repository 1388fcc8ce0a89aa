"""Environment variables that TensorFlow and XLA read at their start, for machines with an NVIDIA GPU.

This module does not import TensorFlow, so that a command can call it first.
"""

import glob
import hashlib
import importlib.metadata
import os
import pathlib

# XLA's choices that cost compiling time and gave no speed: BERT base took 36.4 ms a step with and without them on an
# H200, and 29 s instead of 86 to 106 s to compile. Without autotuning every process also multiplies by the same
# kernels, which --deterministic needs.
_XLA_OPTIONS = {"xla_gpu_enable_triton_gemm": "false", "xla_gpu_autotune_level": "0"}
_MOST_CACHE_BYTES = 2 << 30


def prepare() -> None:
    """Sets the variables where they are unset. It does nothing on a machine without an NVIDIA GPU.

    TensorFlow takes memory as it needs it, so that two processes can share a GPU. XLA compiles with options that were
    measured. Compiled programs are kept in cache_directory, which the next start of the same program reads.
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
        directory.mkdir(parents=True, exist_ok=True)
        keep_newest(directory.parent, _MOST_CACHE_BYTES)
        os.environ["TF_XLA_FLAGS"] = (
            f"{options} --tf_xla_persistent_cache_directory={directory} --tf_xla_persistent_cache_device_types=GPU"
        ).strip()


def cache_directory() -> pathlib.Path:
    """The directory of this user's compiled programs, one for each version of TensorFlow, driver and set of options.

    It can be deleted at any time. A program that is not there is compiled again.
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
    """Deletes the oldest files in the folders of a directory until the others have at most so many bytes."""
    files = sorted((path for path in directory.glob("*/*") if path.is_file()), key=lambda path: -path.stat().st_mtime)
    total = 0
    for path in files:
        total += path.stat().st_size
        if total > most_bytes:
            path.unlink(missing_ok=True)


def _devices() -> list[str]:
    """The device files of the NVIDIA GPUs that CUDA_VISIBLE_DEVICES does not hide, those of WSL included."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    found = sorted(glob.glob("/dev/nvidia[0-9]*")) or glob.glob("/dev/dxg")
    if visible is None:
        return found
    return found[: sum(bool(name.strip()) and name.strip() != "-1" for name in visible.split(","))]
