"""Runs the contenders of training_step, each in its own process. Checks that all compute the same losses."""

import contextlib
import os
import sys
import tempfile
from typing import NamedTuple

import numpy as np

from benchmarks.common.peer_process import PeerProcess
from benchmarks.common.this_machine import precisions
from benchmarks.step.random_batches import random_batch
from keras_bert_app.cli.common import app
from keras_bert_app.config.bert_config import SIZES, BertConfig
from keras_bert_app.config.pretraining_config import PretrainingConfig
from keras_bert_app.errors import UserError
from keras_bert_app.estimation.counts import parameters

PEERS = ("keras_hub", "model_garden", "transformers")
VERSIONS = {
    "keras_hub": {"keras-hub": "0.32.0"},
    "model_garden": {"tf-models-official": "2.20.0", "tensorflow": "2.21.0"},
    "transformers": {"transformers": "5.23.0", "torch": "2.13.0"},
    "ours": {},
    "ours_language_model": {},
    "torch_language_model": {"transformers": "5.23.0", "torch": "2.13.0"},
}
# Peer -> its kinds of compilation. "step" compiles forward and backward pass, and in KerasHub the optimizer too.
COMPILED = {"keras_hub": ("none", "step"), "model_garden": ("none", "step"), "transformers": ("none",)}
PRECISIONS = ("float32", "bfloat16")
VOCABULARY = 30_522
DROPOUT = 0.1
# Standard deviation of all initial weights. Biases and LayerNorm weights are random too, so that the loss depends on
# each of them.
_SPREAD = 0.08
# The learning rate is this value divided by the square root of the number of weights. Adam's first steps change every
# weight by about the rate, and their effect on the loss grows with that root. With this value the loss changes by a
# few percent.
_RATE = 0.3
# The timed steps have BERT's numbers for AdamW. The compared steps have a decay and an epsilon that are large enough to
# change the loss. With a small epsilon, Adam's update would hide whether gradients are clipped. torch and ours correct
# the mean of squares before they add epsilon, and Keras does not. With beta_2 = 0, epsilon has the same meaning in all.
_TIMED = {"beta_2": 0.999, "epsilon": 1e-6, "weight_decay": 0.01}
_COMPARED = {"beta_2": 0.0, "weight_decay": 10.0}
_COMPARED_STEPS = 3
# Largest relative difference of the losses of compared steps, without dropout. In bfloat16 the limit grows with the
# number of layers. With base's twelve layers, losses after two updates were 5e-4 to 7e-3 above or below those in
# float32.
AGREEMENT = {"float32": 1e-5, "bfloat16": 3e-3}
_BFLOAT16_A_LAYER = 1e-3
# KerasHub's losses differ from the others' after the first update, by 4.3e-4 after two updates of small. The clipping
# of Keras 3.15 (optimizers/base_optimizer.global_norm) squares the gradients of gathered tables before it adds the
# rows of one id, so its norm differs. It was not measured whether this explains the whole difference.
_KERAS_AGREEMENT = 1e-3
# Smallest relative change of the loss by the compared steps, and by dropout. The effect of dropout varies by chance and
# can be as small as 3e-4. Without dropout, two losses of the same weights differ only by rounding.
_LEAST_PROGRESS, _LEAST_DROPOUT = 0.01, 1e-6


class Contender(NamedTuple):
    """An implementation of the training step with its settings.

    Attributes:
        who: str. "ours" or one of PEERS.
        compiled: str. A value of --jit_compile, or of COMPILED.
        precision: str. One of PRECISIONS.
        python: str. Interpreter that runs the implementation.
    """

    who: str
    compiled: str
    precision: str
    python: str = sys.executable

    @property
    def name(self) -> str:
        return f"{self.who} {self.compiled} {self.precision}"


