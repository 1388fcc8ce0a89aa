"""The answers of a model for all units of Features: logits, or texts that it decodes."""

from collections.abc import Callable

import numpy as np

from keras_bert_app.config.finetuning_config import FinetuningConfig
from keras_bert_app.modeling.task_head import TOKENS
from keras_bert_app.modeling.vector_model import VECTORS
from keras_bert_app.runs import threads
from keras_bert_app.tasks import batches
from keras_bert_app.tasks.features import Features
from keras_bert_app.terminal.progress import Progress
from keras_bert_app.training import forward


def answers_are_logits(run: FinetuningConfig) -> Callable:
    """The function of forward.make_prediction_call for models whose answers are logits.

    Args:
        run: FinetuningConfig. Not used; all families have this signature.
    """
    return forward.logits_of


def unit_logits(
    call: Callable,
    model,
    features: Features,
    run: FinetuningConfig,
    batch_size: int,
    should_stop: Callable[[], bool] = lambda: False,
    progress: Progress | None = None,
    num_calls: int = 1,
    **shapes,
) -> np.ndarray | list | None:
    """The answer to each unit.

    Args:
        call: A function that forward.make_prediction_call returns.
        model: BertTaskModel.
        features: Features.
        run: FinetuningConfig.
        batch_size: int. A multiple of the number of replicas.
        should_stop: Function that is called before each batch. True stops the computation.
        progress: Progress that counts units and their tokens, with padding; None for no progress line.
        num_calls: int. How many batches are computed at the same time. Their rows together are batch_size.
        **shapes: Keyword arguments of batches.evaluation_batches.

    Returns:
        float32 [U, n], or [U, G] for a head on CHOICES. For a head on TOKENS a list of U arrays [tokens of the row, n],
        for vectors a list of U arrays [rows of the unit, H]. For a model that decodes texts a list of U dicts. None if
        should_stop stopped the computation.
    """
    by_unit = [None] * features.num_units
    stands_on, work = model.head.stands_on, features.work()
    sizes = {TOKENS: features.row_lengths, VECTORS: features.group_sizes}.get(stands_on)
    sizes = sizes() if sizes else None
    is_stopped = False
    if num_calls > 1:
        batch_size = threads.rows_of_call(features.num_units, batch_size, num_calls)

    def until_stopped():
        nonlocal is_stopped
        for batch, units in batches.evaluation_batches(features, run, batch_size, **shapes):
            is_stopped = should_stop()
            if is_stopped:
                return
            yield {name: batch[name] for name in model.config.input_names}, units

    for outputs, units in threads.in_order(lambda item: (call(item[0]), item[1]), until_stopped(), num_calls):
        for row, unit in zip(_rows(outputs), units, strict=False):  # the rows after the last unit fill up the batch
            by_unit[unit] = row if sizes is None else row[: sizes[unit]]
        if progress:
            progress.done(len(units), int(work[units].sum()))
    if is_stopped:
        return None
    is_array = sizes is None and not isinstance(by_unit[0], dict)
    return np.stack(by_unit) if is_array else by_unit


def _rows(outputs):
    """The rows of an array, or of a dict of arrays."""
    if not isinstance(outputs, dict):
        return outputs
    return [dict(zip(outputs, row, strict=True)) for row in zip(*outputs.values(), strict=True)]
