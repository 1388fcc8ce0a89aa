"""Runs a script of a reference implementation, and answers requests with the script's function.

    PYTHON keras_bert_app/interop/reference/reference_answers.py SCRIPT

reference_process starts this program. SCRIPT defines two names:

- PACKAGES: names of packages, the reference first. The first line on standard output has the versions of those that
  are installed.
- answer: a function that takes a request, a dict, and returns a dict. JSON must be able to hold both. A script that
  computes the outputs of a model defines `compute` instead. See answer_of_outputs for its requests.

Each line on standard input is a request, and each further line on standard output is its answer. The program ends when
standard input ends. It imports only the standard library, because PYTHON may lack the packages of this project.
"""

import contextlib
import importlib
import importlib.metadata
import json
import os
import sys
from collections.abc import Callable


def answer_of_outputs(compute: Callable[[str, dict], dict], request: dict) -> dict:
    """Answers a request for the outputs of a model.

    Args:
        compute: function (model, batch) -> outputs. batch and outputs are dicts name -> array.
        request: dict. model: path of the model. inputs_file: .npz with the batch as inputs/NAME, int32:
            input_word_ids, input_mask, input_type_ids [B, S] and masked_lm_positions [B, P]. outputs_file: .npz to
            write. It gets all arrays of inputs_file and the float32 arrays outputs/NAME.

    Returns:
        dict. Empty.
    """
    import numpy as np

    with np.load(request["inputs_file"]) as file:
        arrays = dict(file)
    prefix = "inputs/"
    batch = {name.removeprefix(prefix): values for name, values in arrays.items() if name.startswith(prefix)}
    outputs = compute(request["model"], batch)
    np.savez(request["outputs_file"], **arrays, **{f"outputs/{name}": values for name, values in outputs.items()})
    return {}


def peak_resident_bytes() -> int:
    """Reads the largest memory that this process has used, for scripts that measure memory.

    Returns:
        int. Bytes of resident memory.
    """
    with open("/proc/self/status", encoding="utf-8") as file:
        (line,) = (line for line in file if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024


def main(script: str) -> None:
    """Answers requests with a script until standard input ends.

    Args:
        script: str. Path of the script.
    """
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # The prints of the script and its libraries go to standard error.
    directory, name = os.path.split(os.path.abspath(script))
    sys.path.insert(0, directory)
    module = importlib.import_module(name.removesuffix(".py"))
    versions = {}
    for package in module.PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[package] = importlib.metadata.version(package)
    print(json.dumps(versions), file=answers, flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        answered = module.answer(request) if hasattr(module, "answer") else answer_of_outputs(module.compute, request)
        print(json.dumps(answered), file=answers, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