def parsed(step: str) -> tuple:
    """Parses SIZE:ROWS:LENGTH[:PRECISION], an entry of --steps.

    Args:
        step: str. The entry.

    Returns:
        (BertConfig, rows, length, precisions). Without PRECISION, the precisions are those of this machine.

    Raises:
        UserError: the entry has another form.
    """
    try:
        size, rows, length, *precision = step.split(":")
        if size in SIZES:
            config = BertConfig.of_size(size, vocab_size=VOCABULARY)
        else:
            layers, hidden = (int(number) for number in size.split("x"))
            if layers < 1 or hidden < 64 or hidden % 64:  # attention heads have size 64
                raise ValueError
            config = BertConfig(
                vocab_size=VOCABULARY,
                hidden_size=hidden,
                num_hidden_layers=layers,
                num_attention_heads=hidden // 64,
                intermediate_size=4 * hidden,
            )
        if len(precision) > 1 or not set(precision) <= set(PRECISIONS):
            raise ValueError
        if int(rows) < 1 or not 8 <= int(length) <= config.max_position_embeddings:
            raise ValueError
        return config, int(rows), int(length), tuple(precision) or precisions()
    except ValueError:
        raise UserError(
            f"--steps={step}: expected SIZE:ROWS:LENGTH or SIZE:ROWS:LENGTH:PRECISION, such as small:32:128 or "
            f"4x384:8:64:bfloat16; SIZE is one of {', '.join(SIZES)} or LAYERSxHIDDEN, "
            "HIDDEN is a multiple of 64, and LENGTH is 8 to 512"
        ) from None


@contextlib.contextmanager
def written(config, rows: int, length: int):
    """Writes a batch of full rows, and the same random weights in each contender's layout.

    The files exist until the end of the block.

    Args:
        config: BertConfig.
        rows: int. Rows in the batch.
        length: int. Tokens in a row.

    Yields:
        dict. Contender's name -> the part of its requests that names the files.
    """
    run = PretrainingConfig(
        global_batch_size=rows, max_seq_length=length, max_predictions_per_seq=max(1, round(0.15 * length))
    )
    with tempfile.TemporaryDirectory() as directory:
        with app.quiet_start():
            from keras_bert_app.interop import load
            from keras_bert_app.interop.weights import Weights

            batch = {name: values.numpy() for name, values in random_batch(config, run).items()}
        batch_file = os.path.join(directory, "batch.npz")
        np.savez(batch_file, **batch)
        request = {"batch_file": batch_file, "learning_rate": learning_rate(sum(parameters(config).values()))}
        weights, files = Weights(config, random_weights(config), origin="random"), {}
        for layout, readers in (
            ("huggingface", ("ours", "keras_hub", "transformers")),
            ("model_garden", ("model_garden",)),
        ):
            place = os.path.join(directory, layout)
            load.write_weights(weights, layout, place)
            files |= {reader: {**request, "directory": place} for reader in readers}
        yield files


def learning_rate(num_parameters: int) -> float:
    """The learning rate of the compared steps, which change the loss by a few percent.

    Args:
        num_parameters: int. Number of weights.
    """
    return float(_RATE / num_parameters**0.5)


def random_weights(config, spread: float = _SPREAD) -> dict[str, np.ndarray]:
    """Random float32 arrays for all weights of a model for pre-training, by path.

    Args:
        config: BertConfig.
        spread: float. Standard deviation.
    """
    from keras_bert_app.config.weight_shapes import shapes

    generator = np.random.RandomState(2)
    return {
        path: generator.normal(float(path.endswith("/gamma")), spread, shape).astype(np.float32)
        for path, shape in shapes(config).items()
    }


@contextlib.contextmanager
def _process(contender):
    who = contender.who
    peer = PeerProcess(contender.python, f"step/training_step_{who}.py", f"{who}_python", VERSIONS[who])
    try:
        yield peer
    finally:
        peer.close()


def _made(peer, contender, files, dropout):
    request = files[contender.who]
    optimizer_settings = _TIMED if dropout else {**_COMPARED, "epsilon": request["learning_rate"] / _RATE}
    return peer.ask(
        **request, **optimizer_settings, compiled=contender.compiled, precision=contender.precision, dropout=dropout
    )


