"""Heads removed from the weights: the cost and the gain of a smaller model.

See Michel et al. 2019, section 4 and table 4. The analysis removes the least important heads, but keeps at least one
head in each layer. The smaller model has smaller kernels. It computes the same as the whole model with gates of 0 on
the removed heads.
"""

import shlex
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from keras_bert_app.analysis import head_tasks, pruned_exports
from keras_bert_app.analysis.encoders import Subject
from keras_bert_app.analysis.findings import Findings, Table
from keras_bert_app.analysis.options import Options
from keras_bert_app.analysis.sentence_bootstrap import written
from keras_bert_app.analysis.studies import head_importance
from keras_bert_app.config.bert_config import INPUTS
from keras_bert_app.drawing.bars import draw_results
from keras_bert_app.errors import UserError
from keras_bert_app.interop import load, surgery
from keras_bert_app.interop.weights import Weights
from keras_bert_app.modeling.architectures import make_pretrainer
from keras_bert_app.modeling.encoder import BertEncoder, gated_heads
from keras_bert_app.modeling.pretrainer import BertPretrainer
from keras_bert_app.modeling.task_model import BertTaskModel
from keras_bert_app.training.evaluation import wilson_interval

SUMMARY = "heads removed from the weights: parameters, latency and score before and after (--input_file or --workdir)"
NEEDS = ()
TAKES = ("input_file", "workdir", "prune_percent", "max_sentences", "seed")
MODEL_FROM = "workdir"

_SAME = 1e-5  # float32: matrix products of different sizes add in different orders
_NUM_ROWS, _LENGTH = (1, 16), 128


def check(options: Options) -> None:
    """Checks the options before a model is loaded.

    Args:
        options: Options.

    Raises:
        UserError: the options name no data to score heads on, or no valid share of heads to remove.
    """
    if not 0 < options.prune_percent < 100:
        raise UserError(f"--prune_percent={options.prune_percent}: expected 1 to 99, the percentage of heads to remove")
    head_tasks.check(options)


def run(subject: Subject | None, options: Options, log: Callable[[str], None]) -> Findings:
    """Removes the least important heads, and compares size, latency and score with the whole model.

    Args:
        subject: Subject or None. The model to look into; not needed with a workdir.
        options: Options. Uses workdir or else input_file; prune_percent, max_sentences and seed.
        log: Callable. Receives progress lines.

    Returns:
        Findings.

    Raises:
        UserError: see check; or the model has no masked-LM head.
    """
    check(options)
    task = head_tasks.load(subject, options, log)
    counts = task.model.config.head_counts
    order = np.argsort(head_importance.importance(task, log), kind="stable")
    heads = heads_to_prune(order, counts, round(len(order) * options.prune_percent / 100))
    smaller, surgery_line = pruned_model(task.model, heads)
    log(surgery_line)
    scores, difference = _compare_scores(task, smaller, heads)
    log("exporting both encoders, and timing them")
    length = min(_LENGTH, task.model.config.max_position_embeddings)
    costs = pruned_exports.costs((task.model.encoder, smaller.encoder), _NUM_ROWS, length)
    table = _table(task, smaller, scores, costs, length, options)
    title = f"Heads removed: {task.subject_name}, {task.name}"
    whole, pruned, _ = table.rows
    panels = [
        (table.columns[at], {"pruned": float(pruned[at])}, {"whole": float(whole[at])})
        for at in range(2, len(table.columns))
    ]
    flag = prune_heads_flag(heads)
    return Findings(
        "pruning",
        title,
        [table],
        [
            f"{task.data}.",
            *task.remarks,
            *_remarks(surgery_line, difference, costs),
            *_accuracy_remark(scores, task.num_scored),
            f"To write it: {convert_command(options, task.model, flag)}",
        ],
        {"pruning.png": draw_results(panels, title)},
        {
            "prune_heads": flag,
            "head_counts": list(smaller.config.head_counts),
            "difference": difference,
            "bytes_of_export": [size for size, _ in costs],
            "milliseconds": [milliseconds for _, milliseconds in costs],
            "scores": scores,
        },
        task.origin,
    )


def _compare_scores(task, smaller, heads):
    """Returns (dict of whole, closed and pruned -> dict of scores, result of largest_difference)."""
    counts = task.model.config.head_counts
    gates, call = head_importance.gated_call(task)
    scores = {"whole": task.score(call)}
    places = [head_importance.place_of(head, counts) for head in range(sum(counts))]
    gates.assign([float(head not in heads.get(layer, ())) for layer, head in places])
    scores["closed"] = task.score(call)
    scores["pruned"] = task.score(
        tf.function(lambda batch: task.outputs(smaller, batch), reduce_retracing=True, autograph=False)
    )
    return scores, largest_difference(task.model.encoder, smaller.encoder, tf.split(gates, counts), task.inputs)


def _table(task, smaller, scores, costs, length, options):
    names = list(scores["whole"])
    columns = (
        "",
        "heads",
        "parameters",
        "of layers",
        "MB of export",
        *(f"ms, {number} x {length}" for number in _NUM_ROWS),
        *names,
    )
    rows = [
        [
            name,
            sum(model.config.head_counts),
            model.count_params(),
            _layer_parameters(model),
            size / 1e6,
            *milliseconds,
            *(scores[name][key] for key in names),
        ]
        for name, model, (size, milliseconds) in zip(("whole", "pruned"), (task.model, smaller), costs, strict=True)
    ]
    rows.append(
        ["whole, these heads closed", *[None] * (4 + len(_NUM_ROWS)), *(scores["closed"][key] for key in names)]
    )
    return Table(f"{options.prune_percent} % of the heads removed", columns, rows)


