"""Contenders that take training steps, each a process of its own, and whether they compute the same: what training_step and
training_slopes share."""

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
}
# What a peer has compiled: nothing, or forward and backward (KerasHub: all of the step).
COMPILED = {"keras_hub": ("none", "step"), "model_garden": ("none", "step"), "transformers": ("none",)}
PRECISIONS = ("float32", "bfloat16")
VOCABULARY = 30_522
DROPOUT = 0.1
# Of the weights that all start from, biases and LayerNorm's too (around 1 and 0): so large that the loss hangs on each of them.
_SPREAD = 0.08
# By the root of the number of weights. Adam's first steps change every weight by about the rate, so that what they do to the loss
# grows with that root; with this they change it by some percent, far from where small differences grow.
_RATE = 0.3
# AdamW's numbers in what is timed: BERT's. In what is compared the decay is large enough to be seen, and so is epsilon, like a
# gradient after clipping: without it Adam's update would be the same whether gradients are clipped or not. Without beta_2 it is the
# same epsilon to all, those that add it to the root of the corrected mean of squares (torch, ours) and of the mean as it is (Keras).
_TIMED = {"beta_2": 0.999, "epsilon": 1e-6, "weight_decay": 0.01}
_COMPARED = {"beta_2": 0.0, "weight_decay": 10.0}
_COMPARED_STEPS = 3
# Relative, of the loss of each of the compared steps, without dropout; of bfloat16 where there are few layers, and a layer: with base's twelve
# contenders were 5e-4 to 7e-3 from the float32 losses, each to another side, after two updates.
AGREEMENT = {"float32": 1e-5, "bfloat16": 3e-3}
_BFLOAT16_A_LAYER = 1e-3
# KerasHub's losses part from the others' after the first update, by 4.3e-4 after two of small. Keras' clipping (3.15,
# optimizers/base_optimizer.global_norm) squares gradients of gathered tables before the rows of one id are added up, so that its norm is
# another; that this is all of the difference was not measured.
_KERAS_AGREEMENT = 1e-3
# What the compared steps must at least do to the loss, and what dropout must at least do to it; relative.
# (By its chance the latter is now and then as little as 3e-4; of the same weights without it a loss is the same but for rounding.)
_LEAST_PROGRESS, _LEAST_DROPOUT = 0.01, 1e-6


class Contender(NamedTuple):
    """Who takes a step, and how.

    Attributes:
        who: "ours" or one of PEERS. compiled: of --jit_compile, or of COMPILED. precision: of PRECISIONS.
        python: its interpreter.
    """

    who: str
    compiled: str
    precision: str
    python: str = sys.executable

    @property
    def name(self):
        return f"{self.who} {self.compiled} {self.precision}"


def parsed(step, flag="steps"):
    """(BertConfig, rows, length, precisions) of SIZE:ROWS:LENGTH[:PRECISION]; those of this machine where none is named.

    Raises:
        UserError: it is nothing of that form.
    """
    try:
        size, rows, length, *precision = step.split(":")
        if size in SIZES:
            config = BertConfig.of_size(size, vocab_size=VOCABULARY)
        else:
            layers, hidden = (int(number) for number in size.split("x"))
            if layers < 1 or hidden < 64 or hidden % 64:  # heads of 64
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
            f"--{flag}={step}: expected SIZE:ROWS:LENGTH or SIZE:ROWS:LENGTH:PRECISION, such as small:32:128 or "
            f"4x384:8:64:bfloat16, SIZE of {', '.join(SIZES)} or LAYERSxHIDDEN in 64s, 8 to 512 tokens"
        ) from None


@contextlib.contextmanager
def written(config, rows, length):
    """A batch of full rows and the same random weights in each contender's layout, for the block: dict who -> what its requests
    name of them."""
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
        request = {"batch_file": batch_file, "learning_rate": _RATE / sum(parameters(config).values()) ** 0.5}
        weights, files = Weights(config, random_weights(config), origin="random"), {}
        for layout, readers in (
            ("huggingface", ("ours", "keras_hub", "transformers")),
            ("model_garden", ("model_garden",)),
        ):
            place = os.path.join(directory, layout)
            load.write_weights(weights, layout, place)
            files |= {reader: {**request, "directory": place} for reader in readers}
        yield files


def random_weights(config):
    """dict path -> float32 array for every weight of a BertPretrainer."""
    from keras_bert_app.interop.weights import shapes

    generator = np.random.RandomState(2)
    return {
        path: generator.normal(float(path.endswith("/gamma")), _SPREAD, shape).astype(np.float32)
        for path, shape in shapes(config).items()
    }


