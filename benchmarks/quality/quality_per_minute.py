"""Pre-trains for the same minutes on the same machine: our recipe, KerasHub's fit and transformers' trainings.

python -m benchmarks.quality.quality_per_minute --corpus_dir=CORPUS --vocab_file=VOCAB --data_dir=TASKS \\
    --transformers_python=HF_ENV/bin/python --minutes=10 --seeds=1,2,3 --directory=runs/quality
python -m benchmarks.quality.quality_per_minute --language_model=causal --corpus_dir=CORPUS --vocab_file=VOCAB \\
    --contenders=ours,transformers@1e-3 --transformers_python=HF_ENV/bin/python --directory=runs/quality_gpt

All contenders have the same text, vocabulary, model size and minutes. The peers have their own masks, dropout and
initial weights, AdamW, and rows as full as ours. The learning rate rises and falls by the clock for all.

An entry of --contenders is NAME[@PEAK_RATE[@PRECISION[@INITIALIZER_RANGE[@DROPOUT]]]], so a peer may run with several
settings: --contenders=ours,keras_hub@1e-3@float32,transformers@3e-3,transformers@3e-3@bfloat16@0.08@0. Do not choose
settings on the text that judges the models. benchmarks.quality.search_settings finds settings with other documents and
another seed. Give its directory as --search_dir. This benchmark then refuses documents and seeds that chose the
settings, and a line above the table gives the number of trials.

One evaluation judges all models (benchmarks.quality.heldout). For KerasHub's head it uses the activation and LayerNorm
epsilon of the encoder. Then all models, and a random start as a baseline, are fine-tuned on 10,000 examples of SST-2
and of CoNLL-2003, with BERT's dropout. HF_ENV has benchmarks/requirements-hf.txt. TASKS has the folders glue and
conll2003.

With --language_model=causal our GPT runs beside transformers' GPT2. The perplexity judges them. Nothing is fine-tuned.

Pieces/s is the speed between the first and the last line of a training's log.

Finished runs do not run again. If our training was stopped, it continues. The training of a peer starts again. Run
nothing else on the machine. A directory has runs of one corpus, vocabulary, size and time. The benchmark keeps the
machine of each pre-training with its result, and shows it above the table.
"""

import json
import os

from absl import flags

from benchmarks.common import count_flags, own_commands, report
from benchmarks.common.identity import code_digest
from benchmarks.common.resumable import results_of, spread
from benchmarks.common.this_machine import machine
from benchmarks.quality import language_models, quality_peers, quality_texts, search_results
from benchmarks.quality.heldout import evaluate
from benchmarks.quality.language_models import LANGUAGE_MODELS
from benchmarks.quality.quality_contenders import FORM, PRECISIONS, parsed
from keras_bert_app.cli.common import app
from keras_bert_app.config.bert_config import SIZES, BertConfig
from keras_bert_app.errors import UserError
from pipelines import storage

_RANDOM = "random start"

_CORPUS = flags.DEFINE_string("corpus_dir", "", "Directory that prepare_corpus wrote, with held-out documents.")
_VOCAB = flags.DEFINE_string("vocab_file", "", "The vocabulary of all models, uncased.")
_DATA = flags.DEFINE_string("data_dir", "", "Folder of the tasks; without it nothing is fine-tuned.")
_CONFIG = flags.DEFINE_enum("config", "tiny", list(SIZES), "Published size of all models.")
_MINUTES = flags.DEFINE_float("minutes", 10.0, "Minutes of training for each contender.", lower_bound=0.05)
_LANGUAGE_MODEL = flags.DEFINE_enum(
    "language_model", "masked", list(language_models.LANGUAGE_MODELS), language_models.HELP
)
_SEEDS = count_flags.define("seeds", [1, 2, 3], "Seeds; each contender has one run for each seed.", lowest=0)
_CONTENDERS = flags.DEFINE_list(
    "contenders",
    ["ours", "keras_hub@1e-3@float32", "transformers@1e-3"],
    f"The contenders, which run in this order for each seed: {FORM}.",
)
_PRECISION = flags.DEFINE_enum(
    "precision", "bfloat16", PRECISIONS, "Compute type of contenders that name none, and of fine-tuning."
)
_PYTHON = flags.DEFINE_string("transformers_python", "", "Interpreter with benchmarks/requirements-hf.txt.")
_SEARCH = flags.DEFINE_string(
    "search_dir", "", "The --directory of the search_settings that chose the peers' settings."
)
_DIRECTORY = flags.DEFINE_string("directory", "runs/quality", "Directory for the runs, the table and the curves.")


