"""Fine-tuning and prediction on texts of real lengths: batches of like lengths against padding all to the maximum.

python -m benchmarks.finetuning.length_buckets --task=sst-2 --data_dir=glue/SST-2 --encoder=MODEL
python -m benchmarks.finetuning.length_buckets --task=newsgroups --data_dir=20newsgroups-bydate --encoder=MODEL --max_seq_length=256

The same examples, model and batch size, one way after the other in each round of one process; both ways have compiled before the
clock starts. A round predicts the dev examples, or trains an epoch for real, from the same weights and in an order of its own, and
the dev scores after it stand beside the times. Padding is to what the task is fine-tuned with elsewhere here (SST-2: 64 tokens), or
--max_seq_length. In the end one way's model gets the other's weights, and their answers must be the same.
"""

import dataclasses
import statistics
import time

import numpy as np
from absl import flags

from benchmarks.common.report import draw_bars, in_words, keep
from benchmarks.common.this_machine import machine
from benchmarks.finetuning.finetuning_way import Way
from benchmarks.reliability import own_commands
from keras_bert_app.cli.common import app
from keras_bert_app.config.finetuning_config import FinetuningConfig
from keras_bert_app.config.training_config import PRECISIONS
from keras_bert_app.errors import UserError

_ENCODER = flags.DEFINE_string("encoder", "", "The pre-trained model, in any layout that convert reads.")
_TASK = flags.DEFINE_string("task", "sst-2", "A task of finetune.")
_DATA = flags.DEFINE_string("data_dir", "", "Directory of the task's files.")
_EXAMPLES = flags.DEFINE_integer("examples", 2048, "Training examples, the first ones.", lower_bound=64)
_DEV_EXAMPLES = flags.DEFINE_integer("dev_examples", 1024, "Dev examples, the first ones.", lower_bound=64)
_MAX_SEQ_LENGTH = flags.DEFINE_integer(
    "max_seq_length", 0, "What the padded way pads to; 0: the task's own.", lower_bound=0
)
_LEARNING_RATE = flags.DEFINE_float("learning_rate", 1e-4, "Peak rate of the epoch.", lower_bound=0.0)
_BATCH_SIZE = flags.DEFINE_integer("batch_size", 32, "Examples a batch.", lower_bound=1)
_PRECISION = flags.DEFINE_enum("precision", "float32", [name for name in PRECISIONS if name != "auto"], "Compute type.")
_ROUNDS = flags.DEFINE_integer("rounds", 3, "Counted rounds.", lower_bound=1)
_OUTPUT_FILE = flags.DEFINE_string("output_file", "", "Where to write every figure as JSON.")

# Of the same weights' logits, relative to the largest of them.
_AGREEMENT = {"float32": 1e-4, "bfloat16": 3e-2}
_PARTS = ("training", "prediction")


def main(arguments):
    del arguments
    encoder, data_dir = app.required("encoder", "data_dir")
    with app.quiet_start():
        from keras_bert_app.interop import load
        from pipelines.wordpiece.tokenizer import BertTokenizer
    weights, _ = load.load_weights(encoder, allow_missing=("pooler", "masked_lm", "next_sentence"))
    run, tokenizer = settings(data_dir), BertTokenizer(weights.vocabulary, weights.config.do_lower_case)
    ways = {
        name: Way(weights, dataclasses.replace(run, length_buckets=name == "buckets"), tokenizer)
        for name in ("buckets", "padded")
    }
    lengths = ways["buckets"].data.train.row_lengths()
    found = {
        "machine": machine(("tensorflow", "keras")),
        "run": run.to_dict(),
        "training_examples": len(lengths),
        "tokens": int(lengths.sum()),
    }
    print(in_words(found["machine"]))
    print(
        f"{run.task}: {len(lengths):,} training examples of {lengths.mean():.1f} tokens in the mean, "
        f"{ways['buckets'].data.dev.num_units:,} for prediction; batches of {run.global_batch_size}, {run.precision}, padded to "
        f"{run.max_seq_length}\n",
        flush=True,
    )
    found |= measured(ways)
    found["places"] = {name: way.places for name, way in ways.items()}
    lines = list(table(found))
    print("\n" + "\n".join(lines))
    found["difference"] = difference_of_answers(ways, _AGREEMENT[run.precision])
    print(f"\nthe same weights' answers differ by {found['difference']:.1e} of the largest logit at most")
    keep(_OUTPUT_FILE.value, found, lines, lambda path: draw(found["seconds"], path))