def _remarks(surgery_line, difference, costs):
    fits = "within" if difference <= _SAME else "NOT within"
    times = zip(*(milliseconds for _, milliseconds in costs), strict=True)
    speeds = " and ".join(f"{whole / pruned:.2f}" for whole, pruned in times)
    return [
        f"{surgery_line}. With these heads closed, the states of the whole encoder differ from those of the pruned "
        f"encoder by at most {difference:.1e}, {fits} {_SAME:.0e}.",
        "MB and ms are those of the encoders alone, without the output layer, exported as SavedModels that take ids. "
        f"MB counts all files. ms is the median of {pruned_exports.REPEATS} calls with rows x tokens, after some calls "
        f"that do not count; the calls of both encoders alternate. The pruned encoder is {speeds} times as fast.",
    ]


def _accuracy_remark(scores, num_scored):
    """A line with the intervals of both accuracies, for tasks that have one."""
    if "accuracy" not in scores["whole"]:
        return []
    whole, pruned = (scores[name]["accuracy"] for name in ("whole", "pruned"))
    bounds = [written(wilson_interval(accuracy, num_scored)) for accuracy in (whole, pruned)]
    return [
        f"Accuracy {whole:.4f} ({bounds[0]}) of the whole model, {pruned:.4f} ({bounds[1]}) of the pruned one, over "
        f"{num_scored:,} answers (Wilson)."
    ]


def convert_command(options: Options, model: BertPretrainer | None, flag: str) -> str:
    """Builds the command that writes the pruned model.

    For a fine-tuned run the command writes a run. Otherwise it writes a model in this package's layout.

    Args:
        options: Options. Uses workdir or else init_checkpoint.
        model: BertPretrainer, or None for a fine-tuned run.
        flag: str. The value of --prune_heads.

    Returns:
        str.
    """
    source = options.workdir or options.init_checkpoint or "MODEL"
    missing = [] if options.workdir else [part for part in model.config.parts[1:] if part not in model.parts]
    allowed = f" --allow_missing={','.join(missing)}" if missing else ""
    quoted = (shlex.quote(text) for text in (source, f"{source.rstrip('/')}-pruned", flag))
    return (
        "python -m keras_bert_app.cli.convert --input={} --to=workdir --output={} --prune_heads={}".format(*quoted)
        + allowed
    )


def heads_to_prune(order: np.ndarray, counts: Sequence[int], number: int) -> dict[int, list[int]]:
    """Takes the first heads of an order, but leaves at least one head in each layer.

    Args:
        order: int [heads]. All heads, in the order of their removal.
        counts: sequence of int. The number of heads of each layer.
        number: int. How many heads to take.

    Returns:
        dict of layer -> list of heads.
    """
    left, taken = list(counts), {}
    for head in order.tolist():
        layer, place = head_importance.place_of(head, counts)
        if number and left[layer] > 1:
            taken.setdefault(layer, []).append(place)
            left[layer], number = left[layer] - 1, number - 1
    return {layer: sorted(taken[layer]) for layer in sorted(taken)}


def prune_heads_flag(heads: dict[int, list[int]]) -> str:
    """Writes heads as convert --prune_heads reads them.

    Args:
        heads: dict of layer -> list of heads.

    Returns:
        str.
    """
    return ";".join(f"{layer}:{','.join(map(str, layer_heads))}" for layer, layer_heads in heads.items())


def pruned_model(
    model: BertPretrainer | BertTaskModel, heads: dict[int, list[int]]
) -> tuple[BertPretrainer | BertTaskModel, str]:
    """Removes heads from a model.

    Args:
        model: BertPretrainer or BertTaskModel.
        heads: dict of layer -> list of heads. See surgery.prune_heads.

    Returns:
        (model of the same kind, str): the smaller model, and a line that says what was removed.
    """
    weights = Weights(model.config, {variable.path: variable.numpy() for variable in model.weights})
    weights, line = surgery.prune_heads(weights, heads)
    smaller = (
        BertTaskModel(weights.config, model.head)
        if isinstance(model, BertTaskModel)
        else make_pretrainer(weights.config, parts=model.parts)
    )
    load.assign(smaller, weights)
    return smaller, line


def largest_difference(encoder: BertEncoder, smaller: BertEncoder, gates: list, inputs: dict) -> float:
    """Computes the largest difference between the states of any layer of two encoders, without padding.

    Args:
        encoder: BertEncoder. The whole encoder.
        smaller: BertEncoder. The pruned encoder.
        gates: list of [N], one for each layer. The gates of the whole encoder.
        inputs: dict. A batch.

    Returns:
        float.
    """
    # An example may have several rows [B, G, S].
    inputs = {name: tf.reshape(inputs[name], [-1, inputs[name].shape[-1]]) for name in INPUTS}
    with gated_heads(encoder, gates):
        whole_states = encoder(inputs)["encoder_outputs"]
    pruned_states = smaller(inputs)["encoder_outputs"]
    is_token = inputs["input_mask"].numpy() > 0
    return max(
        float(np.abs(pruned_state.numpy() - whole_state.numpy())[is_token].max())
        for pruned_state, whole_state in zip(pruned_states, whole_states, strict=True)
    )


def _layer_parameters(model):
    return sum(layer.count_params() for layer in model.encoder.transformer_layers)
