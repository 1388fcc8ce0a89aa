"""What an optimizer's update takes: all weights of a published size, one optimizer and precision after the other in each round.

python -m benchmarks.step.update_time
python -m benchmarks.step.update_time --sizes=small --updates=adamw:none,adamw:parts,muon:parts,muon:parts:bfloat16

An entry of --updates is OPTIMIZER:COMPILED[:PRECISION], COMPILED what --jit_compile is, none or parts. The gradients are random and
stay the same; clipping and decay are in the update. Prints Markdown: medians of all updates between the lowest and highest of the
rounds' medians and, by round, how many times as long as the first entry's they took.
"""

import gc

from absl import flags

from benchmarks.common.report import draw_bars, in_words, keep
from benchmarks.common.this_machine import machine
from benchmarks.common.turns import in_turn, milliseconds, ratio, timed
from keras_bert_app.cli.common import app
from keras_bert_app.config.bert_config import BertConfig
from keras_bert_app.config.pretraining_config import PretrainingConfig
from keras_bert_app.errors import UserError

flags.DEFINE_list("sizes", ["tiny", "mini", "small"], "Published sizes.")
_UPDATES = flags.DEFINE_list(
    "updates",
    ["adamw:parts", "lamb:parts", "adafactor:parts", "muon:parts", "muon:parts:bfloat16"],
    "What to time: OPTIMIZER:COMPILED[:PRECISION].",
)
_ROUNDS = flags.DEFINE_integer("rounds", 7, "Rounds in which all run in turn.", lower_bound=1)
_SECONDS = flags.DEFINE_float("seconds", 1.0, "About how long each runs in a round.", lower_bound=0.01)
_OUTPUT_FILE = flags.DEFINE_string(
    "output_file", "", "Where to write every figure as JSON; table and picture beside it."
)


def main(arguments):
    del arguments
    sizes, updates = app.required("sizes", "updates")
    runs = {entry: parsed(entry) for entry in updates}
    configs = {size: BertConfig.of_size(size) for size in sizes}
    with app.quiet_start():
        import tensorflow as tf  # noqa: F401
    first = updates[0]
    figures = {"machine": machine(("tensorflow", "keras")), "sizes": {}}
    lines = [
        f"| size | update | ms, median | lowest to highest | times {first}, median | lowest to highest |",
        "|---" * 6 + "|",
    ]
    print("\n".join([in_words(figures["machine"]), "", *lines]), flush=True)
    for size, config in configs.items():
        found = in_turn(
            {entry: timed(update_of(config, run), None) for entry, run in runs.items()}, _ROUNDS.value, _SECONDS.value
        )
        figures["sizes"][size] = found
        of_size = list(table(size, found))
        print("\n".join(of_size), flush=True)
        lines += of_size
        gc.collect()  # the weights of this size
    keep(_OUTPUT_FILE.value, figures, lines, lambda path: draw(figures["sizes"], path))


def parsed(entry):
    """The PretrainingConfig of an entry of --updates."""
    optimizer, *rest = entry.split(":")
    if not 1 <= len(rest) <= 2 or rest[0] not in ("none", "parts"):
        raise UserError(
            f"--updates={entry}: expected OPTIMIZER:none or OPTIMIZER:parts, and :PRECISION where it is not float32, such "
            "as muon:parts:bfloat16"
        )
    return PretrainingConfig(
        optimizer=optimizer, jit_compile=rest[0], precision=rest[1] if rest[1:] else "float32"
    ).resolved()


def update_of(config, run):
    """A function that makes an update of all weights of a BertPretrainer, and waits for it."""
    import tensorflow as tf

    from keras_bert_app.modeling import backend
    from keras_bert_app.modeling.pretrainer import BertPretrainer
    from keras_bert_app.training.optimizers import choice

    variables = {variable.path: variable.value for variable in BertPretrainer(config).trainable_variables}
    optimizer = choice.make_optimizer(run, variables, config.num_hidden_layers)
    gradients = [
        tf.random.stateless_normal(variable.shape, [1, number], stddev=1e-3)
        for number, variable in enumerate(variables.values())
    ]

    @tf.function(autograph=False)
    def update(step):
        with backend.compiled(run.jit_compile):
            optimizer.apply(gradients, run.learning_rate, step, tf.constant(True), tf.constant(0.5))
        return step + 1

    step = tf.constant(0)

    def next_update(_):
        nonlocal step
        step = update(step)
        step.numpy()

    return next_update


def table(size, seconds):
    """Markdown lines of a size. Args: seconds: entry of --updates -> for each round the seconds of its updates."""
    first = next(iter(seconds.values()))
    for entry, rounds in seconds.items():
        middle, low, high = milliseconds(rounds)
        times, least, most = ratio(rounds, first)
        yield f"| {size} | {entry} | {middle:.1f} | {low:.1f} to {high:.1f} | {times:.2f} | {least:.2f} to {most:.2f} |"


def draw(sizes, path):
    """Bars of the updates, a panel for each size; the first entry's is grey."""
    panels = {
        size: {entry: milliseconds(rounds) for entry, rounds in seconds.items()} for size, seconds in sizes.items()
    }
    draw_bars(
        panels,
        "An optimizer's update of all weights\nmilliseconds, less is better",
        path,
        lambda name: name != _UPDATES.value[0],
    )


if __name__ == "__main__":
    app.run(main, __doc__)