@contextlib.contextmanager
def _process(contender):
    who = contender.who
    peer = PeerProcess(contender.python, f"training_step_{who}.py", f"{who}_python", VERSIONS[who])
    try:
        yield peer
    finally:
        peer.close()


def _made(peer, contender, files, dropout):
    request = files[contender.who]
    of_optimizer = _TIMED if dropout else {**_COMPARED, "epsilon": request["learning_rate"] / _RATE}
    return peer.ask(
        **request, **of_optimizer, compiled=contender.compiled, precision=contender.precision, dropout=dropout
    )


def looked_at(contender, files):
    """The losses of a contender's first steps, and how long one takes: alone, in a process that ends here.

    It is the function that is timed that takes these steps, first with dropout 0, then anew from the same weights with dropout.

    Returns:
        dict: parameters; losses and losses_with_dropout of the compared steps; seconds_alone of the fastest step with dropout;
            resident_alone, bytes at the peak.
    """
    with _process(contender) as peer:
        found = {}
        for name, dropout in (("losses", 0.0), ("losses_with_dropout", DROPOUT)):
            made = _made(peer, contender, files, dropout)
            more = peer.ask(num_steps=_COMPARED_STEPS - 1)
            found[name] = [made["loss"], *more["losses"]]
    return {
        "parameters": made["parameters"],
        **found,
        "seconds_alone": min(more["seconds"]),
        "resident_alone": more["resident_bytes"],
    }


def check_same(looks, num_layers):
    """Looks at what contenders computed, before any time is told.

    Args:
        looks: name of a contender -> of looked_at; those of one precision are compared. num_layers: of the model.

    Raises:
        UserError: one computes other losses than the rest, or its steps leave the loss where it was, or dropout does.
    """
    for precision, tolerance in AGREEMENT.items():
        if precision == "bfloat16":
            tolerance = max(tolerance, num_layers * _BFLOAT16_A_LAYER)
        of_precision = {name: look for name, look in looks.items() if name.endswith(precision)}
        for name, look in of_precision.items():
            expected_of, expected = next(iter(of_precision.items()))
            losses, said = look["losses"], " ".join(f"{loss:.5f}" for loss in look["losses"])
            if not _largest_difference(losses[1:], losses[:1] * (len(losses) - 1)) >= _LEAST_PROGRESS:
                raise UserError(
                    f"{name} has losses of {said} in its first steps; expected that they change them by "
                    f"{_LEAST_PROGRESS:.0%} at least: they update nothing, so that no time is told"
                )
            # The first ones: before an update they are of the same weights, whatever the optimizer's numbers.
            if not _largest_difference(look["losses_with_dropout"][:1], losses[:1]) >= _LEAST_DROPOUT:
                raise UserError(
                    f"{name} has a first loss of {losses[0]:.5f} with dropout and without it; expected another one: it has no dropout, "
                    "so that no time is told"
                )
            allowed = max(tolerance, _KERAS_AGREEMENT if name.startswith("keras_hub") else 0.0)
            if not _largest_difference(losses, expected["losses"]) <= allowed:
                raise UserError(
                    f"{name} has losses of {said} in its first steps where {expected_of} has "
                    f"{' '.join(f'{loss:.5f}' for loss in expected['losses'])}; expected the same within {allowed:g}: "
                    "not the same work, so that no time is told"
                )


def _largest_difference(losses, others):
    """Relative. Not a number where one of them is none, which no comparison lets pass."""
    return float(np.max(np.abs(np.divide(losses, others) - 1.0)))


def timed(entrants, rounds, seconds):
    """Times contenders in turn, each in a process of its own that has nothing else in it.

    Args:
        entrants: key -> (Contender, files of `written`). seconds: about, of each in a turn; 1 step at least.

    Returns:
        key -> dict: rounds, for each the seconds of its steps; seconds_to_first_step; resident_bytes at the peak.
    """
    with contextlib.ExitStack() as stack:
        peers, figures = {}, {}
        for key, (contender, files) in entrants.items():
            peers[key] = stack.enter_context(_process(contender))
            made = _made(peers[key], contender, files, DROPOUT)
            figures[key] = {"seconds_to_first_step": made["seconds_to_first_step"], "rounds": []}
        counts = {key: max(1, round(seconds / peer.ask(num_steps=1)["seconds"][0])) for key, peer in peers.items()}
        for _ in range(rounds):
            for key, peer in peers.items():
                answer = peer.ask(num_steps=counts[key])
                figures[key]["rounds"].append(answer["seconds"])
                figures[key]["resident_bytes"] = answer["resident_bytes"]
    return figures
