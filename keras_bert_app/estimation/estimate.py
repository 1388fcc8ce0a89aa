"""The estimate of a pre-training run on given devices: parameters, FLOP, memory, time and cost."""

import dataclasses
from collections.abc import Callable

from keras_bert_app.config.bert_config import BertConfig
from keras_bert_app.config.pretraining_config import PretrainingConfig
from keras_bert_app.errors import UserError
from keras_bert_app.estimation import memory
from keras_bert_app.estimation.counts import flop_per_token, optimizer_flop, parameters
from keras_bert_app.estimation.hardware import Device

# This share is an assumption. The runtime, its scratch space and gaps between arrays take the rest of the memory.
USABLE_SHARE = 0.9
_SECONDS_PER_DAY = 86_400
# (--sentence_objective, tokens per row) -> positions per word, padding included. benchmarks.step.estimate_check
# measured them on English Wikipedia.
_POSITIONS_PER_WORD = {("nsp", 128): 2.28, ("nsp", 512): 4.78}


def positions_per_word(objective: str, length: int) -> float:
    """The measured number of positions that a word takes, padding included.

    Args:
        objective: str. A value of --sentence_objective.
        length: int. Tokens per row.

    Returns:
        float: positions per word.

    Raises:
        UserError: there is no measurement for such rows.
    """
    if (objective, length) not in _POSITIONS_PER_WORD:
        measured = " and ".join(
            f"{value} for --sentence_objective={name} --max_seq_length={tokens}"
            for (name, tokens), value in _POSITIONS_PER_WORD.items()
        )
        raise UserError(
            f"--positions_per_word is missing; measured values are {measured}, but this run has "
            f"--sentence_objective={objective} --max_seq_length={length}. Give the flag; "
            "benchmarks.step.estimate_check counts the number in a corpus"
        )
    return _POSITIONS_PER_WORD[objective, length]


@dataclasses.dataclass(frozen=True)
class Work:
    """The length of a run, given as steps, as minutes, or as words of text.

    Attributes:
        num_train_steps: int. Steps; 0 if not given.
        minutes: float. Minutes of training; 0 if not given.
        corpus_words: float. Words of the training text; 0 if not given.
        num_epochs: float. How often the run reads the text.
        positions_per_word: float. Positions of rows that a word takes, padding included; None without corpus_words.
    """

    num_train_steps: int = 0
    minutes: float = 0.0
    corpus_words: float = 0.0
    num_epochs: float = 1.0
    positions_per_word: float | None = None

    def steps(self, positions_per_step: int, step_seconds: float) -> int | None:
        """Computes the number of steps of the run.

        Args:
            positions_per_step: int. Positions in the rows of a step.
            step_seconds: float. Time of a step in seconds.

        Returns:
            int: steps, or None if the length of the run is not given.
        """
        if self.num_train_steps:
            return self.num_train_steps
        if self.corpus_words:
            return round(self.corpus_words * self.num_epochs * self.positions_per_word / positions_per_step)
        return round(60 * self.minutes / step_seconds) if self.minutes else None


