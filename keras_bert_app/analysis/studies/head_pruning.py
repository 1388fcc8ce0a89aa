"""Heads removed from the weights: what a smaller model costs and gains (Michel et al. 2019, section 4 and table 4).

The heads of least importance go, but the last one of each layer. What is left computes what the whole model computes
with gates of 0 on those heads; its kernels are smaller.
"""

import shlex

import numpy as np
import tensorflow as tf

from keras_bert_app.analysis import head_tasks, pruned_exports
from keras_bert_app.analysis.findings import Findings, Table
from keras_bert_app.analysis.studies import head_importance
from keras_bert_app.config.bert_config import PARTS
from keras_bert_app.drawing.bars import draw_results
from keras_bert_app.errors import UserError
from keras_bert_app.interop import load, surgery
from keras_bert_app.interop.weights import Weights
from keras_bert_app.modeling.encoder import gated_heads
from keras_bert_app.modeling.pretrainer import BertPretrainer
from keras_bert_app.modeling.task_model import BertTaskModel

SUMMARY = "heads removed for real: parameters, latency and score beside the whole model's (--input_file or --workdir)"
NEEDS = ()
MODEL_FROM = "workdir"

_SAME = 1e-5  # float32: the products have other sizes, and add up in another order
_NUM_ROWS, _LENGTH = (1, 16), 128


def check(options):
    """Raises UserError where there is nothing to score heads on, or no share of them to go."""
    if not 0 < options.prune_percent < 100:
        raise UserError(f"--prune_percent={options.prune_percent}: expected 1 to 99, the share of heads that go")
    head_tasks.check(options)


def run(subject, options, log):
    """Findings; options.workdir or else input_file, prune_percent, max_sentences, seed."""
    check(options)
    task = head_tasks.load(subject, options, log)
    counts = task.model.config.head_counts
    order = np.argsort(head_importance.importance(task, log), kind="stable")
    heads = chosen(order, counts, round(len(order) * options.prune_percent / 100))
    smaller, line = pruned_model(task.model, heads)
    log(line)

    gates, call = head_importance.gated_call(task)
    whole_scores = task.score(call)
    places = [head_importance.place_of(head, counts) for head in range(sum(counts))]
    gates.assign([float(head not in heads.get(layer, ())) for layer, head in places])
    gated_scores, pruned_scores = (
        task.score(call),
        task.score(tf.function(lambda batch: task.outputs(smaller, batch), reduce_retracing=True, autograph=False)),
    )
    difference = largest_difference(task.model.encoder, smaller.encoder, tf.split(gates, counts), task.inputs)
    log("exporting both encoders, and timing them")
    length = min(_LENGTH, task.model.config.max_position_embeddings)
    costs = pruned_exports.costs((task.model.encoder, smaller.encoder), _NUM_ROWS, length)

    names = list(whole_scores)
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
            _of_layers(model),
            size / 1e6,
            *milliseconds,
            *(scores[key] for key in names),
        ]
        for name, model, scores, (size, milliseconds) in zip(
            ("whole", "pruned"), (task.model, smaller), (whole_scores, pruned_scores), costs
        )
    ]
    rows.append(["whole, those heads closed", *[None] * (4 + len(_NUM_ROWS)), *(gated_scores[key] for key in names)])
    flag = written(heads)
    fits = "within" if difference <= _SAME else "NOT within"
    speeds = " and ".join(f"{whole / cut:.2f}" for whole, cut in zip(*(milliseconds for _, milliseconds in costs)))
    remarks = [
        f"{task.data}.",
        *task.remarks,
        f"{line}. States of the pruned encoder and of the whole one with those heads closed differ by up to {difference:.1e}, "
        f"{fits} {_SAME:.0e}.",
        "MB and ms: of each encoder alone, without the output layer, exported over ids as a SavedModel: all its files, and a call "
        f"of it loaded again, rows x tokens, median of {pruned_exports.REPEATS} calls, each in turn with the other's. The pruned "
        f"one is {speeds} times as fast.",
        f"To write it: {command(options, task.model, flag)}",
    ]
    values = {
        "prune_heads": flag,
        "head_counts": list(smaller.config.head_counts),
        "difference": difference,
        "bytes_of_export": [size for size, _ in costs],
        "milliseconds": [milliseconds for _, milliseconds in costs],
        "scores": {"whole": whole_scores, "closed": gated_scores, "pruned": pruned_scores},
    }
    title = f"Heads removed: {task.subject_name}, {task.name}"
    panels = [
        (columns[at], {"pruned": float(rows[1][at])}, {"whole": float(rows[0][at])}) for at in range(2, len(columns))
    ]
    return Findings(
        "pruning",
        title,
        [Table(f"{options.prune_percent} % of the heads removed", columns, rows)],
        remarks,
        {"pruning.png": draw_results(panels, title)},
        values,
        task.origin,
    )


def command(options, model, flag):
    """The command that writes the pruned model: of a fine-tuned run a run, else a model in our own layout."""
    source = options.workdir or options.init_checkpoint or "MODEL"
    missing = [] if options.workdir else [part for part in PARTS[1:] if part not in model.parts]
    allowed = f" --allow_missing={','.join(missing)}" if missing else ""
    quoted = (shlex.quote(text) for text in (source, f"{source.rstrip('/')}-pruned", flag))
    return (
        "python -m keras_bert_app.cli.convert --input={} --to=workdir --output={} --prune_heads={}".format(*quoted)
        + allowed
    )


def chosen(order, counts, number):
    """dict layer -> list of heads: the first `number` of an order of all heads, but the last that is left of a layer.

    Args:
        order: heads of all layers, to go first ones first. counts: heads of each layer.
    """
    left, found = list(counts), {}
    for head in order.tolist():
        layer, place = head_importance.place_of(head, counts)
        if number and left[layer] > 1:
            found.setdefault(layer, []).append(place)
            left[layer], number = left[layer] - 1, number - 1
    return {layer: sorted(found[layer]) for layer in sorted(found)}


def written(heads):
    """As convert --prune_heads takes them."""
    return ";".join(f"{layer}:{','.join(map(str, of_layer))}" for layer, of_layer in heads.items())


def pruned_model(model, heads):
    """(a model of the same kind without some heads, a line that says so).

    Args:
        model: BertPretrainer or BertTaskModel. heads: see surgery.prune_heads.
    """
    weights = Weights(model.config, {variable.path: variable.numpy() for variable in model.weights})
    weights, line = surgery.prune_heads(weights, heads)
    smaller = (
        BertTaskModel(weights.config, model.head)
        if isinstance(model, BertTaskModel)
        else BertPretrainer(weights.config, parts=model.parts)
    )
    load.assign(smaller, weights)
    return smaller, line


def largest_difference(encoder, smaller, gates, inputs):
    """The largest difference of any layer's states, padding left out.

    Args:
        gates: of the heads of `encoder`, for each layer [N]. inputs: a batch.
    """
    # An example may be of several rows [B, G, S].
    inputs = {
        name: tf.reshape(inputs[name], [-1, inputs[name].shape[-1]])
        for name in ("input_word_ids", "input_mask", "input_type_ids")
    }
    with gated_heads(encoder, gates):
        theirs = encoder(inputs)["encoder_outputs"]
    ours = smaller(inputs)["encoder_outputs"]
    is_token = inputs["input_mask"].numpy() > 0
    return max(float(np.abs(a.numpy() - b.numpy())[is_token].max()) for a, b in zip(ours, theirs))


def _of_layers(model):
    return sum(layer.count_params() for layer in model.encoder.transformer_layers)
