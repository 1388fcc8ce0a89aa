"""Answers requests for a contender of training_step. reference_answers puts this folder on the script's path."""

import time
from collections.abc import Callable

from reference_answers import peak_resident_bytes


def answers_of_steps(make: Callable[[dict], tuple[Callable, int]]) -> Callable[[dict], dict]:
    """Makes the answer function of a contender of training_step.

    A request without num_steps makes a model and takes its first step. With num_steps, it takes that number of steps.

    Args:
        make: function of the request that makes a model. It returns (function that takes a step and returns the loss,
            number of parameters).
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
