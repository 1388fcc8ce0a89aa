"""Differences between runs of the road on the same examples, with their intervals."""

import os
from collections.abc import Mapping, Sequence

from benchmarks.finetuning.paired_difference import paired_difference
from benchmarks.finetuning.row_runs import measures
from benchmarks.road.road_tasks import CURVES, FEW_LABELS, PRETRAINED, RANDOM, TASKS

LAST = "BERT"  # the end of the road, with which the others are compared


def pairs(stations: Sequence[str]) -> dict[str, tuple[str, str]]:
    """The pairs of rows that are compared: a station with its random weights, and with LAST if that is walked, too.

    Args:
        stations: keys of STATIONS.

    Returns:
        dict name of the pair -> (row, the row that is subtracted).
    """
    found = {}
    for name in stations:
        for task in [*TASKS, *(FEW_LABELS if name in CURVES else ())]:
            trained = f"{name}:{task}:{PRETRAINED}"
            found[with_random(name, task)] = (trained, f"{name}:{task}:{RANDOM}")
            if LAST in stations and name != LAST:
                found[with_last(name, task)] = (trained, f"{LAST}:{task}:{PRETRAINED}")
    return found


def with_random(name: str, task: str) -> str:
    """The name of a station's pair with its random weights.

    Args:
        name: key of STATIONS.
        task: name of the task.
    """
    return f"{name}:{task}:minus random"


def with_last(name: str, task: str) -> str:
    """The name of a station's pair with LAST.

    Args:
        name: key of STATIONS.
        task: name of the task.
    """
    return f"{name}:{task}:minus {LAST}"


def of_pair(rows: tuple[str, str], runs_dir: str, given: Mapping[str, Mapping]) -> dict:
    """The difference of two rows in the reported metric.

    Args:
        rows: (row, the row that is subtracted), both finished.
        runs_dir: folder of the runs.
        given: dict row -> flags of finetune.

    Returns:
        dict. See paired_difference. The interval is over the examples, because each row has one seed.
    """
    (ours, sources), (theirs, _) = (
        measures(os.path.join(runs_dir, row.replace(":", "_")), given[row].get("test_file", "")) for row in rows
    )
    return paired_difference(ours, theirs, sources)
