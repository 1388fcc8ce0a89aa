"""The logits of a model for all units of Features."""

from collections.abc import Callable

import numpy as np

from keras_bert_app.config.finetuning_config import FinetuningConfig
from keras_bert_app.modeling.task_model import INPUTS, TOKENS
from keras_bert_app.tasks import batches
from keras_bert_app.tasks.features import Features
from keras_bert_app.terminal.progress import Progress


def unit_logits(
    call: Callable,
    model,
    features: Features,
    run: FinetuningConfig,
    batch_size: int,
    should_stop: Callable[[], bool] = lambda: False,
    progress: Progress | None = None,
    **shapes,
) -> np.ndarray | list[np.ndarray] | None:
    """The logits of each unit.

    Args:
        call: A function that forward.make_prediction_call returns.
        model: BertTaskModel.
        features: Features.
        run: FinetuningConfig.
        batch_size: int. A multiple of the number of replicas.
        should_stop: Function that is called before each batch. True stops the computation.
        progress: Progress that counts units and their tokens, with padding; None for no progress line.
        **shapes: Keyword arguments of batches.evaluation_batches.

    Returns:
        float32 [U, n], or [U, G] for a head on CHOICES. For a head on TOKENS a list of U arrays [tokens of the row, n].
        None if should_stop stopped the computation.
    """
    by_unit = [None] * features.num_units
    num_tokens, work = features.row_lengths(), features.work()
    for batch, units in batches.evaluation_batches(features, run, batch_size, **shapes):
        if should_stop():
            return None
        logits = call({name: batch[name] for name in INPUTS})
        for row, unit in zip(logits, units, strict=False):  # the rows after the last unit fill up the batch
            by_unit[unit] = row[: num_tokens[unit]] if model.head.stands_on == TOKENS else row
        if progress:
            progress.done(len(units), int(work[units].sum()))
    return by_unit if model.head.stands_on == TOKENS else np.stack(by_unit)
