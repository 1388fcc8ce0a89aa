"""Runs the contenders of the benchmark of text-to-text speed. Checks first that all of them compute the same."""

import contextlib
import sys
from typing import NamedTuple

import numpy as np

from benchmarks.common.peer_process import PeerProcess
from benchmarks.text_to_text.speed_files import BEGIN_ID, DECODING, END_ID, PAD_ID, TRAINING
from keras_bert_app.errors import UserError

VERSIONS = {"transformers": {"transformers": "5.23.0", "torch": "2.13.0"}, "ours": {}}
# Largest relative difference of losses, and of the scores of beams. bfloat16 has fewer digits.
AGREEMENT = {"float32": 1e-4, "bfloat16": 1e-2}
DROPOUT = 0.1
# The learning rate is this value divided by the square root of the number of weights. Adam's first steps change every
# weight by about the rate, and their effect on the loss grows with that root. With this value the loss changes by a
# few percent.
_RATE = 0.3
# Adam divides small gradients by epsilon, so that rounding of gradients near 0 does not decide the sign of an update.
_OPTIMIZER = {"beta_2": 0.999, "epsilon": 1e-6, "weight_decay": 0.01, "label_smoothing": 0.1}
_COMPARED_STEPS = 3
# Smallest relative change of the loss by the compared steps, and by dropout.
_LEAST_PROGRESS, _LEAST_DROPOUT = 0.005, 1e-5
# Smallest share of texts that are the same. Rounding decides which of two beams is better if their scores are almost
# equal: transformers wrote 3 of 160 texts otherwise.
_LEAST_SAME = 0.95


class Contender(NamedTuple):
    """An implementation with its settings.

    Attributes:
        who: str. A key of VERSIONS.
        way: str. For training, the compilation: a value of --jit_compile for ours, "eager" or "compile" for
            transformers. For decoding "function" or "SavedModel" for ours, "generate" for transformers.
        precision: str. Compute type.
        python: str. Interpreter that runs the implementation.
    """

    who: str
    way: str
    precision: str
    python: str = sys.executable

    @property
    def name(self) -> str:
        return f"{self.who} {self.way}"


@contextlib.contextmanager
def process(contender: Contender):
    """Runs a contender's script as a process within the block. Yields the PeerProcess.

    Args:
        contender: Contender.
    """
    who = contender.who
    peer = PeerProcess(contender.python, f"text_to_text/speed_{who}.py", f"{who}_python", VERSIONS[who])
    try:
        yield peer
    finally:
        peer.close()


def made(peer, contender: Contender, files: dict, dropout: float) -> dict:
    """Makes a contender's model with the first weights. The model does its work once.

    Args:
        peer: PeerProcess of the contender.
        contender: Contender.
        files: dict of speed_files.written.
        dropout: float. The rate of all dropouts.

    Returns:
        dict with result, parameters and seconds_to_first_call.
    """
    return peer.ask(
        **files,
        **_OPTIMIZER,
        way=contender.way,
        precision=contender.precision,
        dropout=dropout,
        learning_rate=_RATE / files["num_parameters"] ** 0.5,
        begin_id=BEGIN_ID,
        end_id=END_ID,
        pad_id=PAD_ID,
    )


def looked_at(contender: Contender, files: dict) -> dict:
    """Lets a contender do the work in a process of its own, while no other contender runs.

    Args:
        contender: Contender.
        files: dict of speed_files.written.

    Returns:
        dict with the answer of `made`. For training also losses of the first steps without dropout, and
        first_loss_with_dropout.
    """
    with process(contender) as peer:
        answer = made(peer, contender, files, 0.0)
        if files["work"] == DECODING:
            return answer
        steps = peer.ask(num_calls=_COMPARED_STEPS - 1)["results"]
        answer["losses"] = [result["loss"] for result in (answer.pop("result"), *steps)]
        answer["first_loss_with_dropout"] = made(peer, contender, files, DROPOUT)["result"]["loss"]
        return answer


def check_same(kind: str, looks: dict, precision: str) -> dict:
    """Checks that all contenders do the same work.

    Args:
        kind: str. TRAINING or DECODING.
        looks: dict. Contender's name -> result of looked_at. All are compared with the first.
        precision: str. Compute type.

    Returns:
        dict. Contender's name -> the largest relative difference of its losses, or of the scores of its beams. For a
        greedy search, for which transformers gives no scores, 0.

    Raises:
        UserError: a check fails. Then no times are shown.
    """
    (first, reference), *_ = looks.items()
    check = _check_training if kind == TRAINING else _check_decoding
    for name, look in looks.items():
        if look["parameters"] != reference["parameters"]:
            raise UserError(
                f"{name} has {look['parameters']:,} parameters, {first} {reference['parameters']:,}; expected the same "
                "number. The models differ, so no times are shown"
            )
    return {name: check(name, look, first, reference, AGREEMENT[precision]) for name, look in looks.items()}


