"""The training step beside the peers', in one run: the same weights, the same batch, the same work.

python -m benchmarks.step.training_step --steps=small:32:128,base:8:128:bfloat16 \
    --model_garden_python=.venv-model-garden/bin/python --transformers_python=.venv-peers/bin/python

An entry of --steps is SIZE:ROWS:LENGTH, with :PRECISION for one alone, SIZE a published one or LAYERSxHIDDEN. A step is forward,
backward, clipping at a global norm of 1 and AdamW with bias correction, with dropout 0.1, 15 % of the positions predicted and the
vocabulary of bert-base-uncased's size. Contenders, where the entry names no precision each in float32 and, if the CPU
multiplies that, in bfloat16:

- ours, with --jit_compile=none, parts and step;
- KerasHub's backbone and heads in the train function of fit, with jit_compile off and on;
- Model Garden's BertPretrainerV2 in its task's way, with and without jit_compile on forward and backward;
- transformers' BertForPreTraining on torch, as its Trainer takes a step.

First each is looked at alone: from the same weights, without dropout, those of one precision must have the same losses in three steps
of the very function that is timed, and dropout must change them. Those within --within times the fastest of their side, ours or
the peers', whatever the precision, then take turns, each a process of its own, round after round; where memory does not hold
them all, the fastest of both sides do. A figure is the median of all steps, a ratio that of the rounds' medians, of our fastest
and the fastest peer. Of the others the table has what they took alone.

Results go to OUTPUT_DIR/training_step.json, .md and .png, beside those of earlier commands of this machine and code; a step that is there
is not measured again, and refused if it was measured with other settings or versions. The peers' environments are those of `make bench`.
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
PEERS_FLAG = flags.DEFINE_list("peers", list(PEERS), "Peers to measure beside.")
OURS_FLAG = flags.DEFINE_list("ours", ["none", "parts", "step"], "What --jit_compile is, of ours.")
_PYTHONS = {
    "model_garden": flags.DEFINE_string(
        "model_garden_python",
        ".venv-model-garden/bin/python",
        "Interpreter with benchmarks/requirements-model-garden.txt.",
    ),
    "transformers": flags.DEFINE_string(
        "transformers_python", ".venv-peers/bin/python", "Interpreter with benchmarks/requirements-hf.txt."
    ),
}
_ROUNDS = flags.DEFINE_integer("rounds", 5, "Turns of each contender.", lower_bound=1)
_SECONDS = flags.DEFINE_float("seconds", 5, "About, of each in a turn; 1 step at least.", lower_bound=0.0)
_WITHIN = flags.DEFINE_float(
    "within",
    1.3,
    "Contenders that alone take at most so many times as long as the fastest of their side take "
    "turns, as many as memory holds at a time.",
    lower_bound=1.0,
)
_OUTPUT_DIR = flags.DEFINE_string("output_dir", "runs/bench", "Where results go.")


def main(arguments):
    del arguments
    for step in _STEPS.value:
        parsed(step)
    if not _STEPS.value:
        raise UserError("--steps: expected one entry at least")
    prepare()
    settings = settings_of_run()
    results_of(
        _STEPS.value,
        measured,
        output_path("training_step.json"),
        {**settings, "within": _WITHIN.value},
        shown=lambda figures: f"{len(figures)} contenders measured",
    )
    done = alike(output_path("training_step.json"), settings, ("machine", "code"))
    write_lines("training_step.md", settings, table(done))
    draw(done, output_path("training_step.png"))


def prepare():
    """Checks the flags that training_slopes has too, and sets what all processes have in common."""
    if not OURS_FLAG.value:
        raise UserError(f"--ours: expected one of {', '.join(COMPILATIONS)} at least")
    for compiled in OURS_FLAG.value:
        if compiled not in COMPILATIONS:
            raise UserError(f"--ours={compiled} is not known; expected of {', '.join(COMPILATIONS)}")
    for peer in PEERS_FLAG.value:
        if peer not in PEERS:
            raise UserError(f"--peers={peer} is not known; expected of {', '.join(PEERS)}")
        if peer in _PYTHONS and not os.path.exists(_PYTHONS[peer].value):
            raise UserError(
                f"--{peer}_python={_PYTHONS[peer].value}: there is no such file; `make bench` builds that environment, "
                f"or leave the peer out of --peers"
            )
    os.environ.update(TF_ENABLE_ONEDNN_OPTS="1", TF_CPP_MIN_LOG_LEVEL="3")  # the peers' best too


def settings_of_run():
    """What every result hangs on besides the step: dict."""
    return {
        "machine": machine(("tensorflow", "keras", "keras-hub")),
        "peers": {peer: VERSIONS[peer] for peer in PEERS_FLAG.value},
        "ours": OURS_FLAG.value,
        "code": code_digest(),
        "rounds": _ROUNDS.value,
        "seconds": _SECONDS.value,
    }


def contenders(precisions):
    """All that the flags name, ours first."""
    for precision in precisions:
        for compiled in OURS_FLAG.value:
            yield Contender("ours", compiled, precision)
    for precision in precisions:
        for peer in PEERS_FLAG.value:
            for compiled in COMPILED[peer]:
                yield Contender(
                    peer, compiled, precision, **({"python": _PYTHONS[peer].value} if peer in _PYTHONS else {})
                )


def looks(step, files, precisions, num_layers):
    """dict Contender -> of step_contenders.looked_at, printed; raises UserError where they do not do the same work."""
    found = {}
    for contender in contenders(precisions):
        found[contender] = look = step_contenders.looked_at(contender, files)
        print(
            f"  {step} {contender.name}: losses {', '.join(f'{loss:.5f}' for loss in look['losses'])}, with dropout first "
            f"{look['losses_with_dropout'][0]:.5f}; {look['seconds_alone'] * 1e3:,.0f} ms",
            flush=True,
        )
    step_contenders.check_same({contender.name: look for contender, look in found.items()}, num_layers)
    return found


def timed(entrants):
    """As of step_contenders, in as many rounds and as long as the flags say."""
    return step_contenders.timed(entrants, _ROUNDS.value, _SECONDS.value)


def measured(step):
    """dict name of a contender -> figures."""
    config, rows, length, precisions = parsed(step)
    with step_contenders.written(config, rows, length) as files:
        looked = looks(step, files, precisions, config.num_hidden_layers)
        found = {contender.name: (contender, look) for contender, look in looked.items()}
        figures = {name: look for name, (_, look) in found.items()}
        chosen = finalists(figures, _WITHIN.value, free_memory())
        if left_out := [name for name in finalists(figures, _WITHIN.value) if name not in chosen]:
            print(f"  {step}: the memory does not hold all at a time; without turns: {', '.join(left_out)}", flush=True)
        times = timed({name: (found[name][0], files) for name in chosen})
        return {name: {**figures[name], **times.get(name, {})} for name in figures}


def free_memory():
    """Bytes that processes can still take without swapping and within the control group's limit, less a tenth.

    Pages of files that were read are given up when memory is needed, though a control group counts them as used.
    """
    with open("/proc/meminfo", encoding="ascii") as file:
        (line,) = (line for line in file if line.startswith("MemAvailable:"))
    found = int(line.split()[1]) * 1024
    with contextlib.suppress(OSError, ValueError):  # another version of control groups, or no limit ("max")
        limit, used = (
            int(pathlib.Path(f"/sys/fs/cgroup/memory.{name}").read_text(encoding="ascii"))
            for name in ("max", "current")
        )
        with open("/sys/fs/cgroup/memory.stat", encoding="ascii") as file:
            of_files = sum(int(line.split()[1]) for line in file if line.startswith("inactive_file "))
        found = min(found, limit - used + of_files)
    return 0.9 * found


def output_path(name):
    return os.path.join(_OUTPUT_DIR.value, name)


def write_lines(name, settings, lines):
    """Prints the machine and a table, and keeps them."""
    text = "\n".join([report.in_words(settings["machine"]), "", *lines])
    print("\n" + text)
    with open(output_path(name), "w", encoding="utf-8") as file:
        file.write(text + "\n")


if __name__ == "__main__":
    app.run(main, __doc__)
