"""Answers requests for a contender of the benchmark of large searches.

The contenders' scripts import this module without its package, because reference_answers puts their folder on sys.path.
"""

import time
from collections.abc import Callable

import numpy as np


def resident_bytes() -> dict:
    """The memory of this process: peak is the most so far, own is what no file backs, all includes parts of files."""
    with open("/proc/self/status", encoding="utf-8") as file:
        fields = dict(line.split(":", 1) for line in file)
    names = {"peak": "VmHWM", "all": "VmRSS", "own": "RssAnon"}
    return {name: int(fields[field].split()[0]) * 1024 for name, field in names.items()}


def answers_of_searches(make: Callable[[dict], Callable]) -> Callable[[dict], dict]:
    """Makes the answer function of a contender.

    A request has contender, vectors (path of float32 [N, D], of length 1), queries (path of float32 [Q, D]), top_k and
    what the contender needs. The answer has seconds_to_ready, milliseconds (one for each query alone),
    milliseconds_in_batch (of a query among all queries at a time), rows [Q, top_k], and bytes of memory.

    Args:
        make: function of the request that makes the contender ready. It returns a function
            (queries [Q, D], top_k) -> rows [Q, top_k].

    Returns:
        function of the request that returns the answer.
    """

    def answer(request):
        before, started = resident_bytes(), time.perf_counter()
        search = make(request)
        ready = time.perf_counter() - started
        queries, top_k, milliseconds = np.load(request["queries"]), request["top_k"], []
        search(queries[:1], top_k)  # the first call reads the file from the disk
        for number in range(len(queries)):
            started = time.perf_counter()
            search(queries[number : number + 1], top_k)
            milliseconds.append(1000 * (time.perf_counter() - started))
        started = time.perf_counter()
        rows = search(queries, top_k)
        in_batch = 1000 * (time.perf_counter() - started) / len(queries)
        after = resident_bytes()
        return {
            "seconds_to_ready": ready,
            "milliseconds": milliseconds,
            "milliseconds_in_batch": in_batch,
            "rows": np.asarray(rows).tolist(),
            "peak_bytes": after["peak"] - before["all"],
            "own_bytes": after["own"] - before["own"],
        }

    return answer
