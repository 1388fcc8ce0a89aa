"""What our training step costs as the work grows: rows, length, layers and width, one at a time, drawn.

python -m benchmarks.training_slopes --output_dir=runs/bench

Around --base, LAYERSxHIDDEN:ROWS:LENGTH, one number is doubled at a time. Beside each figure stands the milliseconds a token,
which is level where the cost grows with the tokens alone. A step is as benchmarks.training_step has it.
"""

import os

from absl import flags

from benchmarks import training_step, turns
from benchmarks.resumable import results_of
from keras_bert_app.cli import app
from keras_bert_app.errors import UserError

_BASE = flags.DEFINE_string("base", "2x256:16:64", "LAYERSxHIDDEN:ROWS:LENGTH, what is doubled from.")
_DOUBLINGS = flags.DEFINE_integer("doublings", 2, "How often each number is doubled.", lower_bound=1)
_SLOPES_PRECISION = flags.DEFINE_enum("slopes_precision", "float32", ("float32", "bfloat16"), "Compute type.")
_WHAT = ("layers", "hidden size", "rows", "length")


def main(arguments):
    del arguments
    training_step.parsed(f"{_BASE.value}:{_SLOPES_PRECISION.value}")
    size, rows, length = _BASE.value.split(":")
    if "x" not in size:
        raise UserError(f"--base={_BASE.value}: expected LAYERSxHIDDEN:ROWS:LENGTH, such as 2x256:16:64")
    base = [*(int(number) for number in size.split("x")), int(rows), int(length)]
    series = {what: [base[:place] + [base[place] * 2 ** power] + base[place + 1:] for power in range(_DOUBLINGS.value + 1)]
              for place, what in enumerate(_WHAT)}
    names = {what: [f"{a}x{b}:{c}:{d}:{_SLOPES_PRECISION.value}" for a, b, c, d in numbers] for what, numbers in series.items()}
    flags.FLAGS.peers = []
    flags.FLAGS.ours = ["parts"]
    os.environ.update(TF_ENABLE_ONEDNN_OPTS="1", TF_CPP_MIN_LOG_LEVEL="3")
    path = os.path.join(flags.FLAGS.output_dir, "training_slopes")
    steps = list(dict.fromkeys(step for found in names.values() for step in found))
    for step in steps:
        training_step.parsed(step)
    done = results_of(steps, lambda step: training_step.measured(*training_step.parsed(step)), f"{path}.json")
    milliseconds = {step: turns.median(figures["ours parts"]["rounds"]) * 1e3 for step, figures in done.items()}
    lines = list(table(names, milliseconds))
    print("\n" + "\n".join(lines))
    with open(f"{path}.md", "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
    draw(series, names, milliseconds, f"{path}.png")


def table(names, milliseconds):
    """Markdown: a line for each step of each series."""
    yield "| what grows | step | ms | ms by the one before | microseconds a token |"
    yield "|---|---|---|---|---|"
    for what, steps in names.items():
        before = None
        for step in steps:
            _, rows, length, _ = step.split(":")
            growth = f"{milliseconds[step] / before:.2f}" if before else ""
            before = milliseconds[step]
            yield f"| {what} | {step} | {before:,.0f} | {growth} | {before / int(rows) / int(length) * 1e3:,.1f} |"


def draw(series, names, milliseconds, path):
    """A panel for each of what grows, both axes in doublings."""
    from keras_bert_app.drawing.figures import picture

    with picture(11, 3, "What a training step costs as the work grows\nmilliseconds; dashed: as fast as what grows") as (figure, image):
        for place, (axes, what) in enumerate(zip(figure.subplots(1, len(_WHAT), sharey=True), _WHAT)):
            sizes = [numbers[place] for numbers in series[what]]
            times = [milliseconds[step] for step in names[what]]
            axes.plot(sizes, times, marker="o")
            axes.plot(sizes, [times[0] * size / sizes[0] for size in sizes], linestyle="--", color="C7")
            axes.set_xscale("log", base=2)
            axes.set_yscale("log", base=2)
            axes.set_xticks(sizes, [str(size) for size in sizes])
            axes.yaxis.set_major_formatter("{x:,.0f}")
            axes.set_title(what)
    with open(path, "wb") as file:
        file.write(image.getvalue())


if __name__ == "__main__":
    app.run(main, __doc__)
