"""What a training step costs as the work grows: layers, width, rows and length, one at a time, drawn.

python -m benchmarks.step.training_slopes --output_dir=runs/bench
python -m benchmarks.step.training_slopes --peers=keras_hub --slopes_precision=bfloat16

Around --base, LAYERSxHIDDEN:ROWS:LENGTH, one number is doubled at a time, the length up to --longest. All steps of a series take
turns, round after round, so that a drift of the machine is in each of them. Beside each figure stand its times by those of the one
before, round by round, and the microseconds a token, which are level where the cost grows with the tokens alone. A step is as
benchmarks.step.training_step has it, which has the flags --ours (here parts by default), --peers (none by default), --rounds, --seconds and
those that name the peers' interpreters.

Results go to OUTPUT_DIR/training_slopes.json, .md and .png; a series that is there is not measured again.
"""

import contextlib

from absl import flags

from benchmarks.common import turns
from benchmarks.common.resumable import results_of
from benchmarks.step import step_contenders, training_step
from benchmarks.step.training_step_table import is_ours, spread_of
from keras_bert_app.cli.common import app
from keras_bert_app.errors import UserError

_BASE = flags.DEFINE_string("base", "2x256:16:64", "LAYERSxHIDDEN:ROWS:LENGTH, what is doubled from.")
_DOUBLINGS = flags.DEFINE_integer("doublings", 2, "How often layers, width and rows are doubled.", lower_bound=1)
_LONGEST = flags.DEFINE_integer("longest", 512, "The length is doubled up to so many tokens.", lower_bound=8)
_SLOPES_PRECISION = flags.DEFINE_enum("slopes_precision", "float32", step_contenders.PRECISIONS, "Compute type.")
flags.set_default(training_step.PEERS_FLAG, [])
flags.set_default(training_step.OURS_FLAG, ["parts"])
_WHAT = ("layers", "hidden size", "rows", "length")


def main(arguments):
    del arguments
    series = series_of(_BASE.value, _DOUBLINGS.value, _LONGEST.value)
    training_step.prepare()
    settings = training_step.settings_of_run()
    done = results_of(
        _WHAT,
        lambda what: measured(series[what]),
        training_step.output_path("training_slopes.json"),
        {**settings, "series": series, "precision": _SLOPES_PRECISION.value},
        shown=lambda figures: f"{len(figures)} steps measured",
    )
    training_step.write_lines("training_slopes.md", settings, table(done))
    draw(done, training_step.output_path("training_slopes.png"))


def series_of(base, doublings, longest):
    """dict of what grows -> steps as of step_contenders.parsed, the base first.

    Raises:
        UserError: a step that cannot be.
    """
    step_contenders.parsed(base, "base")
    size, rows, length, *more = base.split(":")
    if "x" not in size or more:
        raise UserError(f"--base={base}: expected LAYERSxHIDDEN:ROWS:LENGTH, such as 2x256:16:64")
    numbers = [*(int(number) for number in size.split("x")), int(rows), int(length)]
    if longest < 2 * numbers[-1]:
        raise UserError(f"--longest={longest}: expected twice the {numbers[-1]} tokens of --base={base} at least")
    times = dict.fromkeys(_WHAT, doublings) | {"length": (longest // numbers[-1]).bit_length() - 1}
    series = {}
    for place, what in enumerate(_WHAT):
        grown = [
            numbers[:place] + [numbers[place] * 2**power] + numbers[place + 1 :] for power in range(times[what] + 1)
        ]
        series[what] = [f"{a}x{b}:{c}:{d}" for a, b, c, d in grown]
        for step in series[what]:
            step_contenders.parsed(step, "base doubled, a step")
    return series


def measured(steps):
    """dict step -> name of a contender -> figures; all of them take turns."""
    entrants, figures = {}, {}
    with contextlib.ExitStack() as stack:
        for step in steps:
            config, rows, length, _ = step_contenders.parsed(step)
            files = stack.enter_context(step_contenders.written(config, rows, length))
            looked = training_step.looks(step, files, (_SLOPES_PRECISION.value,), config.num_hidden_layers)
            for contender, look in looked.items():
                entrants[step, contender.name] = contender, files
                figures.setdefault(step, {})[contender.name] = look
        needed = sum(look["resident_alone"] for looks in figures.values() for look in looks.values())
        if needed > training_step.free_memory():
            raise UserError(
                f"{len(entrants)} processes that take turns would need {needed / 1e9:.1f} GB; of memory "
                f"{training_step.free_memory() / 1e9:.1f} GB are free: name fewer --peers, or give a smaller --base"
            )
        for (step, name), times in training_step.timed(entrants).items():
            figures[step][name] |= times
    return figures


def table(done):
    """Markdown: a line for each step and contender of each series."""
    yield "| what grows | step | contender | ms (lowest - highest of the rounds) | by the one before | microseconds a token |"
    yield "|---|---|---|---|---|---|"
    for what, steps in done.items():
        before = {}
        for step, figures in steps.items():
            _, rows, length = step.split(":")
            for name, found in figures.items():
                growth = (
                    "{:.2f} ({:.2f} - {:.2f})".format(*turns.ratio(found["rounds"], before[name]))
                    if name in before
                    else ""
                )
                before[name] = found["rounds"]
                yield (
                    f"| {what} | {step} | {name} | {spread_of(found['rounds'])} | {growth} | "
                    f"{turns.median(found['rounds']) / int(rows) / int(length) * 1e6:,.1f} |"
                )


def draw(done, path):
    """A panel for each of what grows, both axes in doublings, bars from the lowest to the highest round."""
    from keras_bert_app.drawing.figures import picture

    with picture(
        11, 3, "What a training step costs as the work grows\nmilliseconds; dashed: as fast as what grows"
    ) as (figure, image):
        for place, (axes, (what, steps)) in enumerate(zip(figure.subplots(1, len(done), sharey=True), done.items())):
            sizes = [[*step.split(":")[0].split("x"), *step.split(":")[1:]][place] for step in steps]
            sizes = [int(size) for size in sizes]
            for name in next(iter(steps.values())):
                times, lowest, highest = zip(
                    *(turns.milliseconds(figures[name]["rounds"]) for figures in steps.values())
                )
                errors = [
                    [max(0.0, high - low) for low, high in zip(*side)] for side in ((lowest, times), (times, highest))
                ]
                axes.errorbar(sizes, times, yerr=errors, marker="o", capsize=3, label=name)
                if is_ours(name):
                    axes.plot(sizes, [times[0] * size / sizes[0] for size in sizes], linestyle="--", color="C7")
            axes.set_xscale("log", base=2)
            axes.set_yscale("log", base=2)
            axes.set_xticks(sizes, [str(size) for size in sizes])
            axes.yaxis.set_major_formatter("{x:,.0f}")
            axes.set_title(what)
        axes.legend()
    with open(path, "wb") as file:
        file.write(image.getvalue())


if __name__ == "__main__":
    app.run(main, __doc__)
