"""What a figure hangs on besides the code: cores, class of CPU, versions; and which compute types it makes sense to time there."""

import itertools
import os
import platform

_CPU_CLASSES = ("amx_bf16", "avx512_bf16", "avx512f", "avx2", "avx")
_CPUINFO = "/proc/cpuinfo"
_MULTIPLY_BFLOAT16 = {"amx_bf16", "avx512_bf16", "bf16"}  # the last is Arm's


def machine(packages):
    """A dict: cores, class of CPU and versions of Python and of packages; no name of a machine."""
    from importlib import metadata

    flags = _cpu_flags()
    return {
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "cpu": " ".join([platform.machine(), *itertools.islice((c for c in _CPU_CLASSES if c in flags), 1)]),
        "python": platform.python_version(),
        **{package: metadata.version(package) for package in packages},
    }


def precisions():
    """The compute types that the CPU has products of: ("float32", "bfloat16") or ("float32",).

    Without them a bfloat16 step is one in float32 and conversions, several times as long: worth a look, not an hour of each run.
    """
    return ("float32", "bfloat16") if _MULTIPLY_BFLOAT16 & _cpu_flags() else ("float32",)


def _cpu_flags():
    """Set of what Linux says that the first core can do; empty elsewhere."""
    if not os.path.exists(_CPUINFO):
        return set()
    with open(_CPUINFO, encoding="utf-8") as stream:
        return set(next((line.split() for line in stream if line.startswith(("flags", "Features"))), ()))
