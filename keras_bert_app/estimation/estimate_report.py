"""An estimate as lines of text."""

from collections.abc import Iterator

from keras_bert_app.config.bert_config import BertConfig
from keras_bert_app.config.pretraining_config import PretrainingConfig
from keras_bert_app.estimation.estimate import USABLE_SHARE
from keras_bert_app.terminal.durations import rough_duration

_LABELS = {
    "embeddings": "embeddings",
    "layers": "layers",
    "pooler": "pooler",
    "masked_lm": "masked-LM head",
    "next_sentence": "next-sentence head",
}
_COMPILATION = {"parts": "parts compiled", "step": "computed without XLA, which needs more memory"}


def report_lines(
    figures: dict, config: BertConfig, run: PretrainingConfig, hardware: str, price_per_hour: float | None = None
) -> Iterator[str]:
    """Yields the lines of the report.

    Args:
        figures: dict. The result of estimate.estimate.
        config: BertConfig.
        run: PretrainingConfig.
        hardware: str. The value of --hardware.
        price_per_hour: float. The price of one device, or None.
    """
    yield (
        f"{config.num_hidden_layers} layers, hidden {config.hidden_size:,}, {config.num_attention_heads} heads, "
        f"intermediate {config.intermediate_size:,}, vocabulary {config.vocab_size:,}"
    )
    yield _row("parameters", f"{figures['parameters']['total']:,}")
    for part, label in _LABELS.items():
        if part in figures["parameters"]:
            yield _row(f"  {label}", f"{figures['parameters'][part]:,}")
    yield ""
    yield (
        f"arithmetic, {run.global_batch_size:,} rows of {run.max_seq_length} tokens with "
        f"{run.max_predictions_per_seq} predictions (matrix products alone)"
    )
    yield _row("  a token", _scaled(figures["flop_per_token"], "FLOP"))
    yield _row("  a step", f"{_scaled(figures['flop_per_step'], 'FLOP')} for {figures['positions_per_step']:,} tokens")
    if figures["optimizer_flop_per_step"]:
        yield _row(f"  {run.optimizer}, a step on each device", _scaled(figures["optimizer_flop_per_step"], "FLOP"))
    yield ""
    yield from _memory_lines(figures, run)
    yield ""
    yield from _time_lines(figures, hardware, price_per_hour)


def both_phases(first: dict, second: dict, recipe: str, price_per_hour: float | None = None) -> str:
    """Returns the line about a run and the run that continues it.

    Args:
        first: dict. The result of estimate.estimate for the first phase.
        second: dict. The same for the second phase.
        recipe: str. Name of the recipe of the second phase.
        price_per_hour: float. The price of one device, or None.
    """
    days, hours = (first[key] + second[key] for key in ("days", "device_hours"))
    cost = "" if price_per_hour is None else f", cost {hours * price_per_hour:,.2f}"
    return _row(f"  with {recipe}", f"{rough_duration(86_400 * days)}, {hours:,.1f} device hours{cost}")


def _memory_lines(figures, run):
    needed = figures["memory"]
    compilation = "compiled whole" if figures["is_compiled_whole"] else _COMPILATION.get(run.jit_compile, "without XLA")
    yield (
        f"memory of one device, {figures['rows_at_a_time']:,} rows at a time, {run.precision}, {run.optimizer}, "
        f"{compilation}"
    )
    yield _row("  weights", _gigabytes(needed["weights"]))
    yield _row("  optimizer's slots", _gigabytes(needed["slots"]))
    yield _row("  activations", _gigabytes(needed["activations"]))
    yield _row("  masked-LM logits and table", _gigabytes(needed["logits"]))
    yield _row("  gradients (after these two are gone)", _gigabytes(needed["gradients"]))
    if figures["device_memory"] is None:
        yield _row("  at the peak", _gigabytes(needed["peak"]))
        return
    verdict = "fits" if figures["fits"] else "DOES NOT FIT"
    yield _row(
        "  at the peak",
        f"{_gigabytes(needed['peak'])} of {_gigabytes(figures['device_memory'])}: {verdict} "
        f"({USABLE_SHARE:.0%} taken as usable)",
    )
    yield _row(
        "  largest batch that fits",
        f"{figures['largest_rows_at_a_time']:,} rows at a time, "
        f"--global_batch_size={figures['largest_global_batch_size']:,}"
        if figures["largest_rows_at_a_time"]
        else "none, not one row",
    )


def _time_lines(figures, hardware, price_per_hour):
    yield (
        f"time on {hardware}, {figures['num_devices']} x {_scaled(figures['peak_flop_per_second'], 'FLOP/s')}, if a "
        f"step reaches {figures['utilization']:.0%} of that (assumed: --utilization)"
    )
    yield _row("  a step", rough_duration(figures["step_seconds"]))
    yield _row("  tokens a second", f"{figures['positions_per_second']:,.0f}")
    if "num_train_steps" not in figures:
        yield "  give --num_train_steps, --train_minutes or --corpus_words for the figures of a whole run"
        return
    yield _row(
        "  steps",
        f"{figures['num_train_steps']:,}, {figures['positions'] / 1e9:,.2f} billion tokens, "
        f"{_scaled(figures['flop'], 'FLOP')}",
    )
    if "positions_per_word" in figures:
        yield _row("  positions a word", f"{figures['positions_per_word']:g} (--positions_per_word)")
    yield _row("  in all", f"{rough_duration(86_400 * figures['days'])}, {figures['device_hours']:,.1f} device hours")
    yield _row(
        "  cost",
        f"{figures['cost']:,.2f} at {price_per_hour:g} a device hour"
        if "cost" in figures
        else "give --price_per_hour of one device",
    )


def _row(label, value):
    return f"{label:40}{value}"


def _gigabytes(count):
    return f"{count / 1e9:,.2f} GB"


def _scaled(value, unit):
    """A number between 1 and 1,000 with the prefix of its unit, such as "1.5 TFLOP"."""
    for prefix in ("", "k", "M", "G", "T", "P", "E"):
        if value < 1000:
            return f"{value:,.4g} {prefix}{unit}"
        value /= 1000
    return f"{value:,.4g} Z{unit}"
