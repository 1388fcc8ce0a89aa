"""Answers requests for a contender of finetuning_epoch. reference_answers puts this folder on the script's path."""

import time
from collections.abc import Callable

from reference_answers import peak_resident_bytes


def answers_of_epochs(make: Callable[[dict], tuple[Callable, Callable]]) -> Callable[[dict], dict]:
    """Makes the answer function of a contender of finetuning_epoch.

    A request with a directory makes a model and predicts. Any other request trains an epoch and predicts.

    Args:
        make: function that makes a model for a request. It returns (function that trains an epoch, function that
            returns the logits of the dev examples, [N, n]).
    """
    made = {}

    def answer(request):
        if "directory" in request:
            made["train"], made["predict"] = make(request)
            return {"logits": made["predict"]().tolist()}
        started = time.perf_counter()
        made["train"]()
        trained = time.perf_counter()
        logits = made["predict"]()
        return {
            "training": trained - started,
            "prediction": time.perf_counter() - trained,
            "logits": logits.tolist(),
            "resident_bytes": peak_resident_bytes(),
        }

    return answer
