"""What BERT's original training would take: 900,000 steps at 128 tokens and 100,000 at 512, 256 rows each.

That is about 40 times over the 3.3 billion words of Wikipedia and BookCorpus (Devlin et al. 2018, appendix A.2).

python -m benchmarks.step.estimate_original --precision=bfloat16 --utilization=0.4

Each phase is a recipe (`estimate --recipe=original --config=... --hardware=...`); rows that do not fit into a device's
memory are taken in parts, the fewest that fit.
"""

import dataclasses

from absl import flags

from keras_bert_app.cli.common import app
from keras_bert_app.config.bert_config import BertConfig
from keras_bert_app.config.pretraining_config import PretrainingConfig
from keras_bert_app.config.training_config import PRECISIONS
from keras_bert_app.estimation import hardware
from keras_bert_app.estimation.estimate import Work, estimate
from keras_bert_app.recipes import load_recipe

_CONFIGS = flags.DEFINE_list("configs", ["base", "large"], "Published sizes.")
_HARDWARE = flags.DEFINE_list(
    "hardware", ["v5e-8", "v6e-8", "v4-16", "l4-8", "a100-8", "h100-8"], "Devices, as of estimate."
)
_PRECISION = flags.DEFINE_enum("precision", "bfloat16", PRECISIONS, "Compute type.")
_UTILIZATION = flags.DEFINE_float(
    "utilization", 0.4, "Share of the peak that a step reaches; an assumption.", lower_bound=0.01, upper_bound=1.0
)

_PHASES = ("original", "original_long_rows")


def main(arguments):
    del arguments
    print(
        "| config | devices | 128 tokens: rows at a time, days | 512 tokens: rows at a time, days | both, days "
        "| device hours | EFLOP |\n|---|---|---|---|---|---|---|"
    )
    for size in _CONFIGS.value:
        for name in _HARDWARE.value:
            device, count = hardware.parse(name)
            found = [phase(BertConfig.of_size(size), recipe, device, count) for recipe in _PHASES]
            cells = [f"{one['rows_at_a_time']}, {one['days']:.2f}" if one else "does not fit" for one in found]
            if all(found):
                days, hours, flop = (sum(one[name] for one in found) for name in ("days", "device_hours", "flop"))
                cells += [f"{days:.2f}", f"{hours:,.0f}", f"{flop / 1e18:,.1f}"]
            print(f"| {size} | {count} x {name.rsplit('-', 1)[0]} | " + " | ".join(cells) + " |")


def phase(config, recipe, device, num_devices):
    """The estimate of a recipe with the fewest parts of each device's rows that fit; None if not even one row does."""
    run = PretrainingConfig(**load_recipe(recipe).RUN, precision=_PRECISION.value).resolved()
    rows = run.global_batch_size // num_devices
    for parts in range(1, rows + 1):
        if rows % parts == 0:
            run = dataclasses.replace(run, gradient_accumulation_steps=parts)
            work = Work(num_train_steps=run.num_train_steps)
            found = estimate(config, run, device, num_devices, work, _UTILIZATION.value)
            if found["fits"]:
                return found
    return None


if __name__ == "__main__":
    app.run(main, __doc__)