def _check_training(name, look, first, reference, allowed):
    losses, expected = look["losses"], reference["losses"]
    shown = " ".join(f"{loss:.5f}" for loss in losses)
    if not abs(losses[-1] / losses[0] - 1.0) >= _LEAST_PROGRESS:
        raise UserError(
            f"{name} has losses of {shown} in its first steps; expected a change of {_LEAST_PROGRESS:.1%} at least. "
            "The steps update nothing, so no times are shown"
        )
    if not abs(look["first_loss_with_dropout"] / losses[0] - 1.0) >= _LEAST_DROPOUT:
        raise UserError(
            f"{name} has a first loss of {losses[0]:.5f} both with and without dropout; expected dropout to change the "
            "loss. The contender has no dropout, so no times are shown"
        )
    difference = float(np.max(np.abs(np.divide(losses, expected) - 1.0)))
    if not difference <= allowed:  # true for nan too
        raise UserError(
            f"{name} has losses of {shown} in its first steps where {first} has "
            f"{' '.join(f'{loss:.5f}' for loss in expected)}; expected the same within {allowed:g}. The two do not do "
            "the same work, so no times are shown"
        )
    return difference


def _check_decoding(name, look, first, reference, allowed):
    ids, expected = np.array(look["result"]["ids"]), np.array(reference["result"]["ids"])
    if ids.shape != expected.shape or not np.all(ids > END_ID):
        raise UserError(
            f"{name} wrote texts of shape {list(ids.shape)} with the end piece {np.sum(ids == END_ID)} times; expected "
            f"{list(expected.shape)} without it. The two do not do the same work, so no times are shown"
        )
    is_same = np.all(ids == expected, axis=-1)
    if not np.all(is_same[:, 0]) or not np.mean(is_same) >= _LEAST_SAME:
        raise UserError(
            f"{name} wrote {np.sum(~is_same[:, 0])} of {len(ids)} best texts and {np.sum(~is_same)} of {is_same.size} "
            f"texts of all beams otherwise than {first}; expected the same best texts, and {_LEAST_SAME:.0%} of all "
            "texts at least. The two do not do the same work, so no times are shown"
        )
    if look["result"]["scores"] is None:
        return 0.0
    quotients = np.divide(look["result"]["scores"], reference["result"]["scores"])
    difference = float(np.max(np.abs(quotients[is_same] - 1.0)))
    if not difference <= allowed:  # true for nan too
        raise UserError(
            f"{name} gives scores that differ from those of {first} by {difference:.1e}; expected {allowed:g} at most. "
            "The two do not do the same work, so no times are shown"
        )
    return difference


def timed(contenders: list[Contender], files: dict, rounds: int, seconds: float) -> dict:
    """Times contenders in turn, each in a process of its own. While one runs, the others wait.

    Args:
        contenders: list of Contender.
        files: dict of speed_files.written.
        rounds: int. Number of rounds.
        seconds: float. About how long each contender runs in a round. It does the work at least once.

    Returns:
        dict. Contender's name -> dict with rounds (for each round, the seconds of its calls), cpu_rounds (for each
        round, a list with the CPU seconds of a call, summed over all threads), seconds_to_first_call, resident_bytes
        (peak), and the facts of its answers.
    """
    dropout = DROPOUT if files["work"] == TRAINING else 0.0
    with contextlib.ExitStack() as stack:
        peers, figures = {}, {}
        for contender in contenders:
            peer = stack.enter_context(process(contender))
            answer = made(peer, contender, files, dropout)
            del answer["result"]
            peers[contender.name], figures[contender.name] = peer, {**answer, "rounds": [], "cpu_rounds": []}
        # The first calls are slow, because memory grows.
        counts = {name: max(1, round(seconds / peer.ask(num_calls=3)["seconds"][-1])) for name, peer in peers.items()}
        for number in range(rounds):
            for name, peer in peers.items():
                answer = peer.ask(num_calls=counts[name])
                figures[name]["rounds"].append(answer["seconds"])
                figures[name]["cpu_rounds"].append([answer["cpu_seconds"]])
                figures[name]["resident_bytes"] = answer["resident_bytes"]
            shown = ", ".join(
                f"{name} {np.median(entry['rounds'][-1]) * 1e3:,.1f} ms" for name, entry in figures.items()
            )
            print(f"  round {number + 1} of {rounds}: {shown}", flush=True)
    return figures
