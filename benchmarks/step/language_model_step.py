"""Compares the time of a training step of language models with torch's, with the same weights and the same batch.

python -m benchmarks.step.language_model_step --transformers_python=HF_ENV/bin/python

An entry of --steps is MODEL:ROWS:LENGTH. MODEL is gpt_SIZE, as gpt_tiny, or an LSTM, as awd_lstm_tiny and elmo_tiny.
A step is forward, backward, clipping at a global norm of 1, and AdamW with bias correction, in float32. The vocabulary
has 8,000 pieces. Dropout is 0.1. The contenders:

- ours, with --jit_compile=none, parts and step
- a GPT: transformers' GPT2LMHeadModel
- an AWD-LSTM: torch.nn.LSTM between a table of pieces and an output layer with the same table
- an ELMo: torch.nn.LSTM with projections for each direction, and torch's convolutions over characters

HF_ENV has benchmarks/requirements-hf.txt. An AWD-LSTM here has neither dropout of recurrent weights nor penalties,
because torch.nn.LSTM has none. For the same reason the states of an ELMo have no limits here. Dropout is on the input
of the first layer and on the output of each layer. In an AWD-LSTM ours has one mask for all places of a row, torch's
has another at each place.

Each contender first takes three steps alone. From the same weights, without dropout, all must have the same losses,
within 1e-5.
Then they take turns, as in training_step. If a result in OUTPUT_DIR/language_model_step.json has the same settings, the
command does not measure it again.
"""

import contextlib
import os
import tempfile

import numpy as np
from absl import flags

from benchmarks.common import report
from benchmarks.common.identity import code_digest
from benchmarks.common.resumable import results_of
from benchmarks.common.this_machine import machine
from benchmarks.step import step_contenders
from benchmarks.step.step_contenders import VERSIONS, Contender
from benchmarks.step.training_step_table import draw, table
from keras_bert_app.cli.common import app
from keras_bert_app.config.bert_config import SIZES, BertConfig
from keras_bert_app.config.lstm_config import LSTM_SIZES, NUM_CHARACTERS, LstmConfig
from keras_bert_app.config.training_config import COMPILATIONS
from keras_bert_app.config.weight_shapes import shapes
from keras_bert_app.errors import UserError
from pipelines import storage
from pipelines.wordpiece.vocabulary import SPECIAL_PIECES

_OURS, _TORCH = "ours_language_model", "torch_language_model"
_VOCABULARY = 8000
_RATE_FACTOR = {"gpt": 4, "lstm_lm": 40}  # the losses of these models change more slowly than those of training_step
_LSTM_SPREAD = 0.25  # with smaller weights, three steps hardly change the loss of an LSTM
# Recurrent weights of that size make an LSTM chaotic: over 128 places, rounding changes its loss by 1e-3.
_RECURRENT_FACTOR = 0.2
_MODELS = {
    **{f"gpt_{size}": (BertConfig, size, {"architecture": "gpt"}) for size in SIZES},
    **{size: (LstmConfig, size, {}) for size in LSTM_SIZES},
}

_STEPS = flags.DEFINE_list(
    "steps",
    ["gpt_tiny:32:128", "gpt_mini:32:128", "awd_lstm_tiny:32:128", "elmo_tiny:32:128"],
    "Steps to measure, MODEL:ROWS:LENGTH.",
)
_COMPILED = flags.DEFINE_list("ours", ["none", "parts", "step"], "Values of --jit_compile for our contenders.")
_PYTHON = flags.DEFINE_string("transformers_python", "", "Interpreter with benchmarks/requirements-hf.txt.")
_ROUNDS = flags.DEFINE_integer("rounds", 5, "Number of rounds. A contender takes a turn in each.", lower_bound=1)
_SECONDS = flags.DEFINE_float("seconds", 5, "Approximate seconds of a turn, at least one step.", lower_bound=0.0)
_OUTPUT_DIR = flags.DEFINE_string("output_dir", "runs/bench", "Where results go.")


def main(arguments):
    del arguments
    (python,) = app.required("transformers_python")
    if not _STEPS.value:
        raise UserError("--steps is empty; give entries such as gpt_tiny:32:128")
    for step in _STEPS.value:
        parsed(step)
    for compiled in _COMPILED.value:
        if compiled not in COMPILATIONS:
            raise UserError(f"--ours={compiled} is not known; expected {', '.join(COMPILATIONS)}")
    os.environ.update(TF_CPP_MIN_LOG_LEVEL="3")
    settings = {
        "machine": machine(("tensorflow", "keras")),
        "peer": VERSIONS[_TORCH],
        "ours": _COMPILED.value,
        "code": code_digest(),
        "rounds": _ROUNDS.value,
        "seconds": _SECONDS.value,
    }
    path = os.path.join(_OUTPUT_DIR.value, "language_model_step")
    done = results_of(
        _STEPS.value,
        lambda step: measured(step, python),
        f"{path}.json",
        settings,
        shown=lambda figures: f"{len(figures)} contenders measured",
    )
    text = "\n".join([report.in_words(settings["machine"]), "", *table(done)])
    print("\n" + text)
    storage.write_whole(f"{path}.md", text + "\n")
    draw(done, f"{path}.png")


