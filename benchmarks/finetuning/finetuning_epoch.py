"""Times fine-tuning and prediction of this project, KerasHub and transformers on texts of real lengths.

python -m benchmarks.finetuning.finetuning_epoch --data_dir=glue/SST-2 --encoder=MINILM \\
    --transformers_python=PEERS_ENV/bin/python

All contenders have the same examples of SST-2, the same encoder and output layer in their own layouts, AdamW with
clipping, dropout, and a constant rate. Each contender makes batches as its users do. The texts of our batches have
similar lengths. KerasHub's preprocessor pads all texts to --max_seq_length. transformers makes batches as its Trainer
does with group_by_length, and pads each batch to its longest text.

A contender is NAME@PRECISION@COMPILED. COMPILED is none, parts or step for ours, none or step for keras_hub, and none
for transformers. Each contender runs in its own process. The benchmark shows no times if the contenders' logits differ
at the start, or if an epoch does not change the logits. In a round, the contenders take turns. Each trains its model
for one more epoch, and then predicts the dev examples. The first round does not count, because it includes compilation.
PEERS_ENV has benchmarks/requirements-serving.txt.
"""

import dataclasses
import json
import os
import statistics
import sys
import tempfile

import numpy as np
from absl import flags

from benchmarks.common.peer_process import PeerProcess
from benchmarks.common.report import draw_bars, in_words, keep
from benchmarks.common.this_machine import machine, precisions
from keras_bert_app.cli.common import app
from keras_bert_app.errors import UserError

_ENCODER = flags.DEFINE_string("encoder", "", "The pre-trained model with a pooler, in any layout that convert reads.")
_DATA = flags.DEFINE_string("data_dir", "", "Directory of SST-2's files.")
_EXAMPLES = flags.DEFINE_integer(
    "examples", 2048, "Number of training examples, drawn as finetune --max_train_examples draws them.", lower_bound=64
)
_DEV_EXAMPLES = flags.DEFINE_integer("dev_examples", 872, "Number of dev examples: the first ones.", lower_bound=64)
_MAX_SEQ_LENGTH = flags.DEFINE_integer(
    "max_seq_length", 64, "Tokens to which all contenders cut texts, and to which KerasHub pads them.", lower_bound=8
)
_BATCH_SIZE = flags.DEFINE_integer("batch_size", 32, "Examples in a batch.", lower_bound=1)
_LEARNING_RATE = flags.DEFINE_float("learning_rate", 5e-5, "Constant learning rate.", lower_bound=0.0)
_ROUNDS = flags.DEFINE_integer("rounds", 3, "Number of rounds that count.", lower_bound=1)
_CONTENDERS = flags.DEFINE_list(
    "contenders",
    [],
    "NAME@PRECISION@COMPILED of each; by default the fastest ones for the compute types that this CPU multiplies.",
)
_PYTHON = flags.DEFINE_string("transformers_python", "", "Interpreter with torch and transformers.")
_OUTPUT_FILE = flags.DEFINE_string("output_file", "", "JSON file for all figures.")

_VERSIONS = {
    "ours": {"tensorflow": "2.21.0"},
    "keras_hub": {"keras-hub": "0.32.0"},
    "transformers": {"transformers": "5.23.0", "torch": "2.13.0"},
}
_COMPILED = {"ours": ("none", "parts", "step"), "keras_hub": ("none", "step"), "transformers": ("none",)}
_PRECISIONS = ("float32", "bfloat16")
_BY_DEFAULT = {
    ("float32", "bfloat16"): (
        "ours@bfloat16@parts",
        "keras_hub@bfloat16@none",
        "keras_hub@float32@step",
        "transformers@bfloat16@none",
        "transformers@float32@none",
    ),
    ("float32",): ("ours@float32@parts", "keras_hub@float32@step", "transformers@float32@none"),
}
# Largest difference relative to the largest logit, also between precisions. KerasHub always computes gelu by tanh.
_AGREEMENT = 5e-2
_PARTS = ("training", "prediction")


