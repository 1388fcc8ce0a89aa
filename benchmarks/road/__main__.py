"""Walks the road to BERT: pre-trains every station on one text for the same minutes, and compares them on tasks.

python -m benchmarks.road --input_files=TEXT --tasks_dir=TASKS --minutes=10 --output_dir=runs/road

The stations are word2vec, fastText, TagLM, CoVe, ELMo, ULMFiT, GPT and BERT. TagLM and ELMo use one language model. The
language models have about --size parameters, and the vectors of word2vec, fastText and CoVe are as wide as the states
of BERT. All have one vocabulary of 8,000 pieces without case. TASKS has the folders conll2003, glue,
multi30k (for CoVe) and the extracted 20newsgroups-bydate in their official layouts.

Each station is fine-tuned in the way of its paper, and beside it the same model from random weights, of which no layer
is frozen. CoNLL-2003 and 20 Newsgroups are reported on their test sets, and dev chooses the weights. The test labels of
GLUE are not public, so one half of dev chooses the weights there, and the table reports the other half. The mix of
ELMo's layers is learned with three seeds.

Learning rates were not searched here. BERT and GPT are pre-trained with the rate of the recipe small_budget, which was
chosen for narrow BERTs. The LSTMs are pre-trained with the best rate of a short trial of awd_lstm_tiny (docs/lstm.md).
BERT and GPT have no dropout in either training; the LSTM language models keep the low rates of elmo_tiny and
awd_lstm_tiny. word2vec and fastText take as many passes over the text as fit into the minutes. CoVe learns from the
captions of multi30k, not from TEXT.

Differences are between runs of one seed on the same examples. Their intervals are over the examples.

OUTPUT_DIR gets table.md, results.json, differences.json, scores.png and few_labels.png. A run that was stopped
continues: a finished row does not run again. With 10 minutes and --size=5m, all rows take an estimated 8 hours on two
cores with AVX2.
"""

import json
import os

from absl import flags

from benchmarks.common.identity import file_digest
from benchmarks.common.resumable import results_of
from benchmarks.common.this_machine import machine
from benchmarks.finetuning.row_runs import run_row
from benchmarks.road import differences, pretraining, road_table
from benchmarks.road.road_tasks import CURVES, check_files, flags_of, rows
from benchmarks.road.stations import SIZES, STATIONS, VOCAB_SIZE, configurations, num_parameters, write_configurations
from keras_bert_app.cli.common import app
from keras_bert_app.config.training_config import PRECISIONS
from keras_bert_app.errors import UserError, nearest
from pipelines import storage
from pipelines.wordpiece.vocabulary import load_vocabulary

flags.DEFINE_string("input_files", "", "The text of all stations.")
flags.DEFINE_string("tasks_dir", "", "Folder of the tasks.")
_MINUTES = flags.DEFINE_float("minutes", 10.0, "Minutes of pre-training for each station.", lower_bound=0.05)
_OUTPUT = flags.DEFINE_string("output_dir", "runs/road", "Where the corpus, models, runs and tables go.")
_VOCAB = flags.DEFINE_string("vocab_file", "", "A vocabulary of 8,000 pieces; by default it is learned from the text.")
_SIZE = flags.DEFINE_enum("size", SIZES[0], SIZES, "Parameters of each station, about.")
_SEED = flags.DEFINE_integer("seed", 1, "Seed of all runs.", lower_bound=0)
_EXAMPLES = flags.DEFINE_integer(
    "max_train_examples",
    0,
    "Most training examples of a run, for a quick trial; 0: as many as the task has.",
    lower_bound=0,
)
_STATIONS = flags.DEFINE_list("stations", list(STATIONS), "Stations to walk, in this order.")
_PRECISION = flags.DEFINE_enum("precision", PRECISIONS[0], PRECISIONS, "Compute type of fine-tuning.")


