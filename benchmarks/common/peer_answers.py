"""Runs a script in the environment of another library, and answers requests with the script's function.

    PYTHON benchmarks/common/peer_answers.py SCRIPT

peer_process starts this program. SCRIPT defines two names:

- PACKAGES: names of packages. The first line on standard output has their versions.
- answer: a function that takes a request, a dict, and returns a dict. Both are JSON.

Each line on standard input is a request, and each further line on standard output is its answer. The program ends when
standard input ends. It imports the standard library alone, since PYTHON need not have any package of this project.
"""

import importlib
import importlib.metadata
import json
import os
import sys
import time
from collections.abc import Callable


def answers_of_steps(make: Callable[[dict], tuple[Callable, int]]) -> Callable[[dict], dict]:
    """The answer function of a contender of training_step.

    A request without num_steps makes a model and takes its first step. A request with num_steps takes so many steps.

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
        return {"seconds": seconds, "losses": losses, "resident_bytes": _peak_resident_bytes()}

    return answer


def answers_of_epochs(make: Callable[[dict], tuple[Callable, Callable]]) -> Callable[[dict], dict]:
    """The answer function of a contender of finetuning_epoch.

    A request with a directory makes a model and predicts. Any other request trains an epoch and predicts.

    Args:
        make: function of the request that makes a model. It returns (function that trains an epoch, function that
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
            "resident_bytes": _peak_resident_bytes(),
        }

    return answer


def _peak_resident_bytes():
    with open("/proc/self/status", encoding="utf-8") as file:
        (line,) = (line for line in file if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024


def main(script: str) -> None:
    """Answers requests with a script until standard input ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # everything that the script and its libraries print goes to standard error
    directory, name = os.path.split(os.path.abspath(script))
    sys.path.insert(0, directory)
    module = importlib.import_module(name.removesuffix(".py"))
    versions = {package: importlib.metadata.version(package) for package in module.PACKAGES}
    print(json.dumps(versions), file=answers, flush=True)
    for line in sys.stdin:
        print(json.dumps(module.answer(json.loads(line))), file=answers, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