def main(arguments):
    del arguments
    app.required("corpus_dir", "vocab_file")
    language_model = _LANGUAGE_MODEL.value
    names = [parsed(contender).name for contender in _CONTENDERS.value]
    language_models.check(language_model, names)
    if "transformers" in names:
        app.required("transformers_python")
    if _DATA.value and language_model != "masked":
        raise UserError(f"--data_dir: --language_model={language_model} fine-tunes nothing here; leave --data_dir out")
    os.makedirs(_DIRECTORY.value, exist_ok=True)
    _keep_settings()
    search = (_SEARCH.value, _CORPUS.value, _SEEDS.value, _CONTENDERS.value, language_model)
    searched = search_results.sentences(*search) if _SEARCH.value else []
    quality_texts.write(_DIRECTORY.value, _CORPUS.value, _VOCAB.value, quality_peers.LENGTH)
    runs = [f"{contender}:{seed}" for seed in _SEEDS.value for contender in _CONTENDERS.value]
    pretraining = results_of(
        runs,
        _pretrain,
        _at("pretraining.json"),
        lambda row: {"precision": _PRECISION.value, **({"code": code_digest()} if row.startswith("ours") else {})},
    )
    curves = {row: _curve(row) for row in runs}
    tasks = {}
    if _DATA.value:
        starts = [*runs, *(f"{_RANDOM}:{seed}" for seed in _SEEDS.value)]
        tasks = results_of(
            [f"{start}:{task}" for start in starts for task in own_commands.SMALL_TASKS],
            _finetune,
            _at("tasks.json"),
            {
                "precision": _PRECISION.value,
                "data_dir": _DATA.value,
                "random": _CONTENDERS.value[0],
                "code": code_digest(),
            },
        )
    speeds = {row: quality_peers.pieces_per_second(curve) for row, curve in curves.items()}
    lines = [*machines(pretraining), *searched, *table(language_model, pretraining, speeds, tasks)]
    storage.write_whole(_at("table.md"), "\n".join(lines) + "\n")
    draw(curves, LANGUAGE_MODELS[language_model].note, _at("curves.png"))
    print("\n" + "\n".join(lines) + f"\n\n{_at('table.md')}, {_at('curves.png')}")


def _at(*names):
    return os.path.join(_DIRECTORY.value, *names)


def _keep_settings():
    """Records the settings of this directory. Raises UserError if the recorded ones differ."""
    manifest = os.path.join(_CORPUS.value, "manifest.json")
    settings = {"minutes": _MINUTES.value, "config": _CONFIG.value, "language_model": _LANGUAGE_MODEL.value}
    for name, path in (("corpus_dir", manifest), ("vocab_file", _VOCAB.value)):
        try:
            settings[name] = storage.sha256_of(path)
        except OSError as error:
            raise UserError(
                f"{path} cannot be read ({error.strerror}); give as --{name} what "
                f"{'prepare_corpus' if name == 'corpus_dir' else 'learn_vocab'} wrote"
            ) from error
    path = _at("settings.json")
    if not os.path.exists(path):
        storage.write_whole(path, json.dumps(settings, indent=1))
    with open(path, encoding="utf-8") as file:
        kept = {"language_model": "masked", **json.load(file)}  # older directories have no other
    if changed := [name for name, value in settings.items() if kept.get(name) != value]:
        raise UserError(f"--directory={_DIRECTORY.value} has runs with another --{changed[0]}; give another directory")


def _model_dir(row):
    return _at("models", row.replace(":", "-").replace("@", "-"))


def _pretrain(row):
    """Trains a contender for its minutes. Returns the held-out figures, the number of steps and the machine."""
    entry, seed = row.split(":")
    contender = parsed(entry)
    contender = contender._replace(precision=contender.precision or _PRECISION.value)
    model_dir = _model_dir(row)
    if contender.name == "ours":
        # Our training evaluates nothing, and writes only its last checkpoint. The peers do the same.
        own_commands.run(
            "pretrain",
            recipe="small_budget",
            config=_CONFIG.value,
            corpus_dir=_CORPUS.value,
            vocab_file=_VOCAB.value,
            train_minutes=_MINUTES.value,
            precision=contender.precision,
            seed=seed,
            log_steps=50,
            eval_steps=1_000_000,
            save_checkpoints_steps=1_000_000,
            jit_compile="parts",
            workdir=model_dir,
            **LANGUAGE_MODELS[_LANGUAGE_MODEL.value].flags,
        )
    else:
        quality_peers.pretrain(
            contender,
            model_dir,
            _DIRECTORY.value,
            config=_CONFIG.value,
            vocab_file=_VOCAB.value,
            minutes=_MINUTES.value,
            seed=int(seed),
            transformers_python=_PYTHON.value,
            language_model=_LANGUAGE_MODEL.value,
        )
    return {
        **evaluate(model_dir, _CORPUS.value, _VOCAB.value),
        "steps": _curve(row)[-1]["step"],
        "machine": machine(("tensorflow", "keras")),
    }


def _curve(row):
    """The log of a training: rows with step, seconds and loss (of masked LM or of the next piece only)."""
    if row.startswith("ours"):
        return [line for line in own_commands.metrics_of(_model_dir(row)) if "loss" in line]
    return quality_peers.logged(_model_dir(row))