def looked_at(contender: Contender, files: dict) -> dict:
    """Takes a contender's first steps in a process of its own, while no other contender runs.

    The function that is timed later takes these steps: first without dropout, then from the same weights with dropout.

    Args:
        contender: Contender.
        files: dict of `written`.

    Returns:
        dict with parameters; losses and losses_with_dropout of the compared steps; seconds_alone of the fastest step
        with dropout; resident_alone, peak bytes.
    """
    with _process(contender) as peer:
        losses = {}
        for name, dropout in (("losses", 0.0), ("losses_with_dropout", DROPOUT)):
            made = _made(peer, contender, files, dropout)
            more = peer.ask(num_steps=_COMPARED_STEPS - 1)
            losses[name] = [made["loss"], *more["losses"]]
    return {
        "parameters": made["parameters"],
        **losses,
        "seconds_alone": min(more["seconds"]),
        "resident_alone": more["resident_bytes"],
    }


def check_same(looks: dict, num_layers: int, agreement: dict[str, float] | None = None) -> None:
    """Checks that contenders of one precision have the same losses.

    It also checks that steps and dropout change the loss.

    Args:
        looks: dict. Contender's name -> result of looked_at.
        num_layers: int. Layers of the model.
        agreement: dict precision -> largest relative difference; None for AGREEMENT.

    Raises:
        UserError: a check fails. Then no times are shown.
    """
    for precision, tolerance in (agreement or AGREEMENT).items():
        if precision == "bfloat16":
            tolerance = max(tolerance, num_layers * _BFLOAT16_A_LAYER)
        same_precision = {name: look for name, look in looks.items() if name.endswith(precision)}
        for name, look in same_precision.items():
            reference, expected = next(iter(same_precision.items()))
            losses, shown = look["losses"], " ".join(f"{loss:.5f}" for loss in look["losses"])
            if not _largest_difference(losses[1:], losses[:1] * (len(losses) - 1)) >= _LEAST_PROGRESS:
                raise UserError(
                    f"{name} has losses of {shown} in its first steps; expected a change of "
                    f"{_LEAST_PROGRESS:.0%} at least. The steps update nothing, so no times are shown"
                )
            # Compare the first losses: before an update, they are losses of the same weights for any optimizer.
            if not _largest_difference(look["losses_with_dropout"][:1], losses[:1]) >= _LEAST_DROPOUT:
                raise UserError(
                    f"{name} has a first loss of {losses[0]:.5f} both with and without dropout; expected dropout to "
                    "change the loss. The contender has no dropout, so no times are shown"
                )
            allowed = max(tolerance, _KERAS_AGREEMENT if name.startswith("keras_hub") else 0.0)
            if not _largest_difference(losses, expected["losses"]) <= allowed:
                raise UserError(
                    f"{name} has losses of {shown} in its first steps where {reference} has "
                    f"{' '.join(f'{loss:.5f}' for loss in expected['losses'])}; expected the same within {allowed:g}. "
                    "The two do not do the same work, so no times are shown"
                )


def _largest_difference(losses, others):
    """The largest relative difference. It is nan if a loss is nan, and every comparison with nan is false."""
    return float(np.max(np.abs(np.divide(losses, others) - 1.0)))


def timed(contenders: list[Contender], files: dict, rounds: int, seconds: float) -> dict:
    """Times contenders in turn, each in a process of its own.

    Args:
        contenders: list of Contender.
        files: dict of `written`.
        rounds: int. Number of rounds.
        seconds: float. About how long each contender runs in a round. It takes at least one step.

    Returns:
        dict. Contender's name -> dict with rounds (for each round, the seconds of its steps), seconds_to_first_step and
        resident_bytes (peak).
    """
    with contextlib.ExitStack() as stack:
        peers, figures = {}, {}
        for contender in contenders:
            name = contender.name
            peers[name] = stack.enter_context(_process(contender))
            made = _made(peers[name], contender, files, DROPOUT)
            figures[name] = {"seconds_to_first_step": made["seconds_to_first_step"], "rounds": []}
        counts = {name: max(1, round(seconds / peer.ask(num_steps=1)["seconds"][0])) for name, peer in peers.items()}
        for _ in range(rounds):
            for name, peer in peers.items():
                answer = peer.ask(num_steps=counts[name])
                figures[name]["rounds"].append(answer["seconds"])
                figures[name]["resident_bytes"] = answer["resident_bytes"]
    return figures
