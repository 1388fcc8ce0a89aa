"""Published figures of TPU cores, and the shortest time of a program that these figures allow.

Sources: cloud.google.com/tpu/docs/v5e and /v6e, "System architecture" (a chip has one core). The peaks and the memory
are those that `estimate` uses.
"""

import dataclasses

from keras_bert_app.estimation import hardware


@dataclasses.dataclass(frozen=True)
class Chip:
    """A TPU chip.

    Attributes:
        topology: str. Name of the topology for compile-only devices.
        accelerator: str. Value of TPU_ACCELERATOR_TYPE.
        flops: float. Peak in bfloat16, operations per second.
        bandwidth: float. Bandwidth of HBM, bytes per second.
        memory: float. HBM, bytes.
    """

    topology: str
    accelerator: str
    flops: float
    bandwidth: float
    memory: float


def _chip(name, topology, accelerator, bandwidth):
    device, _ = hardware.parse(name)
    return Chip(topology, accelerator, device.peaks["bfloat16"], bandwidth, device.memory)


CHIPS = {"v5e": _chip("v5e", "v5e:2x2", "v5litepod-4", 819e9), "v6e": _chip("v6e", "v6e:2x2", "v6e-4", 1640e9)}


def floor_seconds(chip: Chip, flops: float, num_bytes: float) -> tuple[float, str]:
    """The shortest possible time of a program.

    Args:
        chip: Chip.
        flops: float. Operations of the program.
        num_bytes: float. Bytes that pass through HBM.

    Returns:
        (seconds, "arithmetic" or "memory", whichever takes longer).
    """
    arithmetic, memory = flops / chip.flops, num_bytes / chip.bandwidth
    return (arithmetic, "arithmetic") if arithmetic >= memory else (memory, "memory")


def hbm_bytes(stats: dict) -> float:
    """The bytes of HBM that a running program takes.

    They hold arguments, results that do not reuse an argument's memory, temporaries, and code.

    Args:
        stats: dict with arguments, outputs, aliased, temporaries and code, in bytes.
    """
    return stats["arguments"] + stats["outputs"] - stats["aliased"] + stats["temporaries"] + stats["code"]


def predicted_batch(sizes: dict[int, float], memory: float, multiple: int = 8) -> int:
    """The largest batch that fits, by the line through two compiled batches.

    Args:
        sizes: dict of two entries. Batch -> bytes of HBM.
        memory: float. HBM of the chip, bytes.
        multiple: int. The returned batch is a multiple of this number.

    Returns:
        The batch; 0 if not even `multiple` fits, or if the larger batch takes no more memory.
    """
    (small, small_bytes), (large, large_bytes) = sorted(sizes.items())
    row = (large_bytes - small_bytes) / (large - small)
    if row <= 0:
        return 0
    return max(0, int((memory - small_bytes) / row + small) // multiple * multiple)