def main(arguments):
    del arguments
    encoder, data_dir, python = app.required("encoder", "data_dir", "transformers_python")
    contenders = {entry: parsed(entry) for entry in _CONTENDERS.value or _BY_DEFAULT[precisions()]}
    figures = {
        "machine": machine(("tensorflow", "keras")),
        "examples": _EXAMPLES.value,
        "dev_examples": _DEV_EXAMPLES.value,
        "max_seq_length": _MAX_SEQ_LENGTH.value,
        "batch_size": _BATCH_SIZE.value,
    }
    print(in_words(figures["machine"]), flush=True)
    with tempfile.TemporaryDirectory() as directory:
        places, texts_file, labels = written(encoder, data_dir, directory)
        peers, initial_logits = {}, {}
        for entry, (name, precision, compiled) in contenders.items():
            interpreter = python if name == "transformers" else sys.executable
            script = f"finetuning/finetuning_epoch_{name}.py"
            peers[entry] = PeerProcess(interpreter, script, f"{name}_python", _VERSIONS[name])
            first = peers[entry].ask(
                directory=places[name],
                data_dir=os.path.abspath(data_dir),
                texts_file=texts_file,
                precision=precision,
                compiled=compiled,
                examples=_EXAMPLES.value,
                dev_examples=_DEV_EXAMPLES.value,
                max_seq_length=_MAX_SEQ_LENGTH.value,
                batch_size=_BATCH_SIZE.value,
                learning_rate=_LEARNING_RATE.value,
                seed=1,
            )
            initial_logits[entry] = np.array(first["logits"])
            check_same(entry, initial_logits[entry], next(iter(initial_logits.values())))
        figures["rounds"] = in_turn(peers, labels, initial_logits)
    lines = list(table(figures["rounds"]))
    print("\n" + "\n".join(lines))
    keep(_OUTPUT_FILE.value, figures, lines, lambda path: draw(figures["rounds"], path))


def parsed(entry: str) -> tuple[str, str, str]:
    """(name, precision, compiled) of an entry of --contenders.

    Args:
        entry: str. The entry.

    Raises:
        UserError: the entry has another form.
    """
    name, precision, compiled, *more = [*entry.split("@"), "", ""]
    if any(more) or precision not in _PRECISIONS or compiled not in _COMPILED.get(name, ()):
        raise UserError(
            f"--contenders={entry}: expected NAME@PRECISION@COMPILED, such as keras_hub@float32@step; PRECISION is "
            f"{' or '.join(_PRECISIONS)}; COMPILED is "
            + ", ".join(f"{' or '.join(ways)} for {contender}" for contender, ways in _COMPILED.items())
        )
    return name, precision, compiled


def written(encoder: str, data_dir: str, directory: str) -> tuple[dict, str, np.ndarray]:
    """Writes the encoder with an output layer in the contenders' layouts, and the texts.

    Args:
        encoder: str. The pre-trained model.
        data_dir: str. Directory of SST-2's files.
        directory: str. Where the files go.

    Returns:
        (dict of contender's name -> model directory, path of the texts, labels [N] of the dev examples).
    """
    with app.quiet_start():
        from keras_bert_app.config.weight_shapes import part_of
        from keras_bert_app.interop import load
    weights, _ = load.load_weights(encoder, allow_missing=("masked_lm", "next_sentence"))
    random = np.random.RandomState(1)
    output_layer = {
        "classifier/kernel": random.normal(size=(weights.config.hidden_size, 2), scale=0.2).astype(np.float32),
        "classifier/bias": np.zeros(2, np.float32),
    }
    kept = {path: tensor for path, tensor in weights.tensors.items() if part_of(path) in ("encoder", "pooler")}
    weights = dataclasses.replace(
        weights, tensors={**kept, **output_layer}, task="sequence_classification", labels=("0", "1")
    )
    places = {}
    for layout, readers in (("huggingface", ("ours", "transformers")), ("keras_hub", ("keras_hub",))):
        place = os.path.join(directory, layout)
        load.write_weights(weights, layout, place)
        places |= dict.fromkeys(readers, place)
    texts = {
        split: texts_of(data_dir, split, most)
        for split, most in (("train", _EXAMPLES.value), ("dev", _DEV_EXAMPLES.value))
    }
    texts_file = os.path.join(directory, "texts.json")
    with open(texts_file, "w", encoding="utf-8") as file:
        json.dump(texts, file)
    return places, texts_file, np.array([label for _, label in texts["dev"]])


def texts_of(data_dir: str, split: str, most: int) -> list[tuple[str, int]]:
    """The examples of SST-2 that our side uses, a list of (text, label).

    The examples of "train" are a random draw. The examples of "dev" are the first ones.

    Args:
        data_dir: str. Directory of SST-2's files.
        split: str. "train" or "dev".
        most: int. Number of examples.
    """
    from keras_bert_app.config.finetuning_config import FinetuningConfig
    from keras_bert_app.tasks import registry
    from keras_bert_app.tasks.labelled_data import drawn_examples

    task, run = registry.find("sst-2"), FinetuningConfig(task="sst-2", data_dir=data_dir, max_train_examples=most)
    examples = task.read_split(data_dir, split, run)
    examples = drawn_examples(examples, task, run) if split == "train" else examples.first(most)
    return [(example.text_a, int(example.label)) for example in examples]


