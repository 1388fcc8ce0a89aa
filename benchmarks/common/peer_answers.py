"""The other end of peer_process: a script that answers lines of JSON. Imports the standard library alone.

To be imported before all else, since what imports print would be taken for answers.
"""

import importlib.metadata
import json
import os
import sys
import time

_ANSWERS = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)


def serve(answer, packages):
    """Answers requests until standard input ends; the first line has the packages' versions.

    Args:
        answer: function of a request, a dict, that gives the answer. packages: names.
    """
    _say({name: importlib.metadata.version(name) for name in packages})
    for line in sys.stdin:
        _say(answer(json.loads(line)))


def serve_steps(make, packages):
    """Answers as a contender of training_step.

    Args:
        make: function of the request to make a model; gives (function that takes a step and returns its loss when it is done,
            number of parameters).
    """
    made = {}

    def answer(request):
        started = time.perf_counter()
        if "num_steps" not in request:
            made.clear()  # the model before, if there was one
            made["step"], parameters = make(request)
            loss = made["step"]()
            return {"loss": loss, "parameters": int(parameters), "seconds_to_first_step": time.perf_counter() - started}
        seconds, losses = [], []
        for _ in range(request["num_steps"]):
            started = time.perf_counter()
            losses.append(made["step"]())
            seconds.append(time.perf_counter() - started)
        return {"seconds": seconds, "losses": losses, "resident_bytes": _resident_bytes()}

    serve(answer, packages)


def serve_epochs(make, packages):
    """Answers as a contender of finetuning_epoch.

    Args:
        make: function of the request to make a model; gives (function that trains an epoch, function that gives the logits of the
            dev examples, [N, n]).
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
            "resident_bytes": _resident_bytes(),
        }

    serve(answer, packages)


def _resident_bytes():
    with open("/proc/self/status", encoding="utf-8") as file:
        (line,) = (line for line in file if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024


def _say(answer):
    print(json.dumps(answer), file=_ANSWERS, flush=True)
