"""A model's answers to the units of Features."""

import numpy as np

from keras_bert_app.modeling.task_model import INPUTS, TOKENS
from keras_bert_app.tasks import batches


def unit_logits(call, model, features, run, batch_size, should_stop=lambda: False, progress=None, **shapes):
    """The logits of each unit, every one once.

    Args:
        call: of forward.make_prediction_call. batch_size: divisible by the replicas. should_stop: asked before each batch.
        progress: Progress whose work is the units' tokens, told of each batch. shapes: of batches.evaluation_batches.

    Returns:
        [U, n] (on CHOICES [U, G]); for a head on TOKENS a list of U arrays [tokens of the row, n]; None when stopped.
    """
    found = [None] * features.num_units
    num_tokens, work = features.row_lengths(), features.work()
    for batch, units in batches.evaluation_batches(features, run, batch_size, **shapes):
        if should_stop():
            return None
        logits = call({name: batch[name] for name in INPUTS})
        for row, unit in zip(logits, units):
            found[unit] = row[: num_tokens[unit]] if model.head.stands_on == TOKENS else row
        if progress:
            progress.done(len(units), int(work[units].sum()))
    return found if model.head.stands_on == TOKENS else np.stack(found)