def check_same(entry: str, logits: np.ndarray, expected: np.ndarray) -> None:
    """Raises UserError if a contender's logits differ from the first contender's before training.

    Args:
        entry: str. The contender.
        logits: float array [N, n]. Its logits.
        expected: float array [N, n]. The first contender's logits.
    """
    difference = np.abs(logits - expected).max() / np.abs(expected).max()
    print(
        f"{entry}: with the same weights, the logits differ from the first contender's by {difference:.1e} of the "
        "largest logit",
        flush=True,
    )
    if not difference <= _AGREEMENT:
        raise UserError(
            f"{entry}: with the same weights, the logits differ from the first contender's by {difference:.1e} of the "
            f"largest logit; expected at most {_AGREEMENT:g}. The contenders do not compute the same, so no times are "
            "shown; leave this contender out of --contenders"
        )


def check_trained(entry: str, logits: np.ndarray, initial: np.ndarray) -> None:
    """Raises UserError if an epoch has not changed the logits by more than _AGREEMENT.

    Args:
        entry: str. The contender.
        logits: float array [N, n]. Its logits after an epoch.
        initial: float array [N, n]. Its logits before training.
    """
    change = np.abs(logits - initial).max() / np.abs(initial).max()
    if not change > _AGREEMENT:
        raise UserError(
            f"{entry}: an epoch changed the logits by {change:.1e} of the largest logit; expected more than "
            f"{_AGREEMENT:g}. The contender does not train, so no times are shown; check its weights and "
            "--learning_rate"
        )


def in_turn(peers: dict, labels: np.ndarray, initial_logits: dict) -> list[dict]:
    """Runs all rounds. In each round, the contenders take turns.

    Args:
        peers: dict. Contender -> PeerProcess.
        labels: int array [N]. Labels of the dev examples.
        initial_logits: dict. Contender -> logits before training.

    Returns:
        list over the counted rounds. Contender -> dict with seconds of training and prediction, accuracy, and
        resident_bytes (peak).
    """
    rounds = []
    for number in range(_ROUNDS.value + 1):
        answers = {entry: peer.ask(what="epoch") for entry, peer in peers.items()}
        for entry, answer in answers.items():
            logits = np.array(answer.pop("logits"))
            check_trained(entry, logits, initial_logits[entry])
            answer["accuracy"] = float((np.argmax(logits, -1) == labels).mean())
            print(
                f"round {number or 'that compiles'}: {entry}: training {answer['training']:.2f} s, prediction "
                f"{answer['prediction']:.2f} s, dev accuracy {answer['accuracy']:.4f}",
                flush=True,
            )
        if number:
            rounds.append(answers)
    return rounds


def seconds_of(rounds: list[dict], entry: str, part: str) -> list[float]:
    """The seconds of a contender in each round.

    Args:
        rounds: list of dict. Result of in_turn.
        entry: str. The contender.
        part: str. "training" or "prediction".
    """
    return [answers[entry][part] for answers in rounds]


def table(rounds: list[dict]):
    """Yields a table in Markdown, a line for each contender.

    A line has medians and spreads, ratios to the first contender, and accuracies of the rounds.

    Args:
        rounds: list of dict. Result of in_turn.
    """
    yield (
        "| contender | "
        + " | ".join(f"{part}, s | times the first" for part in _PARTS)
        + " | dev accuracy after each | resident, GB |"
    )
    yield "|---|" + "---|---|" * len(_PARTS) + "---|---|"
    first = next(iter(rounds[0]))
    for entry in rounds[0]:
        cells = [entry]
        for part in _PARTS:
            seconds = seconds_of(rounds, entry, part)
            firsts = seconds_of(rounds, first, part)
            ratios = [mine / theirs for mine, theirs in zip(seconds, firsts, strict=True)]
            cells += [_spread(seconds), "" if entry == first else _spread(ratios)]
        cells += [
            ", ".join(f"{answers[entry]['accuracy']:.4f}" for answers in rounds),
            f"{rounds[-1][entry]['resident_bytes'] / 1e9:.2f}",
        ]
        yield f"| {' | '.join(cells)} |"


def _spread(values):
    return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


def draw(rounds: list[dict], path: str) -> None:
    """Draws bars of the contenders, a panel for each part.

    Args:
        rounds: list of dict. Result of in_turn.
        path: str. File to write.
    """
    panels = {}
    for part in _PARTS:
        seconds_by_entry = {entry: seconds_of(rounds, entry, part) for entry in rounds[0]}
        panels[part] = {
            entry: (statistics.median(seconds), min(seconds), max(seconds))
            for entry, seconds in seconds_by_entry.items()
        }
    draw_bars(panels, "Fine-tuning on texts of real lengths, with the peers\nseconds, less is better", path)


if __name__ == "__main__":
    app.run(main, __doc__)
