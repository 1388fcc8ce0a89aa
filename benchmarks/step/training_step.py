"""Compares the time of our training step with the peers' in one run, with the same weights and the same batch.

python -m benchmarks.step.training_step --steps=small:32:128,base:8:128:bfloat16 \\
    --model_garden_python=.venv-model-garden/bin/python --transformers_python=.venv-peers/bin/python

An entry of --steps is SIZE:ROWS:LENGTH or SIZE:ROWS:LENGTH:PRECISION. SIZE is a published size or LAYERSxHIDDEN. A step
is forward, backward, clipping at a global norm of 1, and AdamW with bias correction. Dropout is 0.1, 15 % of the
positions are predicted, and the vocabulary has the size of bert-base-uncased's. Without PRECISION, every contender runs
in float32, and also in bfloat16 if the CPU multiplies bfloat16 natively. The contenders:

- ours, with --jit_compile=none, parts and step
- KerasHub's backbone and heads in the train function of fit, with and without jit_compile
- Model Garden's BertPretrainerV2 as its task trains it, with and without jit_compile on forward and backward
- transformers' BertForPreTraining on torch, as its Trainer takes a step

First each contender takes three steps alone, by the function that is timed later. From the same weights, without
dropout, all contenders of one precision must have the same losses, and dropout must change them. Then contenders take
turns, each in a process of its own, round after round. A contender takes turns if its time alone is at most --within
times that of the fastest contender of its side. The two sides are ours and the peers, each with all precisions. If the
memory does not hold all these contenders, only the fastest of both sides take turns.

A figure is the median of all steps. In each round the command divides the median of the fastest peer by that of our
fastest contender, and the ratio is the median of these quotients. For contenders that took no turns, the table has the
time alone.

Results go to OUTPUT_DIR/training_step.json, .md and .png. The table and the picture also show results of earlier
commands with the same machine and code. If the JSON file has a step already, the command does not measure the step
again. If that result has other settings or versions, the command ends with an error. `make bench` builds the peers'
environments.
"""

import contextlib
import os
import pathlib

from absl import flags

from benchmarks.common import report
from benchmarks.common.identity import code_digest
from benchmarks.common.resumable import alike, results_of
from benchmarks.common.this_machine import machine
from benchmarks.step import step_contenders
from benchmarks.step.step_contenders import COMPILED, PEERS, VERSIONS, Contender, parsed
from benchmarks.step.training_step_table import draw, finalists, table
from keras_bert_app.cli.common import app
from keras_bert_app.config.training_config import COMPILATIONS
from keras_bert_app.errors import UserError
from pipelines import storage

_STEPS = flags.DEFINE_list(
    "steps",
    [
        "tiny:32:128",
        "mini:32:128",
        "small:32:128",
        "medium:16:128",
        "base:8:128",
        "tiny:8:512",
        "mini:8:512",
        "small:8:512",
        "medium:4:512",
        "base:2:512",
    ],
    "Steps to measure, SIZE:ROWS:LENGTH[:PRECISION].",
)
_PEERS = flags.DEFINE_list("peers", list(PEERS), "Peers to measure.")
_OURS = flags.DEFINE_list("ours", ["none", "parts", "step"], "Values of --jit_compile for our contenders.")
_PYTHONS = {
    "model_garden": flags.DEFINE_string(
        "model_garden_python",
        ".venv-model-garden/bin/python",
        "Interpreter of an environment with benchmarks/requirements-model-garden.txt.",
    ),
    "transformers": flags.DEFINE_string(
        "transformers_python",
        ".venv-peers/bin/python",
        "Interpreter of an environment with benchmarks/requirements-hf.txt.",
    ),
}
_ROUNDS = flags.DEFINE_integer("rounds", 5, "Number of rounds. A contender takes a turn in each.", lower_bound=1)
_SECONDS = flags.DEFINE_float("seconds", 5, "Approximate seconds of a turn, at least one step.", lower_bound=0.0)
_WITHIN = flags.DEFINE_float(
    "within",
    1.3,
    "A contender takes turns if its time alone is at most this many times that of the fastest of its side.",
    lower_bound=1.0,
)
_OUTPUT_DIR = flags.DEFINE_string("output_dir", "runs/bench", "Where results go.")


def main(arguments):
    del arguments
    for step in _STEPS.value:
        parsed(step)
    if not _STEPS.value:
        raise UserError("--steps is empty; expected at least one entry, such as small:32:128")
    _check_flags()
    os.environ.update(TF_ENABLE_ONEDNN_OPTS="1", TF_CPP_MIN_LOG_LEVEL="3")  # the peers are fastest with oneDNN too
    settings = _settings()
    path = os.path.join(_OUTPUT_DIR.value, "training_step")
    results_of(
        _STEPS.value,
        measured,
        f"{path}.json",
        {**settings, "within": _WITHIN.value},
        shown=lambda figures: f"{len(figures)} contenders measured",
    )
    done = alike(f"{path}.json", settings, ("machine", "code"))
    text = "\n".join([report.in_words(settings["machine"]), "", *table(done)])
    print("\n" + text)
    storage.write_whole(f"{path}.md", text + "\n")
    draw(done, f"{path}.png")


