"""Estimates parameters, FLOP, memory and time of a pre-training, and the largest batch that fits. It trains nothing.

python -m keras_bert_app.cli.estimate --config=base --global_batch_size=256 --precision=bfloat16 --hardware=v5e-8
python -m keras_bert_app.cli.estimate --recipe=original --precision=bfloat16 --hardware=a100-8 --price_per_hour=PRICE
python -m keras_bert_app.cli.estimate --config=mini --hardware=cpu --peak_gflops=70 --corpus_words=8e6 --num_epochs=10

Peaks and memory are the figures that the makers publish. The share of a peak that a step reaches is an assumption. The
command knows no prices; give your own.
"""

import dataclasses
import json
import math
import os

from absl import flags

from keras_bert_app.cli.common import app, config_flags, written_places
from keras_bert_app.config.bert_config import SIZES, BertConfig
from keras_bert_app.config.pretraining_config import PretrainingConfig
from keras_bert_app.errors import UserError
from keras_bert_app.estimation import estimate_report, hardware
from keras_bert_app.estimation.estimate import Work, estimate, positions_per_word
from keras_bert_app.recipes import load_recipe, recipe_names
from pipelines import storage

_CONFIG = flags.DEFINE_string("config", "", f"A published size ({', '.join(SIZES)}) or a bert_config.json.")
_RECIPE = flags.DEFINE_string("recipe", "", f"Recipe that sets other defaults: {', '.join(recipe_names())}.")
_HARDWARE = flags.DEFINE_string(
    "hardware", "", f"Kind and number of the devices, as in v5e-8. Kinds: {', '.join(hardware.DEVICES)}."
)
_PEAK = flags.DEFINE_float(
    "peak_gflops",
    0.0,
    "10^9 FLOP/s of one device, instead of the published figure; for a CPU, the speed of a large matrix product.",
    lower_bound=0.0,
)
_MEMORY = flags.DEFINE_float(
    "memory_gb", 0.0, "Memory of one device in 10^9 bytes, instead of the published figure.", lower_bound=0.0
)
# The project's goal on accelerators is half of the peak at 128 tokens in bfloat16 (docs/results/speed.md).
_UTILIZATION = flags.DEFINE_float(
    "utilization",
    0.4,
    "Share of the peak that a step reaches. The default is an assumption; docs/results/speed.md has measured shares.",
    0.0,
    1.0,
)
_STEPS = flags.DEFINE_integer("num_train_steps", None, "Steps of the run.", lower_bound=1)
_WORDS = flags.DEFINE_float(
    "corpus_words",
    0.0,
    "Instead of --num_train_steps: number of words of the text. The run reads the text --num_epochs times.",
    lower_bound=0.0,
)
_EPOCHS = flags.DEFINE_float(
    "num_epochs",
    None,
    f"With --corpus_words: how many times the run reads the text. Default: {Work.num_epochs:g}.",
    lower_bound=0.0,
)
_POSITIONS = flags.DEFINE_float(
    "positions_per_word",
    None,
    "With --corpus_words: number of positions, with padding and random segments, for each word between spaces. "
    "Default: 2.28 at 128 tokens a row and 4.78 at 512 (English Wikipedia, next sentences). Other rows have no "
    "measured value, so they need this flag.",
    lower_bound=0.01,
)
_PRICE = flags.DEFINE_float("price_per_hour", None, "Price of a device for an hour, in any currency.", lower_bound=0.0)
_OUTPUT_FILE = flags.DEFINE_string("output_file", "", "Where to write every figure as JSON.")
written_places.define_overwrite()

_RUN_FIELDS = [
    field
    for field in dataclasses.fields(PretrainingConfig)
    if field.name
    in (
        "max_seq_length",
        "max_predictions_per_seq",
        "masked_lm_prob",
        "global_batch_size",
        "gradient_accumulation_steps",
        "jit_compile",
        "precision",
        "optimizer",
        "sentence_objective",
        "train_minutes",
    )
]
_given_for_run = config_flags.define_flags(_RUN_FIELDS)
_given_for_model = config_flags.define_model_flags(  # the estimate counts a bert without vectors from files
    leave_out=("architecture", "token_vectors", "token_vectors_shape", "token_fusion", "train_token_vectors")
)


