"""Advice after the first steps of a pre-training: its duration, and ramps that it cannot finish."""

from keras_bert_app.config.pretraining_config import PretrainingConfig
from keras_bert_app.terminal.durations import rough_duration
from keras_bert_app.training import strategies
from keras_bert_app.training.start import Start

_LONG_SECONDS = 600.0  # a shorter run on a CPU needs no advice
_WIDE = 768  # from this hidden_size on, small_budget needs other weights and a lower rate (recipes/small_budget.py)


def lines(start: Start, step: int, step_seconds: float, seconds_left: float) -> list[str]:
    """Makes the lines that a run prints once, after its first steps.

    Args:
        start: Start.
        step: number of steps that the run has taken.
        step_seconds: seconds a step.
        seconds_left: estimated seconds until the end of the run.

    Returns:
        Lines of advice.
    """
    run = start.run
    num_steps = step + seconds_left / step_seconds if run.train_minutes else run.num_train_steps
    is_by_steps = not run.train_minutes and strategies.device_kind(start.strategy) == "CPU"
    if not start.flags_for_time or not is_by_steps or seconds_left < _LONG_SECONDS:
        return unfinished_ramps(run, num_steps)
    is_wide = start.model_config.hidden_size >= _WIDE and "small_budget" in start.flags_for_time
    advice = (
        f"{run.num_train_steps:,} steps take about {rough_duration(run.num_train_steps * step_seconds)} on this CPU; "
        f"to train for a given time start with {start.flags_for_time}"
        f"{' --learning_rate=1e-4 --initializer_range=0.02' if is_wide else ''} in another --workdir"
    )
    return [advice, *unfinished_ramps(run, num_steps)]


def unfinished_warmup(run: PretrainingConfig) -> list[str]:
    """Makes a line about a warm-up that is longer than the run. It is known before the first step.

    Args:
        run: PretrainingConfig, resolved.

    Returns:
        [] or one line of advice.
    """
    if run.warmup_share or run.num_warmup_steps < run.num_train_steps:
        return []
    return [
        f"--num_warmup_steps={run.num_warmup_steps} is not below --num_train_steps={run.num_train_steps}, so the "
        "learning rate never reaches its peak; start with --warmup_share=0.1 instead, in another --workdir"
    ]


def unfinished_ramps(run: PretrainingConfig, num_steps: float) -> list[str]:
    """Makes a line for each ramp that a run does not finish.

    Args:
        run: PretrainingConfig, resolved.
        num_steps: number of steps of the whole run; may be an estimate.

    Returns:
        Lines of advice.
    """
    notes = []
    end = f"--train_minutes={run.train_minutes:g}" if run.train_minutes else "--num_train_steps"
    for name, ramp_steps, never in (
        ("batch_ramp", run.batch_ramp_steps, f"batches never reach {run.global_batch_size} rows"),
        ("length_ramp", run.length_ramp_steps, f"rows never reach {run.max_seq_length} tokens"),
    ):
        if ramp_steps and ramp_steps >= num_steps:
            notes.append(
                f"--{name}_steps={ramp_steps}: {end} ends this run after about {num_steps:,.0f} steps, so {never}; "
                f"stop it (Ctrl-C) and continue with --{name}_share=0.2 instead, which is a share of the run"
            )
    return notes