def _check_flags():
    if not _OURS.value:
        raise UserError(f"--ours is empty; expected at least one of {', '.join(COMPILATIONS)}")
    for compiled in _OURS.value:
        if compiled not in COMPILATIONS:
            raise UserError(f"--ours={compiled} is not known; expected {', '.join(COMPILATIONS)}")
    for peer in _PEERS.value:
        if peer not in PEERS:
            raise UserError(f"--peers={peer} is not known; expected {', '.join(PEERS)}")
        if peer in _PYTHONS and not os.path.exists(_PYTHONS[peer].value):
            raise UserError(
                f"--{peer}_python={_PYTHONS[peer].value}: there is no such file; run `make bench`, which builds the "
                f"environment, or leave {peer} out of --peers"
            )


def _settings():
    """Returns a dict of the settings, except the step, on which a result depends."""
    return {
        "machine": machine(("tensorflow", "keras", "keras-hub")),
        "peers": {peer: VERSIONS[peer] for peer in _PEERS.value},
        "ours": _OURS.value,
        "code": code_digest(),
        "rounds": _ROUNDS.value,
        "seconds": _SECONDS.value,
    }


def contenders(precisions: tuple[str, ...]):
    """Yields the contenders that the flags name, ours first.

    Args:
        precisions: tuple of str. Compute types.
    """
    for precision in precisions:
        for compiled in _OURS.value:
            yield Contender("ours", compiled, precision)
    for precision in precisions:
        for peer in _PEERS.value:
            for compiled in COMPILED[peer]:
                yield Contender(
                    peer, compiled, precision, **({"python": _PYTHONS[peer].value} if peer in _PYTHONS else {})
                )


def looks(step: str, files: dict, precisions: tuple[str, ...], num_layers: int) -> dict[Contender, dict]:
    """Takes the first steps of each contender and prints their losses.

    Args:
        step: str. The entry of --steps.
        files: dict of step_contenders.written.
        precisions: tuple of str. Compute types.
        num_layers: int. Layers of the model.

    Returns:
        dict. Contender -> result of step_contenders.looked_at.

    Raises:
        UserError: contenders do not do the same work.
    """
    results = {}
    for contender in contenders(precisions):
        results[contender] = look = step_contenders.looked_at(contender, files)
        print(
            f"  {step} {contender.name}: losses {', '.join(f'{loss:.5f}' for loss in look['losses'])}, with dropout "
            f"first {look['losses_with_dropout'][0]:.5f}; {look['seconds_alone'] * 1e3:,.0f} ms",
            flush=True,
        )
    step_contenders.check_same({contender.name: look for contender, look in results.items()}, num_layers)
    return results


def measured(step: str) -> dict:
    """Measures an entry of --steps. Returns a dict of contender's name -> figures.

    Args:
        step: str. The entry.
    """
    config, rows, length, precisions = parsed(step)
    with step_contenders.written(config, rows, length) as files:
        results = looks(step, files, precisions, config.num_hidden_layers)
        figures = {contender.name: look for contender, look in results.items()}
        chosen = finalists(figures, _WITHIN.value, free_memory())
        if left_out := [name for name in finalists(figures, _WITHIN.value) if name not in chosen]:
            print(
                f"  {step}: the memory does not hold all contenders; these take no turns: {', '.join(left_out)}",
                flush=True,
            )
        in_turns = [contender for contender in results if contender.name in chosen]
        times = step_contenders.timed(in_turns, files, _ROUNDS.value, _SECONDS.value)
        return {name: {**figures[name], **times.get(name, {})} for name in figures}


def free_memory() -> float:
    """Bytes of memory that processes can still take, less a tenth.

    The bytes are those without swapping and within the control group's limit. A control group counts pages of files as
    used memory, although the system gives them up when memory is needed.
    """
    with open("/proc/meminfo", encoding="ascii") as file:
        (line,) = (line for line in file if line.startswith("MemAvailable:"))
    free = int(line.split()[1]) * 1024
    # An OSError means another version of control groups, and a ValueError means no limit ("max").
    with contextlib.suppress(OSError, ValueError):
        limit, used = (
            int(pathlib.Path(f"/sys/fs/cgroup/memory.{name}").read_text(encoding="ascii"))
            for name in ("max", "current")
        )
        with open("/sys/fs/cgroup/memory.stat", encoding="ascii") as file:
            file_bytes = sum(int(line.split()[1]) for line in file if line.startswith("inactive_file "))
        free = min(free, limit - used + file_bytes)
    return 0.9 * free


if __name__ == "__main__":
    app.run(main, __doc__)
