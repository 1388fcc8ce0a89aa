"""What a forward pass takes with a classifier's head: as plain ops, with compiled parts, and compiled as a whole.

python -m benchmarks.step.forward_time --encoder=MODEL
python -m benchmarks.step.forward_time --encoder=MODEL --shapes=1x16,32x128 --precisions=bfloat16

The function is the one that evaluations and predictions of a fine-tuned run call, on full rows of random ids. All ways take turns,
round after round; before that their logits are compared. What is chosen where: keras_bert_app/training/forward.py.
"""

from absl import flags

from benchmarks.common.report import draw_bars, in_words, keep
from benchmarks.common.this_machine import machine
from benchmarks.common.this_machine import precisions as precisions_here
from benchmarks.common.turns import in_turn, median, milliseconds, ratio, timed
from keras_bert_app.cli.common import app
from keras_bert_app.errors import UserError

flags.DEFINE_string("encoder", "", "The pre-trained model, in any layout that convert reads.")
flags.DEFINE_list("shapes", ["32x16", "32x128"], "Rows x tokens.")
_WAYS = {"plain": "", "parts": "parts", "step": "step"}
_PRECISIONS = flags.DEFINE_list("precisions", [], "Compute types; by default those that the CPU multiplies.")
_ROUNDS = flags.DEFINE_integer("rounds", 7, "Rounds in which all run in turn.", lower_bound=1)
_SECONDS = flags.DEFINE_float("seconds", 1.0, "About how long each runs in a round.", lower_bound=0.01)
_OUTPUT_FILE = flags.DEFINE_string(
    "output_file", "", "Where to write every figure as JSON; table and picture beside it."
)

# Of logits, relative to the largest one.
_AGREEMENT = {"float32": 1e-4, "bfloat16": 5e-2}
_HEAD = "| rows x tokens | precision | way | ms, median | of plain, median | lowest to highest |"


def main(arguments):
    del arguments
    (encoder, shapes), precisions = app.required("encoder", "shapes"), _PRECISIONS.value or precisions_here()
    shapes = [parsed(shape) for shape in shapes]
    for precision in precisions:
        if precision not in _AGREEMENT:
            raise UserError(f"--precisions={precision}: expected of {', '.join(_AGREEMENT)}")
    with app.quiet_start():
        from keras_bert_app.interop import load
    weights, _ = load.load_weights(encoder, allow_missing=("pooler", "masked_lm", "next_sentence"))
    for rows, length in shapes:
        if length > weights.config.max_position_embeddings:
            raise UserError(
                f"--shapes={rows}x{length}: {encoder} has {weights.config.max_position_embeddings} positions; give so many "
                "tokens at most"
            )
    models = {precision: classifier(weights, precision) for precision in precisions}
    figures = {"machine": machine(("tensorflow", "keras")), "config": weights.config.to_dict(), "shapes": {}}
    lines = [_HEAD, "|---" * 6 + "|"]
    print("\n".join([in_words(figures["machine"]), "", *lines]), flush=True)
    for rows, length in shapes:
        calls = {
            (precision, way): call_of(model, compiled, weights.config, rows, length)
            for precision, model in models.items()
            for way, compiled in _WAYS.items()
        }
        check_same({key: call(None) for key, call in calls.items()})
        found = in_turn({key: timed(call, None) for key, call in calls.items()}, _ROUNDS.value, _SECONDS.value)
        seconds = {precision: {way: found[precision, way] for way in _WAYS} for precision in models}
        figures["shapes"][f"{rows} x {length}"] = seconds
        of_shape = list(table(f"{rows} x {length}", seconds))
        print("\n".join(of_shape), flush=True)
        lines += of_shape
    keep(_OUTPUT_FILE.value, figures, lines, lambda path: draw(figures["shapes"], path))


def parsed(shape):
    """(rows, tokens) of an entry of --shapes."""
    rows, _, length = shape.partition("x")
    if not (rows.isdecimal() and length.isdecimal() and int(rows) and int(length) >= 2):
        raise UserError(f"--shapes={shape}: expected ROWSxTOKENS, such as 32x128")
    return int(rows), int(length)


def classifier(weights, precision):
    """The encoder with an output layer of two classes."""
    from keras_bert_app.interop import load
    from keras_bert_app.modeling.task_model import TEXT, BertTaskModel, Head
    from keras_bert_app.training.strategies import KERAS_POLICIES

    model = BertTaskModel(weights.config, Head(TEXT, 2), dtype=KERAS_POLICIES[precision])
    load.assign(model, weights)
    return model


def call_of(model, compiled, config, rows, length):
    """A function that gives the logits [rows, 2] of one batch."""
    import numpy as np
    import tensorflow as tf

    from keras_bert_app.training import forward

    ids = np.random.RandomState(3).randint(0, config.vocab_size, (rows, length)).astype(np.int32)
    batch = {
        "input_word_ids": tf.constant(ids),
        "input_mask": tf.ones([rows, length], tf.int32),
        "input_type_ids": tf.zeros([rows, length], tf.int32),
    }
    call = forward.make_prediction_call(tf.distribute.get_strategy(), model, compiled)
    return lambda _: call(batch)


def check_same(logits):
    """Raises UserError where the ways of one precision differ. Args: logits: (precision, way) -> array."""
    for (precision, way), values in logits.items():
        expected = logits[precision, "plain"]
        difference = abs(values - expected).max() / abs(expected).max()
        if not difference <= _AGREEMENT[precision]:
            raise UserError(
                f"logits of {precision}, {way} differ from the plain ones by {difference:.1e} of the largest; expected "
                f"{_AGREEMENT[precision]:g} at most: not the same work"
            )


def table(shape, seconds):
    """Markdown lines of a shape. Args: seconds: precision -> way -> for each round the seconds of its calls."""
    for precision, ways in seconds.items():
        for way, rounds in ways.items():
            middle, low, high = ratio(rounds, ways["plain"])
            yield f"| {shape} | {precision} | {way} | {median(rounds) * 1e3:.1f} | {middle:.2f} | {low:.2f} to {high:.2f} |"


def draw(shapes, path):
    """Bars of the ways in each precision, a panel for each shape; the plain ones are grey."""
    panels = {
        shape: {
            f"{precision}, {way}": milliseconds(rounds)
            for precision, ways in seconds.items()
            for way, rounds in ways.items()
        }
        for shape, seconds in shapes.items()
    }
    draw_bars(
        panels,
        "A forward pass with a classifier's head, rows x tokens\nmilliseconds, less is better",
        path,
        lambda name: not name.endswith("plain"),
    )


if __name__ == "__main__":
    app.run(main, __doc__)
