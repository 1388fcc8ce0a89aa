"""An estimate as lines of text."""

from keras_bert_app.estimation.estimate import USABLE_SHARE

_LABELS = {
    "embeddings": "embeddings",
    "layers": "layers",
    "pooler": "pooler",
    "masked_lm": "masked-LM head",
    "next_sentence": "next-sentence head",
}


def report_lines(found, config, run, hardware, price_per_hour=None):
    """Lines for people. Args: found of estimate.estimate; hardware, the name that was given."""
    yield (
        f"{config.num_hidden_layers} layers, hidden {config.hidden_size:,}, {config.num_attention_heads} heads, "
        f"intermediate {config.intermediate_size:,}, vocabulary {config.vocab_size:,}"
    )
    yield _row("parameters", f"{found['parameters']['total']:,}")
    for part, label in _LABELS.items():
        if part in found["parameters"]:
            yield _row(f"  {label}", f"{found['parameters'][part]:,}")
    yield ""
    yield (
        f"arithmetic, {run.global_batch_size:,} rows of {run.max_seq_length} tokens with "
        f"{run.max_predictions_per_seq} predictions (matrix products alone)"
    )
    yield _row("  a token", _scaled(found["flop_per_token"], "FLOP"))
    yield _row("  a step", f"{_scaled(found['flop_per_step'], 'FLOP')} for {found['positions_per_step']:,} tokens")
    if found["optimizer_flop_per_step"]:
        yield _row(f"  {run.optimizer}, a step on each device", _scaled(found["optimizer_flop_per_step"], "FLOP"))
    yield ""
    yield from _memory_lines(found, run)
    yield ""
    yield from _time_lines(found, hardware, price_per_hour)


_COMPILATION = {"parts": "parts compiled", "step": "as without XLA, which takes more"}


def _memory_lines(found, run):
    needed = found["memory"]
    compilation = "compiled whole" if found["is_tpu"] else _COMPILATION.get(run.jit_compile, "without XLA")
    yield (
        f"memory of one device, {found['rows_at_a_time']:,} rows at a time, {run.precision}, {run.optimizer}, "
        f"{compilation}"
    )
    yield _row("  weights", _gigabytes(needed["weights"]))
    yield _row("  optimizer's slots", _gigabytes(needed["slots"]))
    yield _row("  activations", _gigabytes(needed["activations"]))
    yield _row("  masked-LM logits and table", _gigabytes(needed["logits"]))
    yield _row("  later, in their place: gradients", _gigabytes(needed["gradients"]))
    if found["device_memory"] is None:
        yield _row("  at the peak", _gigabytes(needed["peak"]))
        return
    verdict = "fits" if found["fits"] else "DOES NOT FIT"
    yield _row(
        "  at the peak",
        f"{_gigabytes(needed['peak'])} of {_gigabytes(found['device_memory'])}: {verdict} "
        f"({USABLE_SHARE:.0%} taken as usable)",
    )
    yield _row(
        "  largest batch that fits",
        f"{found['largest_rows_at_a_time']:,} rows at a time, "
        f"--global_batch_size={found['largest_global_batch_size']:,}"
        if found["largest_rows_at_a_time"]
        else "none, not one row",
    )


def _time_lines(found, hardware, price_per_hour):
    yield (
        f"time on {hardware}, {found['num_devices']} x {_scaled(found['peak_flop_per_second'], 'FLOP/s')}, if a "
        f"step reaches {found['utilization']:.0%} of that (assumed: --utilization)"
    )
    yield _row("  a step", _duration(found["step_seconds"]))
    yield _row("  tokens a second", f"{found['positions_per_second']:,.0f}")
    if "num_train_steps" not in found:
        yield "  for a whole run: --num_train_steps, --train_minutes, or --corpus_words with --num_epochs"
        return
    yield _row(
        "  steps",
        f"{found['num_train_steps']:,}, {found['positions'] / 1e9:,.2f} billion tokens, "
        f"{_scaled(found['flop'], 'FLOP')}",
    )
    if "positions_per_word" in found:
        yield _row("  positions a word", f"{found['positions_per_word']:g} (--positions_per_word)")
    yield _row("  in all", f"{_duration(86_400 * found['days'])}, {found['device_hours']:,.1f} device hours")
    yield _row(
        "  cost",
        f"{found['cost']:,.2f} at {price_per_hour:g} a device hour"
        if "cost" in found
        else "give --price_per_hour of one device",
    )


def _row(label, value):
    return f"{label:40}{value}"


def _gigabytes(count):
    return f"{count / 1e9:,.2f} GB"


def _scaled(value, unit):
    """A number with the prefix that leaves it between 1 and 1,000."""
    for prefix in ("", "k", "M", "G", "T", "P", "E"):
        if value < 1000:
            return f"{value:,.4g} {prefix}{unit}"
        value /= 1000
    return f"{value:,.4g} Z{unit}"


def _duration(seconds):
    for size, unit in ((86_400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:,.1f} {unit}"
    return f"{seconds:.3g} seconds"
