"""What the training loop costs besides its steps: logging, the live line, norms, a checkpoint every 100 steps.

taskset -c 0,1 python -m benchmarks.step.loop_overhead --output_file=loop_overhead.json

The real loop (training.pretrain) and the bare train call take turns in one process, 100 steps each, with one compiled
step, one model and the same prepared batches in memory: a round is 100 steps of the loop, with one line of the log and
one checkpoint in them, then 100 bare ones. A first round is not counted, since it compiles. What each part of the loop
takes is clocked from inside, the train calls too: the overhead is the median over the rounds of what the loop took beyond
its train calls, by what they took. That the same calls take another time when they are bare is the machine's doing, and
shown beside it. The data pipeline has benchmarks of its own, and evaluation is no overhead.

Last a checkpoint of base's weights and slots (110 M parameters, 1.3 GB) is saved a few times, beside a copy of them
within memory, which is what saving in the background would still make the loop wait for. Files go to --directory: name
one on the disk that matters, since saving waits until they are on it.
"""

import contextlib
import io
import json
import os
import statistics
import tempfile
import time
from unittest import mock

import numpy as np
from absl import flags

from benchmarks.common.this_machine import machine
from keras_bert_app.cli.common import app
from keras_bert_app.config.bert_config import BertConfig
from keras_bert_app.config.pretraining_config import PretrainingConfig
from keras_bert_app.config.training_config import OPTIMIZERS, PRECISIONS
from keras_bert_app.runs import work_directory

SEGMENT_STEPS = 100  # between lines of the log, and here between checkpoints
STEPS_PER_CALL = 5  # the trainer's own number on a CPU
NUM_BATCHES = 20
TRAIN_CALL = "train call"

_SIZES = flags.DEFINE_list("sizes", ["tiny", "mini"], "Published sizes to train.")
_ROUNDS = flags.DEFINE_integer("rounds", 5, "Counted rounds.", lower_bound=1)
_BATCH_SIZE = flags.DEFINE_integer("batch_size", 32, "Rows a step.", lower_bound=1)
_MAX_SEQ_LENGTH = flags.DEFINE_integer("max_seq_length", 128, "Tokens a row.", lower_bound=8)
_PRECISION = flags.DEFINE_enum("precision", "float32", PRECISIONS, "Compute type.")
_OPTIMIZER = flags.DEFINE_enum(
    "optimizer", "adamw", OPTIMIZERS, "Whose norms are worked out and whose slots are saved."
)
_SAVED_SIZE = flags.DEFINE_string("saved_size", "base", "Published size whose checkpoint is saved alone; empty: none.")
_DIRECTORY = flags.DEFINE_string("directory", ".", "Where work directories are made, and removed afterwards.")
_OUTPUT_FILE = flags.DEFINE_string("output_file", "", "Where to write every figure as JSON.")


class Clock:
    """Seconds that functions take, by name."""

    def __init__(self):
        self.seconds = {}

    def around(self, function, name):
        def timed(*arguments, **options):
            started = time.perf_counter()
            result = function(*arguments, **options)
            self.seconds.setdefault(name, []).append(time.perf_counter() - started)
            return result

        return timed