def settings(data_dir):
    """The FinetuningConfig of an epoch."""
    from keras_bert_app.tasks import registry

    own = {
        name: value
        for name, value in own_commands.SMALL_TASKS.get(_TASK.value, {}).items()
        if name in ("pooling", "max_seq_length")
    }
    own = {**registry.find(_TASK.value).defaults, **own}
    if _MAX_SEQ_LENGTH.value:
        own["max_seq_length"] = _MAX_SEQ_LENGTH.value
    return FinetuningConfig(
        **{
            **own,
            "task": _TASK.value,
            "data_dir": data_dir,
            "global_batch_size": _BATCH_SIZE.value,
            "num_train_epochs": 1.0,
            "max_train_examples": _EXAMPLES.value,
            "max_eval_examples": _DEV_EXAMPLES.value,
            "strategy": "one_device",
            "log_steps": 1,
            "learning_rate": _LEARNING_RATE.value,
            "bias_correction": True,
            "precision": _PRECISION.value,
            "jit_compile": "parts",
        }
    )


def measured(ways):
    """dict: seconds of each part and way, a number a round; scores of each way, a dict a round."""
    seconds, scores = {part: {name: [] for name in ways} for part in _PARTS}, {name: [] for name in ways}
    # Prediction first, as the commands predict and evaluate have it, whose processes have trained nothing.
    for part in ("prediction", "training"):
        for number in range(_ROUNDS.value + 1):
            for name, way in ways.items():
                way.reset(number)
                started = time.perf_counter()
                getattr(way, part)()
                took = time.perf_counter() - started
                print(f"round {number or 'that compiles'}: {part}, {name}: {took:.2f} s", flush=True)
                if number:  # the first round compiles
                    seconds[part][name].append(took)
                    if part == "training":
                        way.prediction()
                        scores[name].append(way.scores())
    return {"seconds": seconds, "scores": scores}


def table(found):
    """Markdown: times and their ratios, and the scores of each round."""
    yield "| part | buckets, s, median | padded, s, median | ratio, median | lowest to highest |"
    yield "|---|---|---|---|---|"
    for part, of_ways in found["seconds"].items():
        ratios = [padded / buckets for buckets, padded in zip(of_ways["buckets"], of_ways["padded"])]
        yield (
            f"| {part} | {statistics.median(of_ways['buckets']):.2f} | {statistics.median(of_ways['padded']):.2f} | "
            f"{statistics.median(ratios):.2f} | {min(ratios):.2f} to {max(ratios):.2f} |"
        )
    yield ""
    yield "| dev, a figure a round | buckets | padded |"
    yield "|---|---|---|"
    for metric in found["scores"]["buckets"][0]:
        cells = [
            ", ".join(f"{scores[metric]:.4f}" for scores in found["scores"][name]) for name in ("buckets", "padded")
        ]
        yield f"| {metric} | {cells[0]} | {cells[1]} |"
    yield ""
    places = " and ".join(f"{places:,} places ({name})" for name, places in found["places"].items())
    yield f"{found['tokens']:,} tokens of an epoch took {places}"


def draw(seconds, path):
    """Bars of both ways, a panel for each part."""
    panels = {
        part: {name: (statistics.median(rounds), min(rounds), max(rounds)) for name, rounds in of_ways.items()}
        for part, of_ways in seconds.items()
    }
    draw_bars(
        panels,
        "Batches of like lengths against padding to the maximum\nseconds, less is better",
        path,
        lambda name: name == "buckets",
    )


def difference_of_answers(ways, limit):
    """Largest difference of a logit where one way has the other's weights, relative to the largest logit.

    Raises:
        UserError: it is above the limit.
    """
    buckets, padded = ways.values()
    for ours, theirs in zip(padded.variables, buckets.variables):
        ours.assign(theirs)
    for way in ways.values():
        way.prediction()
    answers = list(zip(buckets.answers, padded.answers))
    found = max(np.abs(one - other).max() for one, other in answers) / max(np.abs(one).max() for one, _ in answers)
    if not found <= limit:
        raise UserError(
            f"the same weights' answers differ by {found:.1e} of the largest logit between the two ways of batching; "
            f"expected {limit:g} at most: not the same work"
        )
    return float(found)


if __name__ == "__main__":
    app.run(main, __doc__)
