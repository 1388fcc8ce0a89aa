"""What training_step shows: who goes on to the rounds, medians, ratios, a table and bars."""

import itertools
import math

from benchmarks.common import report, turns


def is_ours(name):
    return name.startswith("ours")


def finalists(figures, within, memory=math.inf):
    """Names of the contenders that take turns: alone, within so many times the fastest of their side, ours or the peers'. Of them the
    fastest of both sides by turns, as many as so many bytes of memory hold at a time, and two at least."""
    sides = []
    for side in (True, False):
        alone = {name: look["seconds_alone"] for name, look in figures.items() if is_ours(name) == side}
        sides.append(
            sorted((name for name, seconds in alone.items() if seconds <= within * min(alone.values())), key=alone.get)
        )
    kept, used = [], 0
    for name in filter(None, itertools.chain(*itertools.zip_longest(*sides))):
        used += figures[name]["resident_alone"]
        if len(kept) >= 2 and used > memory:
            break
        kept.append(name)
    return [name for name in figures if name in kept]


def summary(figures):
    """(contender -> median milliseconds of those that took turns, fastest peer, our fastest, ratio of theirs by ours as turns.ratio
    has it); without peers both are None."""
    medians = {name: turns.median(found["rounds"]) * 1e3 for name, found in figures.items() if "rounds" in found}
    ours = min(filter(is_ours, medians), key=medians.get)
    peers = [name for name in medians if not is_ours(name)]
    if not peers:
        return medians, None, ours, None
    peer = min(peers, key=medians.get)
    return medians, peer, ours, turns.ratio(figures[peer]["rounds"], figures[ours]["rounds"])


def spread_of(rounds):
    """The median of all steps with the lowest and highest of the rounds' medians, in milliseconds."""
    return "{:,.0f} ({:,.0f} - {:,.0f})".format(*turns.milliseconds(rounds))


def table(done):
    """Markdown: for each step a line a contender."""
    yield (
        "| step | contender | compiled | precision | ms (lowest - highest of the rounds) | tokens/s | losses without dropout "
        "| first step, s | resident, GB |"
    )
    yield "|---|---|---|---|---|---|---|---|---|"
    ratios = []
    for step, figures in done.items():
        medians, peer, ours, ratio = summary(figures)
        _, rows, length, *_ = step.split(":")
        for name, found in figures.items():
            cells = [step, *name.split()]
            losses = " ".join(f"{loss:.4f}" for loss in found["losses"])
            if name in medians:
                cells += [
                    spread_of(found["rounds"]),
                    f"{int(rows) * int(length) / medians[name] * 1e3:,.0f}",
                    losses,
                    f"{found['seconds_to_first_step']:.1f}",
                    f"{found['resident_bytes'] / 1e9:.2f}",
                ]
            else:
                cells += [f"{found['seconds_alone'] * 1e3:,.0f}, alone", "", losses, "", ""]
            yield f"| {' | '.join(cells)} |"
        if ratio:
            ratios.append(
                f"{step}: {ours} is {ratio[0]:.2f} ({ratio[1]:.2f} - {ratio[2]:.2f}) times as fast as {peer}, the fastest peer"
            )
    yield ""
    yield from ratios


def draw(done, path):
    """Bars of the contenders that took turns, a panel a step."""
    report.draw_bars(
        {
            step: {name: turns.milliseconds(found["rounds"]) for name, found in figures.items() if "rounds" in found}
            for step, figures in done.items()
        },
        "A training step beside the peers'\nmilliseconds, less is better",
        path,
    )