class PreparedBatches:
    """Stands for the training dataset: gives the loop its batches, and after each segment takes one of bare steps.

    Attributes:
        loop, bare: seconds of each segment.
    """

    def __init__(self, batches):
        self.batches, self.loop, self.bare = batches, [], []

    def noting_the_call(self, make_train_call, clock):
        """make_train_call, noting the compiled function that the loop gets, and clocking it there."""

        def make(*arguments):
            self.train_call = make_train_call(*arguments)
            return clock.around(self.train_call, TRAIN_CALL)

        return make

    def __iter__(self):
        import tensorflow as tf

        position = tf.constant([0, 0, 0], tf.int64)
        stacks = [
            {
                name: tf.stack([batch[name] for batch in self.batches[at : at + STEPS_PER_CALL]])
                for name in self.batches[0]
            }
            for at in range(0, len(self.batches), STEPS_PER_CALL)
        ]
        while True:
            started = time.perf_counter()
            for step in range(SEGMENT_STEPS):
                yield self.batches[step % len(self.batches)], position
            # The loop asks for more: it is done with these steps and with all that follows them.
            self.loop.append(time.perf_counter() - started)
            started = time.perf_counter()
            for call in range(SEGMENT_STEPS // STEPS_PER_CALL):
                self.train_call(stacks[call % len(stacks)], call * STEPS_PER_CALL, None, False)
            self.bare.append(time.perf_counter() - started)


class Terminal(io.StringIO):
    """A stream on which the live line is written."""

    def isatty(self):
        return True


def main(arguments):
    del arguments
    sizes = [*_SIZES.value, *([_SAVED_SIZE.value] if _SAVED_SIZE.value else [])]
    for size in sizes:
        BertConfig.of_size(size)  # says which is nearest
    os.makedirs(_DIRECTORY.value, exist_ok=True)
    with app.quiet_start():
        import tensorflow as tf  # noqa: F401
    report = {
        "machine": machine(("tensorflow", "keras")),
        "batch_size": _BATCH_SIZE.value,
        "max_seq_length": _MAX_SEQ_LENGTH.value,
        "precision": _PRECISION.value,
        "optimizer": _OPTIMIZER.value,
    }
    print(", ".join(f"{name} {value}" for name, value in report["machine"].items()))
    print(
        f"{_ROUNDS.value} rounds of {SEGMENT_STEPS} steps each way, {_BATCH_SIZE.value} x {_MAX_SEQ_LENGTH.value} tokens, "
        f"{_PRECISION.value}, {_OPTIMIZER.value}\n",
        flush=True,
    )
    report["loops"] = [loop_figures(size) for size in _SIZES.value]
    if _SAVED_SIZE.value:
        report["save"] = save_figures(_SAVED_SIZE.value)
    if _OUTPUT_FILE.value:
        with open(_OUTPUT_FILE.value, "w", encoding="utf-8") as file:
            json.dump(report, file, indent=1)


def loop_figures(size):
    """Trains a model of a published size, and prints and returns what it took."""
    from keras_bert_app.runs import checkpoints
    from keras_bert_app.training import pretraining_data, reporting, steps, window
    from keras_bert_app.training.optimizers import choice
    from keras_bert_app.training.pretrain import pretrain

    config = BertConfig.of_size(size)
    run = PretrainingConfig(
        max_seq_length=_MAX_SEQ_LENGTH.value,
        global_batch_size=_BATCH_SIZE.value,
        precision=_PRECISION.value,
        optimizer=_OPTIMIZER.value,
        strategy="one_device",
        iterations_per_loop=STEPS_PER_CALL,
        log_steps=SEGMENT_STEPS,
        save_checkpoints_steps=SEGMENT_STEPS,
        eval_steps=10**9,
        # One call more, so that the loop asks for its batches.
        num_train_steps=(_ROUNDS.value + 1) * SEGMENT_STEPS + STEPS_PER_CALL,
    ).resolved()
    prepared, clock = PreparedBatches(_batches(config, run)), Clock()
    with tempfile.TemporaryDirectory(dir=_DIRECTORY.value) as workdir, contextlib.ExitStack() as patches:
        work_directory.write_config(workdir, config, run, _vocabulary(config.vocab_size))
        patches.enter_context(mock.patch.object(pretraining_data, "training_dataset", lambda *arguments: prepared))
        patches.enter_context(
            mock.patch.object(steps, "make_train_call", prepared.noting_the_call(steps.make_train_call, clock))
        )
        for owner, name, part in (
            (checkpoints, "save", "save"),
            (choice, "_norms", "norms"),
            (reporting.Reporter, "log", "log"),
            (reporting.Reporter, "live", "live line"),
            (window.Window, "add", "sums"),
        ):
            patches.enter_context(mock.patch.object(owner, name, clock.around(getattr(owner, name), part)))
        pretrain(workdir, [["prepared batches"]], [], stream=Terminal())
    # The last call comes after all rounds.
    calls = np.array(clock.seconds.pop(TRAIN_CALL)[:-1]).reshape(-1, SEGMENT_STEPS // STEPS_PER_CALL).sum(axis=1)
    overheads = [loop / within - 1 for loop, within in zip(prepared.loop[1:], calls[1:])]
    loop, within, bare = (
        [seconds / SEGMENT_STEPS * 1e3 for seconds in part[1:]] for part in (prepared.loop, calls, prepared.bare)
    )
    print(
        "| model | train calls, bare, ms a step, median | lowest to highest | in the loop | lowest to highest | the loop | "
        "lowest to highest | overhead, median | lowest to highest |\n|---|---|---|---|---|---|---|---|---|\n"
        f"| {size} | {_spread(bare)} | {_spread(within)} | {_spread(loop)} | {statistics.median(overheads):.1%} | "
        f"{min(overheads):.1%} to {max(overheads):.1%} |\n"
    )
    # What the last call adds, at the end of the run, is rounded off.
    parts = {
        part: {
            "times_a_round": round(len(seconds) * SEGMENT_STEPS / run.num_train_steps),
            "ms": [second * 1e3 for second in seconds],
        }
        for part, seconds in clock.seconds.items()
    }
    print(
        f"| part, {size} | times in {SEGMENT_STEPS} steps | ms each, median | lowest to highest | of the train calls |\n"
        "|---|---|---|---|---|"
    )
    for part, figures in parts.items():
        share = (
            statistics.median(figures["ms"]) * figures["times_a_round"] / (statistics.median(within) * SEGMENT_STEPS)
        )
        print(f"| {part} | {figures['times_a_round']} | {_spread(figures['ms'])} | {share:.2%} |")
    rest = (
        statistics.median(loop)
        - statistics.median(within)
        - sum(statistics.median(figures["ms"]) * figures["times_a_round"] for figures in parts.values()) / SEGMENT_STEPS
    )
    print(
        f"| what is left, in each step | {SEGMENT_STEPS} | {rest:.2f} | | {rest / statistics.median(within):.2%} |\n",
        flush=True,
    )
    return {
        "size": size,
        "loop_ms": loop,
        "train_call_ms": within,
        "bare_ms": bare,
        "overheads": overheads,
        "parts": parts,
    }


def save_figures(size):
    """Saves a checkpoint of a published size a few times, and prints and returns what it took."""
    from keras_bert_app.modeling.pretrainer import BertPretrainer
    from keras_bert_app.runs import checkpoints
    from keras_bert_app.training.optimizers import choice

    config, clock = BertConfig.of_size(size), Clock()
    model = BertPretrainer(config)
    optimizer = choice.make_optimizer(
        PretrainingConfig(optimizer=_OPTIMIZER.value).resolved(),
        {variable.path: variable.value for variable in model.trainable_variables},
        config.num_hidden_layers,
    )
    variables = [
        *checkpoints.model_variables(model).values(),
        *(slot for slots in optimizer.slots.values() for slot in slots.values()),
    ]
    num_bytes = sum(4 * variable.shape.num_elements() for variable in variables)
    for variable in variables:  # zeros would be read from one page of memory
        variable.assign(np.random.RandomState(0).standard_normal(variable.shape))
    with tempfile.TemporaryDirectory(dir=_DIRECTORY.value) as workdir, contextlib.ExitStack() as patches:
        for name, part in (("_fingerprint", "sha256 of a file"), ("_to_disk", "fsync")):
            patches.enter_context(mock.patch.object(checkpoints, name, clock.around(getattr(checkpoints, name), part)))
        for step in range(3):
            clock.around(checkpoints.save, "save")(workdir, model, optimizer, step, (0, 0, 0), keep=1)
            clock.around(lambda: [variable.numpy().copy() for variable in variables], "copy in memory")()
    per_save = {
        part: [sum(seconds[at : at + len(seconds) // 3]) for at in range(0, len(seconds), len(seconds) // 3)]
        for part, seconds in clock.seconds.items()
    }
    print(
        f"| a checkpoint of {size}, {num_bytes / 1e6:,.0f} MB | seconds, median of 3 | lowest to highest |\n|---|---|---|"
    )
    for part, seconds in per_save.items():
        print(f"| {part} | {statistics.median(seconds):.2f} | {min(seconds):.2f} to {max(seconds):.2f} |")
    return {"size": size, "bytes": num_bytes, "seconds": per_save}


def _batches(config, run):
    """Batches of random ids in which every row is full."""
    import tensorflow as tf

    generator = np.random.RandomState(1)
    rows, length, predictions = run.global_batch_size, run.max_seq_length, run.max_predictions_per_seq

    def integers(high, *shape):
        return tf.constant(generator.randint(0, high, shape), tf.int32)

    return [
        {
            "input_word_ids": integers(config.vocab_size, rows, length),
            "input_mask": tf.ones([rows, length], tf.int32),
            "input_type_ids": integers(2, rows, length),
            "masked_lm_positions": integers(length, rows, predictions),
            "masked_lm_ids": integers(config.vocab_size, rows, predictions),
            "masked_lm_weights": tf.ones([rows, predictions]),
            "next_sentence_labels": integers(2, rows),
        }
        for _ in range(NUM_BATCHES)
    ]


def _vocabulary(size):
    from pipelines.wordpiece.vocabulary import SPECIAL_PIECES

    pieces = [*SPECIAL_PIECES, *(f"w{number}" for number in range(size - len(SPECIAL_PIECES)))]
    return "".join(f"{piece}\n" for piece in pieces).encode()


def _spread(values):
    return f"{statistics.median(values):.2f} | {min(values):.2f} to {max(values):.2f}"


if __name__ == "__main__":
    app.run(main, __doc__)
