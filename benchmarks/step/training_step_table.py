"""Selects the contenders of training_step that take turns, and shows their results as a table and as bars."""

import itertools
import math

from benchmarks.common import report, turns


def is_ours(name: str) -> bool:
    return name.startswith("ours")


def finalists(figures: dict, within: float, memory: float = math.inf) -> list[str]:
    """Names of the contenders that take turns.

    A contender takes turns if its time alone is at most `within` times that of the fastest of its side. The two sides
    are ours and the peers. If the memory does not hold all these contenders, the slowest of each side are left out.

    Args:
        figures: dict. Contender -> figures of step_contenders.looked_at.
        within: float. Largest ratio to the fastest of the side.
        memory: float. Bytes of memory. Two contenders take turns in any case.
    """
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


def summary(figures: dict) -> tuple:
    """The medians and the fastest contenders of a step.

    Args:
        figures: dict. Contender -> figures. Contenders that took turns have rounds.

    Returns:
        (dict of contender -> median in milliseconds, name of the fastest peer, name of our fastest contender, ratio of
        the peer's time to ours as turns.ratio returns it). Without peers, the peer and the ratio are None.
    """
    medians = {name: turns.median(entry["rounds"]) * 1e3 for name, entry in figures.items() if "rounds" in entry}
    ours = min(filter(is_ours, medians), key=medians.get)
    peers = [name for name in medians if not is_ours(name)]
    if not peers:
        return medians, None, ours, None
    peer = min(peers, key=medians.get)
    return medians, peer, ours, turns.ratio(figures[peer]["rounds"], figures[ours]["rounds"])


def spread_of(rounds: turns.Rounds) -> str:
    """The median of all steps with the lowest and highest of the rounds' medians, in milliseconds.

    Args:
        rounds: turns.Rounds. For each round, the seconds of each step.
    """
    return "{:,.0f} ({:,.0f} - {:,.0f})".format(*turns.milliseconds(rounds))


def table(done: dict):
    """Yields the lines of a table in Markdown, a line for each step and contender.

    Args:
        done: dict. Step -> contender's name -> figures.
    """
    yield (
        "| step | contender | compiled | precision | ms (lowest - highest of the rounds) | tokens/s "
        "| losses without dropout | first step, s | resident, GB |"
    )
    yield "|---|---|---|---|---|---|---|---|---|"
    ratios = []
    for step, figures in done.items():
        medians, peer, ours, ratio = summary(figures)
        _, rows, length, *_ = step.split(":")
        for name, entry in figures.items():
            cells = [step, *name.split()]
            losses = " ".join(f"{loss:.4f}" for loss in entry["losses"])
            if name in medians:
                cells += [
                    spread_of(entry["rounds"]),
                    f"{int(rows) * int(length) / medians[name] * 1e3:,.0f}",
                    losses,
                    f"{entry['seconds_to_first_step']:.1f}",
                    f"{entry['resident_bytes'] / 1e9:.2f}",
                ]
            else:
                cells += [f"{entry['seconds_alone'] * 1e3:,.0f}, alone", "", losses, "", ""]
            yield f"| {' | '.join(cells)} |"
        if ratio:
            ratios.append(
                f"{step}: {ours} is {ratio[0]:.2f} ({ratio[1]:.2f} - {ratio[2]:.2f}) times as fast as {peer}, the "
                "fastest peer"
            )
    yield ""
    yield from ratios


def draw(done: dict, path: str) -> None:
    """Draws bars of the contenders that took turns, a panel for each step.

    Args:
        done: dict. Step -> contender's name -> figures.
        path: str. File to write.
    """
    report.draw_bars(
        {
            step: {name: turns.milliseconds(entry["rounds"]) for name, entry in figures.items() if "rounds" in entry}
            for step, figures in done.items()
        },
        "A training step beside the peers'\nmilliseconds, less is better",
        path,
    )