def main(arguments: list[str]) -> None:
    (name,) = app.required("hardware")
    if _OUTPUT_FILE.value:
        written_places.check_new([_OUTPUT_FILE.value], "output_file")
    recipe = load_recipe(_RECIPE.value) if _RECIPE.value else None
    if not (_CONFIG.value or recipe):
        raise UserError(f"--config is missing; name one of {', '.join(SIZES)}, or a bert_config.json")
    for flag in (_PEAK, _MEMORY, _UTILIZATION, _WORDS, _EPOCHS, _POSITIONS, _PRICE):
        if flag.value is not None and not math.isfinite(flag.value):
            raise UserError(f"--{flag.name}={flag.value}: expected a finite number")
    if not _UTILIZATION.value:
        raise UserError("--utilization=0: expected more than 0, at most 1")
    devices = hardware.parse(name, _PEAK.value, _MEMORY.value)
    config, run, figures = _estimate(recipe, devices)
    for line in estimate_report.report_lines(figures, config, run, name, _PRICE.value):
        print(line)
    next_phase = getattr(recipe, "NEXT", None)
    if next_phase and not (_STEPS.value or _WORDS.value or run.train_minutes):
        *_, next_figures = _estimate(load_recipe(next_phase), devices)
        print(estimate_report.both_phases(figures, next_figures, next_phase, _PRICE.value))
    if _OUTPUT_FILE.value:
        storage.write_whole(
            _OUTPUT_FILE.value, json.dumps({"config": config.to_dict(), "hardware": name, **figures}, indent=1)
        )


def _estimate(recipe, devices):
    """Returns (BertConfig, PretrainingConfig, figures) of a recipe, or of the flags alone if recipe is None."""
    device, num_devices = devices
    config = _model(_CONFIG.value or recipe.CONFIG, recipe.MODEL if recipe else {})
    if config.architecture != "bert":
        raise UserError(
            f"--config={_CONFIG.value}: is a {config.architecture}; estimate knows BERT alone, so give a bert"
        )
    run = PretrainingConfig(**{**(recipe.RUN if recipe else {}), **_given_for_run()}).resolved().checked_against(config)
    run = run.with_precision(device.automatic_precision)
    if _STEPS.value:
        run = dataclasses.replace(run, num_train_steps=_STEPS.value, train_minutes=0.0)
    run = run.with_compilation(device.kind)
    work = _work(recipe, run)
    return config, run, estimate(config, run, device, num_devices, work, _UTILIZATION.value, _PRICE.value)


def _model(name, changes):
    """Returns the BertConfig of a size or a file. The keys of a recipe, then the flags, change its values."""
    changes = changes | _given_for_model()
    if name in SIZES or ("." not in os.path.basename(name) and not os.path.exists(name)):
        return BertConfig.of_size(name, **changes)  # an unknown name raises an error that names the nearest size
    return BertConfig.from_json_file(name, print).replace(**changes)


def _work(recipe, run):
    """Returns the length of the run from the flags, else from the recipe."""
    word_options = {flag.name: flag.value for flag in (_EPOCHS, _POSITIONS) if flag.value is not None}
    if word_options and not _WORDS.value:
        raise UserError(f"--{next(iter(word_options))} has no meaning without --corpus_words; give both")
    given = [
        name
        for name, value in (
            ("corpus_words", _WORDS.value),
            ("num_train_steps", _STEPS.value),
            ("train_minutes", _given_for_run().get("train_minutes")),
        )
        if value
    ]
    if len(given) > 1:
        raise UserError(f"--{' and --'.join(given)} each say how long the run is; give one of them")
    if _WORDS.value:
        if "positions_per_word" not in word_options:
            word_options["positions_per_word"] = positions_per_word(run.sentence_objective, run.max_seq_length)
        return Work(corpus_words=_WORDS.value, **word_options)
    if _STEPS.value:
        return Work(num_train_steps=_STEPS.value)
    if run.train_minutes:
        return Work(minutes=run.train_minutes)
    return Work(num_train_steps=recipe.RUN.get("num_train_steps", 0) if recipe else 0)


if __name__ == "__main__":
    app.run(main, __doc__, writes={"output_file": ""})
