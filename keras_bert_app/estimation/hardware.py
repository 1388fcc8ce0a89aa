"""Accelerators by name, with the peak FLOP/s and the memory that their makers publish."""

import dataclasses
import re

from keras_bert_app.errors import UserError, nearest

_GB, _GIB = 10**9, 2**30


@dataclasses.dataclass(frozen=True)
class Device:
    """One chip.

    Attributes:
        peaks: dict precision -> FLOP/s of dense matrix products, as TensorFlow computes them on this chip by default.
        memory: int. Bytes; None if unknown.
        named_parts: int. The number of parts of a chip. The number in a name such as v4-8 counts parts.
        multiplies_bfloat16: bool. Whether the chip multiplies bfloat16; see memory.training_memory.
        kind: str. "TPU", "GPU" or "CPU". Some defaults depend on it.
        automatic_precision: str. The precision that --precision=auto chooses.
    """

    peaks: dict
    memory: int | None
    named_parts: int = 1
    multiplies_bfloat16: bool = True
    kind: str = "GPU"
    automatic_precision: str = "bfloat16"

    @property
    def is_tpu(self) -> bool:
        return self.kind == "TPU"


def _device(narrow, float32, memory, **more):
    """Returns a Device from the TFLOP/s of its narrow types (bfloat16 and float16) and of float32."""
    return Device({"bfloat16": narrow * 1e12, "float16": narrow * 1e12, "float32": float32 * 1e12}, memory, **more)


def _without_bfloat16(float16, float32, memory):
    peaks = {"bfloat16": float32 * 1e12, "float16": float16 * 1e12, "float32": float32 * 1e12}
    return Device(peaks, memory, automatic_precision="float16")


# TFLOP/s of one chip without sparsity, for bfloat16 and float16, and for float32.
DEVICES = {
    # Source for TPUs: docs.cloud.google.com/tpu/docs/v4, /v5e and /v6e. XLA multiplies float32 in bfloat16 by default.
    # Names up to v4 count TensorCores, and a chip has two.
    "v4": _device(275, 275, 32 * _GIB, kind="TPU", named_parts=2),
    "v5e": _device(197, 197, 16 * _GB, kind="TPU"),
    "v6e": _device(918, 918, 32 * _GB, kind="TPU"),
    # Source for GPUs: NVIDIA's data sheets (H100: SXM), and its white paper on the RTX 4090 (sums in float32). A figure
    # "with sparsity" is halved here. The float32 figure is TF32, TensorFlow's default from Ampere on.
    "a100": _device(312, 156, 40 * _GB),
    "a100-80gb": _device(312, 156, 80 * _GB),
    "h100": _device(989.5, 494.5, 80 * _GB),
    "h200": _device(989.5, 494.5, 141 * _GB),
    "a10g": _device(70, 35, 24 * _GB),
    "l4": _device(121, 60, 24 * _GB),
    "rtx4090": _device(165.2, 82.6, 24 * _GB),
    # The tensor cores of the T4 and the V100 lack TF32 and bfloat16. Both types run at the plain float32 rate.
    "t4": _without_bfloat16(65, 8.1, 16 * _GB),
    "v100": _without_bfloat16(125, 15.7, 16 * _GB),
    "cpu": Device(
        {}, None, kind="CPU", multiplies_bfloat16=False, automatic_precision="float32"
    ),  # only CPUs with AMX or AVX512-BF16 multiply bfloat16
}


def parse(name: str, peak_gflops: float = 0.0, memory_gb: float = 0.0) -> tuple[Device, int]:
    """Reads a device name such as v5e-8, a100-80gb-4 or cpu. A name without a number means one chip.

    Args:
        name: str. A key of DEVICES, with or without "-" and a number.
        peak_gflops: float. 10^9 FLOP/s of one chip; 0 for the published figure.
        memory_gb: float. 10^9 bytes of one chip; 0 for the published figure.

    Returns:
        (Device, number of chips).

    Raises:
        UserError: the device is unknown, the number is impossible, or a CPU comes without peak_gflops.
    """
    match = re.fullmatch(r"(.+?)(?:-(\d+))?", name.lower())
    kind, count = (match[1], int(match[2] or 0)) if match else (name, 0)
    if kind not in DEVICES:
        raise UserError(
            f"--hardware={name} is not known: {nearest(kind, DEVICES)}; a number after it says how many, as in v5e-8"
        )
    device = DEVICES[kind]
    if match[2] is None:
        count = device.named_parts
    if count < 1 or count % device.named_parts:
        expected = f"a multiple of {device.named_parts}" if device.named_parts > 1 else "1 or more"
        raise UserError(f"--hardware={name}: expected {expected} after {kind}-")
    if not device.peaks and not peak_gflops:
        raise UserError(
            f"--hardware={name} has no published peak; give --peak_gflops, the speed of a large matrix product in "
            "10^9 FLOP a second"
        )
    if peak_gflops:
        device = dataclasses.replace(device, peaks=dict.fromkeys(("bfloat16", "float16", "float32"), peak_gflops * 1e9))
    if memory_gb:
        device = dataclasses.replace(device, memory=int(memory_gb * _GB))
    return device, count // device.named_parts
