"""Puts the counts together: what a configuration takes on some devices."""

import dataclasses

from keras_bert_app.config.bert_config import PARTS
from keras_bert_app.errors import UserError
from keras_bert_app.estimation import memory
from keras_bert_app.estimation.counts import flop_per_token, optimizer_flop, parameters

# Of a device's memory; the rest is for the runtime, its scratch space and gaps between arrays. An assumption.
USABLE_SHARE = 0.9
_SECONDS_PER_DAY = 86_400
# (--sentence_objective, tokens a row) -> positions of rows, padding included, that a word takes: English Wikipedia's
# (benchmarks/estimate_check).
_POSITIONS_PER_WORD = {("nsp", 128): 2.28, ("nsp", 512): 4.78}


def positions_per_word(objective, length):
    """What was measured for rows of that kind.

    Raises:
        UserError: nothing was.
    """
    if (objective, length) not in _POSITIONS_PER_WORD:
        measured = " and ".join(
            f"{value} for --sentence_objective={name} --max_seq_length={tokens}"
            for (name, tokens), value in _POSITIONS_PER_WORD.items()
        )
        raise UserError(
            f"--positions_per_word is missing; measured are {measured}, and this run has "
            f"--sentence_objective={objective} --max_seq_length={length}: give it; benchmarks.step.estimate_check "
            "counts it in a corpus"
        )
    return _POSITIONS_PER_WORD[objective, length]


@dataclasses.dataclass(frozen=True)
class Work:
    """How long a run is: one of the three.

    Attributes:
        num_train_steps: steps; 0 for none. minutes: of training; 0 for none.
        corpus_words, num_epochs, positions_per_word: words of text, times that it is read, and positions of rows,
            padding included, that a word takes; 0 words for none.
    """

    num_train_steps: int = 0
    minutes: float = 0.0
    corpus_words: float = 0.0
    num_epochs: float = 1.0
    positions_per_word: float | None = None

    def steps(self, positions_per_step, step_seconds):
        """Steps of the run; None where nothing says how long it is."""
        if self.num_train_steps:
            return self.num_train_steps
        if self.corpus_words:
            return round(self.corpus_words * self.num_epochs * self.positions_per_word / positions_per_step)
        return round(60 * self.minutes / step_seconds) if self.minutes else None


def estimate(config, run, device, num_devices, work, utilization, price_per_hour=None):
    """What training takes, as a dict; times in seconds unless they say otherwise, memory in bytes of one device.

    Args:
        config: BertConfig. run: PretrainingConfig, resolved, its precision and compilation too. device, num_devices: of hardware.parse.
        work: Work.
        utilization: share of the peak that a step reaches, all that is no matrix product and what devices wait for each
            other included. price_per_hour: of one device, in any currency, or None.

    Raises:
        UserError: the rows cannot be shared evenly over devices and parts.
    """
    share = num_devices * run.gradient_accumulation_steps
    if run.global_batch_size % share:
        raise UserError(
            f"--global_batch_size={run.global_batch_size} does not divide over {num_devices} devices in "
            f"{run.gradient_accumulation_steps} parts (--gradient_accumulation_steps); take a multiple of "
            f"{share}"
        )
    rows = run.global_batch_size // share
    of_part = parameters(config, _parts(run))
    per_token = flop_per_token(config, run.max_seq_length, run.max_predictions_per_seq)
    positions = run.global_batch_size * run.max_seq_length
    peak = device.peaks[run.precision]
    # Every device updates all weights by itself.
    of_optimizer = optimizer_flop(config, run.optimizer, _parts(run))
    step_seconds = (positions * per_token / num_devices + of_optimizer) / (peak * utilization)

    needed = _memory(config, run, device, rows)
    found = {
        "parameters": {**of_part, "total": sum(of_part.values())},
        "flop_per_token": per_token,
        "flop_per_step": per_token * positions,
        "positions_per_step": positions,
        "optimizer_flop_per_step": of_optimizer,
        "num_devices": num_devices,
        "peak_flop_per_second": peak,
        "utilization": utilization,
        "is_tpu": device.is_tpu,
        "jit_compile": "step" if device.is_tpu else run.jit_compile,
        "rows_at_a_time": rows,
        "memory": {**dataclasses.asdict(needed), "peak": needed.peak},
        "device_memory": device.memory,
        "step_seconds": step_seconds,
        "positions_per_second": positions / step_seconds,
    }
    if device.memory:
        largest = most_rows(config, run, device)
        found |= {
            "fits": needed.peak <= USABLE_SHARE * device.memory,
            "largest_rows_at_a_time": largest,
            "largest_global_batch_size": largest * share,
        }
    steps = work.steps(positions, step_seconds)
    if steps is not None:
        seconds = steps * step_seconds
        found |= {
            "num_train_steps": steps,
            "positions": steps * positions,
            "flop": steps * (positions * per_token + num_devices * of_optimizer),
            "days": seconds / _SECONDS_PER_DAY,
            "device_hours": num_devices * seconds / 3600,
        }
        if work.corpus_words:
            found["positions_per_word"] = work.positions_per_word
        if price_per_hour is not None:
            found["cost"] = found["device_hours"] * price_per_hour
    return found


def most_rows(config, run, device):
    """The most rows that a device, whose memory is known, can have at a time."""
    return largest_rows(lambda rows: _memory(config, run, device, rows).peak <= USABLE_SHARE * device.memory)


def _memory(config, run, device, rows):
    return memory.training_memory(config, run, _parts(run), rows, device.multiplies_bfloat16, device.is_tpu)


def _parts(run):
    return ("encoder", "masked_lm") if run.sentence_objective == "none" else PARTS


def largest_rows(fits):
    """The most rows for which fits(rows) holds, 0 for none; it holds for all that are fewer."""
    if not fits(1):
        return 0
    low, high = 1, 2
    while fits(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
