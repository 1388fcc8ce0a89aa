"""Facts about this machine that affect measurements: cores, class of CPU, versions, compute types and memory."""

import itertools
import os
import platform
from collections.abc import Iterable

from pipelines.processors import num_cores

_CPU_CLASSES = ("amx_bf16", "avx512_bf16", "avx512f", "avx2", "avx")
_CPUINFO = "/proc/cpuinfo"
_MULTIPLY_BFLOAT16 = {"amx_bf16", "avx512_bf16", "bf16"}  # "bf16" is the name on Arm


def machine(packages: Iterable[str]) -> dict:
    """Describes the machine. The description does not contain the host name.

    Args:
        packages: names of installed packages.

    Returns:
        dict with cores, cpu (its class), python, and the version of each package.
    """
    from importlib import metadata

    flags = _cpu_flags()
    return {
        "cores": num_cores(),
        "cpu": " ".join([platform.machine(), *itertools.islice((c for c in _CPU_CLASSES if c in flags), 1)]),
        "python": platform.python_version(),
        **{package: metadata.version(package) for package in packages},
    }


def precisions() -> tuple[str, ...]:
    """The compute types that the CPU multiplies natively: ("float32", "bfloat16") or ("float32",).

    On other CPUs a bfloat16 step converts its numbers to float32 and takes several times as long.
    """
    return ("float32", "bfloat16") if _MULTIPLY_BFLOAT16 & _cpu_flags() else ("float32",)


def resident_bytes(field: str, pid: int | str = "self") -> int:
    """Resident memory of a process in bytes.

    Args:
        field: str. A line of /proc/PID/status: "VmRSS" for the memory now, "VmHWM" for the peak.
        pid: int or str. The process; by default this one.
    """
    with open(f"/proc/{pid}/status", encoding="utf-8") as file:
        (line,) = (line for line in file if line.startswith(f"{field}:"))
    return int(line.split()[1]) * 1024


def _cpu_flags():
    """Features of the first core as a set, from /proc/cpuinfo. Empty on systems other than Linux."""
    if not os.path.exists(_CPUINFO):
        return set()
    with open(_CPUINFO, encoding="utf-8") as stream:
        return set(next((line.split() for line in stream if line.startswith(("flags", "Features"))), ()))