def estimate(
    config: BertConfig,
    run: PretrainingConfig,
    device: Device,
    num_devices: int,
    work: Work,
    utilization: float,
    price_per_hour: float | None = None,
) -> dict:
    """Estimates the memory, the time and the cost of a run.

    Args:
        config: BertConfig.
        run: PretrainingConfig, resolved, with its precision and compilation.
        device: Device. One chip, from hardware.parse.
        num_devices: int. The number of chips.
        work: Work. The length of the run.
        utilization: float. The share of the peak that a step reaches, with waiting and all other operations included.
        price_per_hour: float. The price of one device in any currency, or None.

    Returns:
        dict of figures. Memory is in bytes of one device. Times are in seconds unless the key names another unit.

    Raises:
        UserError: the rows of a batch do not divide over devices and parts.
    """
    num_parts, rows = _share_and_rows(run, num_devices)
    parts = parameters(config, run.trained_parts())
    token_flop = flop_per_token(config, run.max_seq_length, run.max_predictions_per_seq)
    positions = run.global_batch_size * run.max_seq_length
    peak = device.peaks[run.precision]
    # Every device updates all weights by itself.
    update_flop = optimizer_flop(config, run.optimizer, run.trained_parts())
    step_seconds = (positions * token_flop / num_devices + update_flop) / (peak * utilization)
    needed = _memory(config, run, device, rows)
    figures = {
        "parameters": {**parts, "total": sum(parts.values())},
        "flop_per_token": token_flop,
        "flop_per_step": token_flop * positions,
        "positions_per_step": positions,
        "optimizer_flop_per_step": update_flop,
        "num_devices": num_devices,
        "peak_flop_per_second": peak,
        "utilization": utilization,
        "is_compiled_whole": device.is_tpu or (device.kind == "GPU" and run.jit_compile == "step"),
        "jit_compile": "step" if device.is_tpu else run.jit_compile,
        "rows_at_a_time": rows,
        "memory": {**dataclasses.asdict(needed), "peak": needed.peak},
        "device_memory": device.memory,
        "step_seconds": step_seconds,
        "positions_per_second": positions / step_seconds,
    }
    if device.memory:
        largest = most_rows(config, run, device)
        figures |= {
            "fits": needed.peak <= USABLE_SHARE * device.memory,
            "largest_rows_at_a_time": largest,
            "largest_global_batch_size": largest * num_parts,
        }
    return figures | _run_figures(figures, work, price_per_hour)


def _share_and_rows(run, num_devices):
    """Returns (parts of a global batch, rows in each part). A device computes one part at a time."""
    num_parts = num_devices * run.gradient_accumulation_steps
    if run.global_batch_size % num_parts:
        raise UserError(
            f"--global_batch_size={run.global_batch_size} does not divide over {num_devices} devices in "
            f"{run.gradient_accumulation_steps} parts (--gradient_accumulation_steps); give a multiple of "
            f"{num_parts}"
        )
    return num_parts, run.global_batch_size // num_parts


def _run_figures(figures, work, price_per_hour):
    """Returns the figures of the whole run, or {} if its length is not given."""
    steps = work.steps(figures["positions_per_step"], figures["step_seconds"])
    if steps is None:
        return {}
    seconds = steps * figures["step_seconds"]
    step_flop = figures["flop_per_step"] + figures["num_devices"] * figures["optimizer_flop_per_step"]
    run_figures = {
        "num_train_steps": steps,
        "positions": steps * figures["positions_per_step"],
        "flop": steps * step_flop,
        "days": seconds / _SECONDS_PER_DAY,
        "device_hours": figures["num_devices"] * seconds / 3600,
    }
    if work.corpus_words:
        run_figures["positions_per_word"] = work.positions_per_word
    if price_per_hour is not None:
        run_figures["cost"] = run_figures["device_hours"] * price_per_hour
    return run_figures


def most_rows(config: BertConfig, run: PretrainingConfig, device: Device) -> int:
    """Computes how many rows fit into the memory of a device at a time.

    Args:
        config: BertConfig.
        run: PretrainingConfig, resolved.
        device: Device. Its memory must be known.

    Returns:
        int: rows; 0 if not one row fits.
    """
    return largest_rows(lambda rows: _memory(config, run, device, rows).peak <= USABLE_SHARE * device.memory)


def _memory(config, run, device, rows):
    return memory.training_memory(config, run, run.trained_parts(), rows, device.multiplies_bfloat16, device.kind)


def largest_rows(fits: Callable[[int], bool]) -> int:
    """Finds the largest number of rows for which fits(rows) is true.

    Args:
        fits: function of int to bool. It must be true up to some number and false above it.

    Returns:
        int: rows; 0 if fits(1) is false.
    """
    if not fits(1):
        return 0
    low, high = 1, 2
    while fits(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
