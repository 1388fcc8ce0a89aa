"""Scheduled sampling: the places at which a decoder reads the right previous piece (Bengio et al. 2015)."""

from collections.abc import Sequence

import numpy as np

from keras_bert_app.config.finetuning_config import FinetuningConfig

_PURPOSE = 7  # of these draws; other draws have other numbers


def share_of_right_pieces(run: FinetuningConfig, progress: float) -> float:
    """The share of the places that read the right previous piece.

    Args:
        run: FinetuningConfig. The function reads teacher_forcing and teacher_forcing_schedule.
        progress: float. The share of the run that is over.
    """
    if run.teacher_forcing_schedule == "constant":
        return run.teacher_forcing
    return 1.0 - (1.0 - run.teacher_forcing) * min(progress, 1.0)


def reads_target(shape: Sequence[int], run: FinetuningConfig, position: tuple[int, int], progress: float) -> np.ndarray:
    """Draws the places that read the right previous piece.

    Args:
        shape: (B, T). The batch size and the number of places.
        run: FinetuningConfig. The function also reads its seed.
        position: (epoch, batch). With the seed, it decides the draws.
        progress: float. The share of the run that is over.

    Returns:
        int32 [B, T]. 1: the place reads the target. 0: it reads the model's own piece. The first place is always 1.
    """
    epoch, number = position
    generator = np.random.Generator(np.random.Philox(key=[run.seed, _PURPOSE], counter=[0, 0, number, epoch]))
    reads = generator.random(shape) < share_of_right_pieces(run, progress)
    reads[:, 0] = True
    return reads.astype(np.int32)
