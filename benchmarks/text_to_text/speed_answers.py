"""Answers requests for a contender of the benchmark of text-to-text speed.

The contenders' scripts import this module without its package, because reference_answers puts their folder on sys.path.
"""

import time
from collections.abc import Callable

from reference_answers import peak_resident_bytes


def answers_of_calls(make: Callable[[dict], tuple[Callable, dict]]) -> Callable[[dict], dict]:
    """Makes the answer function of a contender.

    A request with a directory makes a model and calls its function once. A request with num_calls calls it num_calls
    times.

    Args:
        make: function of the request that makes a model. It returns (function that does the work once, facts about the
            model). The function that does the work takes a bool, whether to show the result, and returns the result:
            a dict of lists and numbers, or None if it is not shown.

    Returns:
        function of the request that returns the answer.
    """
    made = {}

    def answer(request):
        started = time.perf_counter()
        if "directory" in request:
            made.clear()  # gives back the memory of the previous model
            made["call"], facts = make(request)
            result = made["call"](True)
            return {**facts, "result": result, "seconds_to_first_call": time.perf_counter() - started}
        seconds, results, cpu_started = [], [], time.process_time()
        for _ in range(request["num_calls"]):
            started = time.perf_counter()
            results.append(made["call"](False))
            seconds.append(time.perf_counter() - started)
        cpu_seconds = (time.process_time() - cpu_started) / len(seconds)
        return {
            "seconds": seconds,
            "cpu_seconds": cpu_seconds,
            "results": results,
            "resident_bytes": peak_resident_bytes(),
        }

    return answer