def _finetune(row):
    start, seed, task = row.split(":")
    is_random = start == _RANDOM
    model_dir = _with_default_dropout(f"{_CONTENDERS.value[0] if is_random else start}:{seed}")
    return own_commands.finetune_small(
        task,
        _DATA.value,
        _at("tasks", row.replace(":", "-").replace(" ", "_")),
        init_checkpoint=model_dir,
        random_init=is_random,
        precision=_PRECISION.value,
        seed=seed,
    )


def _with_default_dropout(row):
    """A copy of a model with BERT's dropout and initializer range in its configuration, for fine-tuning."""
    path = _model_dir(row) + "-for-tasks"
    if os.path.exists(path):
        return path
    with storage.whole_directory(path, path + ".tmp") as output:
        own_commands.run(
            "convert", input=_model_dir(row), to="huggingface", output=output, allow_missing="pooler,next_sentence"
        )
        config_file = os.path.join(output, "config.json")
        with open(config_file, encoding="utf-8") as file:
            config = json.load(file)
        defaults = BertConfig()
        config |= {
            key: getattr(defaults, key)
            for key in ("hidden_dropout_prob", "attention_probs_dropout_prob", "initializer_range")
        }
        storage.write_whole(config_file, json.dumps(config, indent=2))
    return path


def machines(pretraining: dict):
    """Yields a paragraph for each machine of the runs.

    If there are several machines, a paragraph lists its runs.

    Args:
        pretraining: dict. Run -> result of its pre-training.
    """
    runs = {}
    for row, result in pretraining.items():
        runs.setdefault(report.in_words(result["machine"]), []).append(row)
    for words, rows in runs.items():
        yield words if len(runs) == 1 else f"{words}: {', '.join(rows)}"
        yield ""


def table(language_model: str, pretraining: dict, speeds: dict, tasks: dict):
    """Yields a table in Markdown: a line for each contender, with mean and range of its seeds.

    Args:
        language_model: str. A key of LANGUAGE_MODELS.
        pretraining: dict. Run -> result of its pre-training.
        speeds: dict. Run -> pieces per second.
        tasks: dict. Run:task -> result of its fine-tuning; {} for none.
    """
    measures = list(own_commands.SMALL_TASKS) if tasks else []
    kind = LANGUAGE_MODELS[language_model]
    columns = ["seeds", "steps", "pieces/s", *(title for title, _, _ in kind.figures), *measures]
    yield f"| pre-trained by | {' | '.join(columns)} |"
    yield "|---|" + "---|" * len(columns)
    first = next(iter(pretraining.values()))
    for name in (*dict.fromkeys(row.split(":")[0] for row in pretraining), *([_RANDOM] if tasks else [])):
        rows = [row for row in pretraining if row.split(":")[0] == name]
        scores = [
            [result["score"] for row, result in tasks.items() if row.split(":")[0] == name and row.endswith(f":{task}")]
            for task in measures
        ]
        cells = (
            [
                spread([pretraining[row]["steps"] for row in rows], ",.0f"),
                spread([speeds[row] for row in rows], ",.0f"),
                *(spread([pretraining[row][key] for row in rows], form) for _, key, form in kind.figures),
            ]
            if rows
            else [""] * (2 + len(kind.figures))
        )
        yield f"| {name} | {len(rows) or len(scores[0])} | " + " | ".join([*cells, *map(spread, scores)]) + " |"
    baselines = [
        next(result["baseline"] for row, result in tasks.items() if row.endswith(f":{task}")) for task in measures
    ]
    what, key = kind.baseline
    cells = [format(first[key], kind.figures[0][2]), *[""] * (len(kind.figures) - 1)]
    cells += [f"{value:.4f}" for value in baselines]
    yield f"| none: {what}{', class or tag' * bool(tasks)} | | | | {' | '.join(cells)} |"


def draw(curves: dict, note: str, path: str) -> None:
    """Draws training losses against minutes, a colour for each contender and a line for each seed.

    Args:
        curves: dict. Run -> rows of its log.
        note: str. Further lines of the title.
        path: str. File to write.
    """
    from keras_bert_app.drawing.figures import picture

    names = list(dict.fromkeys(row.split(":")[0] for row in curves))
    with picture(8, 4.5, f"Loss in training, by minutes\n{note}") as (figure, image):
        axes = figure.subplots()
        for row, lines in curves.items():
            name = row.split(":")[0]
            label = name if row == next(other for other in curves if other.startswith(name)) else None
            axes.plot(
                [line["seconds"] / 60 for line in lines],
                [line["loss"] for line in lines],
                color=f"C{names.index(name)}",
                linewidth=1.3,
                label=label,
            )
        axes.set_xlabel("minutes")
        axes.set_ylabel("loss")
        axes.legend(frameon=False)
    storage.write_whole(path, image.getvalue())


if __name__ == "__main__":
    app.run(main, __doc__)
