"""Searches the peak rate, initial range and dropout of KerasHub and transformers for quality_per_minute.

python -m benchmarks.quality.search_settings --corpus_dir=CORPUS --reported_corpus_dir=REPORTED --vocab_file=VOCAB \\
    --transformers_python=HF_ENV/bin/python --directory=runs/search
python -m benchmarks.quality.quality_per_minute --corpus_dir=REPORTED --vocab_file=VOCAB \\
    --transformers_python=HF_ENV/bin/python --search_dir=runs/search --contenders=...

The search is a grid. It trains each peer once with each combination of rate, initial range and dropout. The masked LM
accuracy on held-out documents judges the trials, or their perplexity (--language_model=causal). The search prints the
best entry of each peer in the form of --contenders. With these entries, quality_per_minute compares our recipe with the
best of N settings of each peer, on other documents and with other seeds.

The search first measures the speed of each peer, without dropout and with it, for --speed_minutes each. A trial then
takes as many steps as the peer takes in --minutes, the time to start and compile included. Run nothing else on the
machine while the speed is measured (--speed_only does only this). The trials count steps, so other work does not change
them.

CORPUS and REPORTED are the same text, prepared with two values of prepare_corpus --seed. The held-out documents of
CORPUS choose the settings, except documents that share a sentence with a held-out document of REPORTED. If fewer than
half of the documents remain, the search refuses to start.

N trials of M minutes take about N * (M + 1) minutes on two cores, because each trial also starts its library, reads the
text and evaluates its model. The default has 2 peers with 12 trials each, of 4 minutes at config tiny: two hours.
Finished trials do not run again, so you can extend a list. Extend --learning_rates if the
best rate is the lowest or the highest. On CPUs without products of bfloat16 give
--peers=keras_hub@float32,transformers@float32.

No grid search chose our own recipe (small_budget). The records have nineteen trials of its parts, with one seed each,
at config tiny: seven with the demo's text, twelve of 600 steps with Wikipedia. They tried AdamW at 1e-3, 2e-3 and 3e-3,
Muon at 1e-3, 3e-3 and 6e-3, the initial ranges 0.02 and 0.08, sinusoidal positions, row lengths and the share of the
pieces that are predicted. None of the trials has dropout. The records do not say which trials led to the range of 0.06,
so the number of trials may be higher.
"""

import math
import os

from absl import flags

from benchmarks.common.identity import file_digest
from benchmarks.common.resumable import alike, results_of
from benchmarks.common.this_machine import machine
from benchmarks.quality import (
    choosing_documents,
    language_models,
    quality_peers,
    quality_texts,
    search_results,
    speed_of_peers,
)
from benchmarks.quality.heldout import evaluate
from benchmarks.quality.quality_contenders import grid, parsed
from keras_bert_app.cli.common import app
from keras_bert_app.config.bert_config import SIZES

_CORPUS = flags.DEFINE_string(
    "corpus_dir", "", "Directory that prepare_corpus wrote; its held-out documents choose the settings."
)
_REPORTED = flags.DEFINE_string(
    "reported_corpus_dir", "", "The --corpus_dir of quality_per_minute; its held-out documents choose nothing."
)
_VOCAB = flags.DEFINE_string("vocab_file", "", "The vocabulary of all models, uncased.")
_CONFIG = flags.DEFINE_enum("config", "tiny", list(SIZES), "Published size of all models.")
_MINUTES = flags.DEFINE_float(
    "minutes", 4.0, "Minutes whose steps a trial takes, on a machine on which nothing else runs.", lower_bound=0.05
)
_SPEED_MINUTES = flags.DEFINE_float("speed_minutes", 1.0, "Minutes to measure each speed.", lower_bound=0.05)
_SPEED_ONLY = flags.DEFINE_bool("speed_only", False, "Measure the speeds, and end.")
_SEED = flags.DEFINE_integer("seed", 0, "Seed of all trials; give quality_per_minute other seeds.", lower_bound=0)
_LANGUAGE_MODEL = flags.DEFINE_enum(
    "language_model", "masked", list(language_models.LANGUAGE_MODELS), language_models.HELP
)
_PEERS = flags.DEFINE_list(
    "peers",
    ["keras_hub@float32", "transformers@bfloat16"],
    "NAME@PRECISION of each peer that is searched; a causal language model needs transformers alone.",
)
_RATES = flags.DEFINE_list("learning_rates", ["1e-3", "2e-3", "4e-3"], "Peak rates.")
_RANGES = flags.DEFINE_list("initializer_ranges", ["0.02", "0.06"], "Deviations of the initial weights.")
_DROPOUTS = flags.DEFINE_list("dropouts", ["0", "0.1"], "Rates of all dropout.")
_PYTHON = flags.DEFINE_string("transformers_python", "", "Interpreter with benchmarks/requirements-hf.txt.")
_DIRECTORY = flags.DEFINE_string("directory", "runs/search", "Directory for the trials, table and best settings.")


