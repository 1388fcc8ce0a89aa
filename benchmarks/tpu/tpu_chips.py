"""What a TPU core has, as published, and the floor that sets for the time of a step.

Sources: cloud.google.com/tpu/docs/v5e and /v6e, "System architecture" (one core a chip); peaks and memory are those of `estimate`.
"""

import dataclasses

from keras_bert_app.estimation import hardware


@dataclasses.dataclass(frozen=True)
class Chip:
    """Attributes:
    topology: of compile-only devices. accelerator: of TPU_ACCELERATOR_TYPE. flops: peak in bfloat16, a second.
    bandwidth: of HBM, bytes a second. memory: HBM, bytes.
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


def floor_seconds(chip, flops, num_bytes):
    """(seconds that a program cannot go below, "arithmetic" or "memory", by whichever takes longer)."""
    arithmetic, memory = flops / chip.flops, num_bytes / chip.bandwidth
    return (arithmetic, "arithmetic") if arithmetic >= memory else (memory, "memory")


def hbm_bytes(stats):
    """HBM that a program takes while it runs: arguments, results that are no argument's place, temporaries, code.

    Args:
        stats: dict with arguments, outputs, aliased, temporaries, code, in bytes.
    """
    return stats["arguments"] + stats["outputs"] - stats["aliased"] + stats["temporaries"] + stats["code"]


def predicted_batch(sizes, memory, multiple=8):
    """The largest batch that fits by the line through two that were compiled; 0 where not even `multiple` does, or where the
    larger one takes no more.

    Args:
        sizes: dict of two, batch -> bytes of HBM. memory: bytes.
    """
    (small, small_bytes), (large, large_bytes) = sorted(sizes.items())
    row = (large_bytes - small_bytes) / (large - small)
    if row <= 0:
        return 0
    return max(0, int((memory - small_bytes) / row + small) // multiple * multiple)