def main(arguments):
    del arguments
    input_files, tasks_dir = app.required("input_files", "tasks_dir")
    if not _STATIONS.value:
        raise UserError(f"--stations is empty; give some of {', '.join(STATIONS)}")
    for name in _STATIONS.value:
        if name not in STATIONS:
            raise UserError(f"--stations: {name!r} is not known: {nearest(name, list(STATIONS))}")
    if _VOCAB.value and len(load_vocabulary(_VOCAB.value)) != VOCAB_SIZE:
        raise UserError(
            f"--vocab_file={_VOCAB.value}: has {len(load_vocabulary(_VOCAB.value)):,} pieces, expected {VOCAB_SIZE:,}; "
            "leave the flag out, and a vocabulary is learned from the text"
        )
    check_files(tasks_dir, _STATIONS.value)
    models_dir = _at("models")
    storage.make_directories(models_dir)
    configs = write_configurations(_SIZE.value, _at())
    corpus, vocab_file = pretraining.prepare(input_files, _VOCAB.value, _at())
    settings = {
        "minutes": _MINUTES.value,
        "size": _SIZE.value,
        "seed": _SEED.value,
        "input_files": input_files,
        "vocabulary": file_digest(vocab_file),
    }
    paths = models_dir, tasks_dir, configs, vocab_file
    commands = {
        model: pretraining.command(model, corpus, *paths, _MINUTES.value, _SEED.value)
        for model in dict.fromkeys(STATIONS[name].model for name in _STATIONS.value)
    }
    done = results_of(
        list(commands),
        lambda model: pretraining.run(*commands[model], _MINUTES.value),
        _at("pretraining.json"),
        lambda model: {**settings, "pretraining": commands[model]},
    )
    given = {
        row: {"precision": _PRECISION.value, **flags_of(row, *paths, _SEED.value, _EXAMPLES.value)}
        for row in rows(_STATIONS.value)
    }
    runs_dir = _at("runs")
    results = results_of(
        list(given),
        lambda row: run_row(os.path.join(runs_dir, row.replace(":", "_")), given[row]),
        _at("results.json"),
        lambda row: {**settings, "finetune": given[row]},
        shown=lambda figures: f"{figures['metric']} {figures['reported']['score']:.4f}",
    )
    pairs = differences.pairs(_STATIONS.value)
    compared = results_of(
        list(pairs),
        lambda pair: differences.of_pair(pairs[pair], runs_dir, given),
        _at("differences.json"),
        lambda pair: {**settings, "finetune": [given[row] for row in pairs[pair]]},
        shown=road_table.difference_text,
    )
    _write(results, done, compared)


def _at(*names):
    return os.path.join(_OUTPUT.value, *names)


def _write(results, done, compared):
    """Writes and prints the tables, and draws the pictures."""
    names = _STATIONS.value
    lines = [
        *_machine_lines(),
        "",
        *road_table.scores(results, done, names),
        "",
        *road_table.comparison(compared, names),
    ]
    has_curves = any(name in CURVES for name in names)
    if has_curves:
        lines += ["", *road_table.few_labels(results, compared, names)]
    mixed = [name for name in names if STATIONS[name].has_mix]
    if mixed:
        lines += ["", *road_table.mixes(results, mixed[0])]
    heading = f"The road to BERT: {_MINUTES.value:g} minutes each\n95 % intervals in the table"
    storage.write_whole(_at("table.md"), "\n".join(lines) + "\n")
    storage.write_whole(_at("scores.png"), road_table.draw(results, names, heading))
    if has_curves:
        heading = f"Few labels after {_MINUTES.value:g} minutes of pre-training\nhalf of dev of SST-2, 95 % intervals"
        storage.write_whole(_at("few_labels.png"), road_table.draw_few_labels(results, names, heading))
    print("\n".join(["", *lines, "", f"{_at('table.md')}, scores.png{', few_labels.png' * has_curves}"]))


def _machine_lines():
    sizes = {name: num_parameters(config) for name, config in configurations(_SIZE.value).items()}
    yield json.dumps(machine(("tensorflow", "keras")))
    yield "parameters: " + ", ".join(f"{name} {number / 1e6:.1f} million" for name, number in sizes.items())


if __name__ == "__main__":
    app.run(main, __doc__)
