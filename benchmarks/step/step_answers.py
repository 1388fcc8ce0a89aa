"""Answers requests for a contender of training_step.

The contenders' scripts import this module without its package, because reference_answers puts their folder on sys.path.
"""

import time
from collections.abc import Callable

from reference_answers import peak_resident_bytes


def answers_of_steps(make: Callable[[dict], tuple[Callable, int]]) -> Callable[[dict], dict]:
    """Makes the answer function of a contender of training_step.

    For a request without num_steps, the function makes a model and takes the first step. For a request with num_steps,
    it takes this number of further steps.

    Args:
        make: function of the request that makes a model. It returns (function that takes a step and returns the loss,
            number of parameters).

    Returns:
        function of the request that returns the answer.
    """
    made = {}

    def answer(request):
        started = time.perf_counter()
        if "num_steps" not in request:
            made.clear()  # gives back the memory of the previous model
            made["step"], parameters = make(request)
            loss = made["step"]()
            return {"loss": loss, "parameters": int(parameters), "seconds_to_first_step": time.perf_counter() - started}
        seconds, losses = [], []
        for _ in range(request["num_steps"]):
            started = time.perf_counter()
            losses.append(made["step"]())
            seconds.append(time.perf_counter() - started)
        return {"seconds": seconds, "losses": losses, "resident_bytes": peak_resident_bytes()}

    return answer