def parsed(step: str) -> tuple[BertConfig, int, int]:
    """Parses an entry of --steps.

    Args:
        step: str. MODEL:ROWS:LENGTH.

    Returns:
        (configuration, rows, length).

    Raises:
        UserError: the entry has another form.
    """
    try:
        model, rows, length = step.split(":")
        kind, size, others = _MODELS[model]
        config = kind.of_size(size, vocab_size=_VOCABULARY, **others)
        if int(rows) < 1 or not 8 <= int(length) <= config.max_position_embeddings:
            raise ValueError
        return config, int(rows), int(length)
    except (KeyError, ValueError):
        raise UserError(
            f"--steps={step}: expected MODEL:ROWS:LENGTH, such as gpt_tiny:32:128; MODEL is one of "
            f"{', '.join(_MODELS)}, and LENGTH is 8 to 512"
        ) from None


def measured(step: str, python: str) -> dict:
    """Measures an entry of --steps.

    Args:
        step: str. The entry.
        python: str. Interpreter of the peer.

    Returns:
        dict of contender's name -> figures.
    """
    config, rows, length = parsed(step)
    contenders = [Contender(_OURS, compiled, "float32") for compiled in _COMPILED.value]
    contenders.append(Contender(_TORCH, "none", "float32", python))
    with written(config, rows, length) as files:
        looks = {contender.name: step_contenders.looked_at(contender, files) for contender in contenders}
        step_contenders.check_same(looks, config.num_hidden_layers)
        times = step_contenders.timed(contenders, files, _ROUNDS.value, _SECONDS.value)
    return {name: {**looks[name], **times[name]} for name in looks}


@contextlib.contextmanager
def written(config: BertConfig, rows: int, length: int):
    """Writes a batch of full rows, and the same random weights for both sides.

    The files exist until the end of the block.

    Args:
        config: BertConfig of architecture gpt or LstmConfig.
        rows: int. Rows in the batch.
        length: int. Tokens in a row.

    Yields:
        dict. Contender.who -> the part of its requests that names the files.
    """
    with tempfile.TemporaryDirectory() as directory:
        with app.quiet_start():
            from keras_bert_app.interop import load
            from keras_bert_app.interop.weights import Weights
        batch_file, model_dir = (os.path.join(directory, name) for name in ("batch.npz", "model"))
        ids = np.random.RandomState(1).randint(5, config.vocab_size, (rows, length)).astype(np.int32)
        np.savez(batch_file, input_word_ids=ids)
        is_gpt = config.architecture == "gpt"
        tensors = step_contenders.random_weights(config, **({} if is_gpt else {"spread": _LSTM_SPREAD}))
        for path in (path for path in tensors if path.endswith("recurrent_kernel")):
            tensors[path] *= _RECURRENT_FACTOR
        if (path := "encoder/embeddings/characters") in tensors:
            tensors[path] = np.random.RandomState(3).randint(0, NUM_CHARACTERS, tensors[path].shape).astype(np.float32)
        pieces = [*SPECIAL_PIECES, *(f"w{number}" for number in range(config.vocab_size - len(SPECIAL_PIECES)))]
        vocabulary = "".join(f"{piece}\n" for piece in pieces).encode()
        weights = Weights(config, tensors, vocabulary=vocabulary, origin="random")
        load.write_weights(weights, "gpt2" if is_gpt else "workdir", model_dir)
        if not is_gpt:
            np.savez(os.path.join(model_dir, "weights.npz"), **tensors)
        request = {
            "architecture": config.architecture,
            "is_bidirectional": not is_gpt and config.is_bidirectional,
            "batch_file": batch_file,
            "directory": model_dir,
            "learning_rate": _RATE_FACTOR[config.architecture] * step_contenders.learning_rate(_num_parameters(config)),
        }
        yield dict.fromkeys((_OURS, _TORCH), request)


def _num_parameters(config):
    return int(sum(np.prod(shape) for shape in shapes(config).values()))


if __name__ == "__main__":
    app.run(main, __doc__)