def main(arguments):
    del arguments
    app.required("corpus_dir", "reported_corpus_dir", "vocab_file")
    entries = grid(_PEERS.value, _RATES.value, _RANGES.value, _DROPOUTS.value)
    language_model, names = _LANGUAGE_MODEL.value, [parsed(entry).name for entry in entries]
    language_models.check(language_model, names)
    if "transformers" in names:
        app.required("transformers_python")
    os.makedirs(_DIRECTORY.value, exist_ok=True)
    documents_file, num_documents, num_heldout = choosing_documents.write(
        _DIRECTORY.value, _CORPUS.value, _REPORTED.value
    )
    print(
        f"trials: {len(entries)}, {_MINUTES.value:g} minutes each; {num_documents:,} held-out documents choose, "
        f"{num_heldout - num_documents:,} do not, because --reported_corpus_dir holds out some of their sentences",
        flush=True,
    )
    quality_texts.write(_DIRECTORY.value, _CORPUS.value, _VOCAB.value, quality_peers.LENGTH)
    path = os.path.join(_DIRECTORY.value, "trials.json")
    num_steps = _steps_of(entries)
    if _SPEED_ONLY.value:
        return
    settings = {
        "language_model": language_model,
        "config": _CONFIG.value,
        "minutes": _MINUTES.value,
        "seed": _SEED.value,
        "corpus": file_digest(os.path.join(_CORPUS.value, "manifest.json")),
        "vocabulary": file_digest(_VOCAB.value),
        "documents": file_digest(documents_file),
    }
    results_of(
        entries,
        lambda entry: _trial(entry, documents_file, num_steps[entry]),
        path,
        lambda entry: {
            **settings,
            "script": file_digest(quality_peers.script_of(parsed(entry).name)),
            "num_steps": num_steps[entry],
        },
        lambda result: search_results.in_words(result, language_model),
    )
    # Earlier runs of this command count too, so that the number of trials includes all of them.
    trials = alike(path, settings, settings)
    search_results.keep(_DIRECTORY.value, trials, {**settings, "num_documents": num_documents})
    best = search_results.best_of(trials, language_model).values()
    table, edges = search_results.table(trials, language_model), search_results.at_the_edge(trials, language_model)
    print("\n" + "\n".join([*table, "", *edges]))
    print(f"flag for quality_per_minute, with the best settings of each peer:\n--contenders=ours,{','.join(best)}")


def _steps_of(entries):
    """Measures the speeds that the entries need. Returns dict entry -> number of steps of its trial."""
    names = {entry: "{0.name}@{0.precision}@{0.dropout:g}".format(parsed(entry)) for entry in entries}
    contenders = {name: parsed(entry) for entry, name in names.items()}
    directory = os.path.join(_DIRECTORY.value, "speed")
    speeds = results_of(
        list(contenders),
        lambda name: speed_of_peers.measured(contenders[name], directory, _SPEED_MINUTES.value, **_arguments()),
        os.path.join(_DIRECTORY.value, "speeds.json"),
        {
            "language_model": _LANGUAGE_MODEL.value,
            "config": _CONFIG.value,
            "speed_minutes": _SPEED_MINUTES.value,
        },
        lambda speed: f"{speed['steps_per_second']:.2f} steps/s after {speed['seconds_before_steps']:.0f} s",
    )
    return {entry: speed_of_peers.steps_in(_MINUTES.value, speeds[name]) for entry, name in names.items()}


def _arguments():
    """The arguments of quality_peers.pretrain that all trainings share."""
    return {
        "texts_dir": _DIRECTORY.value,
        "config": _CONFIG.value,
        "vocab_file": _VOCAB.value,
        "seed": _SEED.value,
        "transformers_python": _PYTHON.value,
        "language_model": _LANGUAGE_MODEL.value,
    }


def _trial(entry, documents_file, num_steps):
    """Trains a peer with its settings. Returns the held-out figures, the number of steps and the machine.

    If the weights are not finite, there are no figures. These settings count as the worst.
    """
    model_dir = os.path.join(_DIRECTORY.value, "models", entry.replace("@", "-"))
    quality_peers.pretrain(parsed(entry), model_dir, minutes=_MINUTES.value, num_steps=num_steps, **_arguments())
    last = quality_peers.logged(model_dir)[-1]
    result = {"steps": last["step"], "machine": machine(("tensorflow", "keras"))}
    is_finite = math.isfinite(last["loss"])
    figures = evaluate(model_dir, _CORPUS.value, _VOCAB.value, documents_file) if is_finite else {}
    return {**result, "figures": figures}


if __name__ == "__main__":
    app.run(main, __doc__)
