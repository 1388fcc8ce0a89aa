"""The weights of --init_checkpoint, without the parts that do not fit the task of a fine-tuning run."""

import dataclasses

from keras_bert_app.config.finetuning_config import FinetuningConfig
from keras_bert_app.errors import UserError
from keras_bert_app.interop import load, own_layout, surgery
from keras_bert_app.interop.hub import is_handle
from keras_bert_app.interop.weights import Weights
from keras_bert_app.runs import checkpoints, seeds
from keras_bert_app.runs.work_directory import ExistingRun
from keras_bert_app.tasks import context_lstm, registry, transfer
from keras_bert_app.tasks.task import TEXT_TO_TEXT
from pipelines.wordpiece import vocabulary_checks
from pipelines.wordpiece.vocabulary import checked_pieces

# --init_checkpoint may lack these parts: fine-tuning does not use the heads of pre-training, and can learn a pooler.
_NOT_NEEDED = ("pooler", "masked_lm", "next_sentence", "language_model")


def read(init_checkpoint: str, num_layers: int, task: str, context_vectors: str) -> tuple[Weights, list[str], int]:
    """Reads the weights that a run starts from.

    If init_checkpoint holds runs of several seeds, the weights are those of the best seed. The function leaves out an
    output layer of another task. If no record names the task, it leaves out an output layer whose labels do not show
    the task.

    Args:
        init_checkpoint: the model to start from.
        num_layers: number of the lowest layers that the run uses; -1 for all.
        task: name of the run's task.
        context_vectors: value of --context_vectors.

    Returns:
        (Weights, log lines, units of the LSTM that makes context vectors).

    Raises:
        UserError: the model cannot be read, or has no vocabulary.
    """
    directory = init_checkpoint if is_handle(init_checkpoint) else seeds.best(init_checkpoint)
    weights, lines = load.load_weights(directory, allow_missing=_NOT_NEEDED)
    units = 0
    if registry.find(task).kind != TEXT_TO_TEXT:
        weights, lines, units = context_lstm.chosen(weights, lines, context_vectors, init_checkpoint, num_layers)
    earlier = _task_of(directory)
    if (weights.task or weights.own_head) and earlier and not registry.answer_alike(earlier, task):
        lines.append(f"  left out: the output layer, of task {earlier}")
        weights = _without_output_layer(weights)
    elif not earlier:  # no record says what the head has learned
        weights = dataclasses.replace(weights, own_head=None)
        if weights.task and not transfer.says_what_it_answers(weights, registry.find(task)):
            labels = ", ".join(weights.labels[:6]) or "no labels"
            lines.append(f"  left out: the output layer, which does not say what it answers ({labels})")
            weights = _without_output_layer(weights)
    if num_layers >= 0 and num_layers != weights.config.num_hidden_layers:
        weights, line = surgery.lowest_layers(weights, num_layers)
        weights = dataclasses.replace(weights, own_head=None)  # the head may read layers that were removed
        lines.append(f"  {line}")
    if weights.vocabulary is None:
        raise UserError(
            f"--init_checkpoint={init_checkpoint}: has no vocabulary; put the vocab.txt of the model beside the "
            "weights, or convert the model with --vocab_file"
        )
    pieces = checked_pieces(weights.vocabulary, f"of {init_checkpoint}")
    config = weights.config
    vocabulary_checks.verify(pieces, config.tokenizer, config.do_lower_case, f"of {init_checkpoint}")
    return weights, lines, units


def _without_output_layer(weights):
    kept = {path: tensor for path, tensor in weights.tensors.items() if not path.startswith("classifier/")}
    return dataclasses.replace(weights, tensors=kept, task="", labels=(), problem_type="", own_head=None)


def _task_of(directory):
    """The task that a run of this package has learned; "" for other models."""
    if is_handle(directory) or not own_layout.recognizes(directory):
        return ""
    run_directory, _ = checkpoints.find(directory)
    return ExistingRun.read(run_directory).values.get(FinetuningConfig.KEY, {}).get("task", "")
