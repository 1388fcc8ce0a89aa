"""Vectors on STS-B: as they are, SimCSE on raw text, supervised, of several sizes, and beside sentence-transformers.

python -m benchmarks.vectors.sts --data_dir=glue/STS-B --init_checkpoint=MINILM --raw_text=wiki.txt --directory=runs/sts
python -m benchmarks.vectors.sts --data_dir=glue/STS-B --init_checkpoint=MINILM --rows=supervised,peer \\
    --peer_python=VECTORS_ENV/bin/python --directory=runs/sts

Rows:

- tf_idf: cosines of TF-IDF vectors, with the frequencies of the texts of train.tsv and of the scored pairs
- random: an encoder of the same shape and vocabulary with BERT's initial weights
- start: the model as it is, by its own files or as the mean of its last layer
- simcse: trained on the first --raw_texts lines of --raw_text, each text twice with other dropout
- supervised: trained on the pairs of train.tsv by the loss CoSENT
- matryoshka: the same, also for the first half, quarter and eighth of the numbers
- peer: the row "supervised" by sentence-transformers' trainer, from the same start, with the same batch size, epochs,
  rate, warm-up and greatest length. VECTORS_ENV has benchmarks/requirements-vectors.txt

A figure is Spearman's correlation on one half of dev. Nothing is chosen on it: the weights are those of the last step,
and the other half is not used. One program scores all rows, and reads the folder of the peer. The intervals are 95 % by
resampling of pairs. The differences are those of the seeds' mean.

Both sides have the same number of steps, and AdamW with the same decay and epsilon. Ours puts texts of similar lengths
into one batch, and the peer draws its batches. Texts/s count the whole training. Ours includes the compilation, one
evaluation and one checkpoint; the peer evaluates and saves nothing in this time. A table that was stopped continues.
"""

import dataclasses
import json
import os

import numpy as np
from absl import flags

from benchmarks.common import own_commands
from benchmarks.common.resumable import results_of, spread
from keras_bert_app.cli.common import app
from keras_bert_app.config.bert_config import PARTS
from keras_bert_app.errors import UserError, nearest
from pipelines import storage

_KINDS = ("tf_idf", "start", "random", "simcse", "supervised", "matryoshka", "peer")
_UNTRAINED = _KINDS[:2]
_PEER_SCRIPT = os.path.join(os.path.dirname(__file__), "sts_sentence_transformers.py")
_TRAINING = {"max_seq_length": 128, "global_batch_size": 32}
_SIMCSE = {"max_seq_length": 64, "global_batch_size": 64}
_WARMUP = 0.1
_ADAM = {"weight_decay_rate": 0.01, "adam_epsilon": 1e-6}

_DATA = flags.DEFINE_string("data_dir", "", "Folder with STS-B's train.tsv and dev.tsv.")
_MODEL = flags.DEFINE_string("init_checkpoint", "", "The start, such as all-MiniLM-L6-v2, or a run of your own.")
_RAW_TEXT = flags.DEFINE_string("raw_text", "", "A file with one text a line, for the row simcse.")
_NUM_RAW = flags.DEFINE_integer("raw_texts", 20_000, "Lines of --raw_text to take.", lower_bound=100)
_ROWS = flags.DEFINE_list("rows", ["tf_idf", "start", "supervised", "matryoshka"], "Rows to run.")
_SEEDS = flags.DEFINE_list("seeds", ["1", "2", "3"], "Seeds of the trained rows.")
_EPOCHS = flags.DEFINE_float("num_train_epochs", 2.0, "Epochs of the rows supervised, matryoshka and peer.")
_RATE = flags.DEFINE_float("learning_rate", 2e-5, "Rate of all trained rows but simcse.")
_SIMCSE_RATE = flags.DEFINE_float("simcse_learning_rate", 3e-5, "Rate of the row simcse.")
_SIMCSE_DROPOUT = flags.DEFINE_float("simcse_dropout", -1.0, "Dropout of the row simcse; -1: that of the model.")
_PYTHON = flags.DEFINE_string("peer_python", "", "Interpreter with sentence-transformers, for the row peer.")
_DIRECTORY = flags.DEFINE_string("directory", "runs/sts", "Where runs and tables go.")


def main(arguments):
    del arguments
    data_dir, model = app.required("data_dir", "init_checkpoint")
    for row in _ROWS.value:
        if row not in _KINDS:
            raise UserError(f"--rows: {row!r} is not known: {nearest(row, _KINDS)}")
    for row, flag in (("simcse", _RAW_TEXT), ("peer", _PYTHON)):
        if row in _ROWS.value and not flag.value:
            raise UserError(f"--rows: {row} needs --{flag.name}; give it, or leave the row out")
    directory = os.path.abspath(_DIRECTORY.value)
    rows = [
        name for row in _ROWS.value for name in ([row] if row in _UNTRAINED else [f"{row}:{s}" for s in _SEEDS.value])
    ]
    done = results_of(
        rows,
        lambda row: run_row(data_dir, directory, model, row),
        os.path.join(directory, "table.json"),
        lambda row: settings_of(row, data_dir, model),
        shown=lambda figures: f"Spearman {next(iter(figures['spearman'].values())):.4f}",
    )
    print("\n" + "\n".join(table(done)))


def settings_of(row: str, data_dir: str, model: str) -> dict:
    """What the figures of a row depend on, beside its name.

    Args:
        row: str. KIND, or KIND:SEED.
        data_dir: str. Folder of STS-B.
        model: str. The start.
    """
    if row.startswith("simcse"):
        raw = {"data": _RAW_TEXT.value, "raw_texts": _NUM_RAW.value, "scored_on": data_dir}
        return {"model": model, **raw, "warmup": _WARMUP, **_ADAM, **_simcse()}
    return {"model": model, "data": data_dir, "epochs": _EPOCHS.value, "warmup": _WARMUP, **_training(), **_ADAM}


def _training():
    return {"learning_rate": _RATE.value, **_TRAINING}


def _simcse():
    dropout = {"encoder_dropout": _SIMCSE_DROPOUT.value} if _SIMCSE_DROPOUT.value >= 0 else {}
    return {"learning_rate": _SIMCSE_RATE.value, **_SIMCSE, **dropout}


def reported_pairs(data_dir: str) -> tuple[list, list]:
    """The pairs and scores of the half of dev that no run chooses by.

    Args:
        data_dir: str. Folder of STS-B.

    Returns:
        (examples with two texts, scores).
    """
    with app.quiet_start():
        from keras_bert_app.config.finetuning_config import FinetuningConfig
        from keras_bert_app.tasks import dev_halves, registry
    task = registry.find("similarity")
    run = FinetuningConfig(task="similarity", data_dir=data_dir, similarity_metric="spearman")
    examples = dev_halves.split(task, task.read_split(data_dir, "dev", run))[1]
    return examples, [example.label for example in examples]


def run_row(data_dir: str, directory: str, model: str, row: str) -> dict:
    """Trains a row, if it is one that is trained, and scores it.

    Args:
        data_dir: str. Folder of STS-B.
        directory: str. Folder of the benchmark.
        model: str. The start.
        row: str. KIND, or KIND:SEED.

    Returns:
        dict with spearman (numbers of a vector -> correlation), cosines (of the pairs, for the differences), scores,
        and for trained rows seconds and texts.
    """
    kind, _, seed = row.partition(":")
    examples, scores = reported_pairs(data_dir)
    figures = {"scores": scores}
    if kind == "tf_idf":
        from keras_bert_app.tasks.families import vector_answers

        rows = vector_answers.tf_idf(_examples(os.path.join(data_dir, "train.tsv")), examples)
        cosines = {"words": [float((a[:1] @ a[1:2].T).toarray()[0, 0]) for a in rows]}
    else:
        trained = model if kind == "start" else os.path.join(directory, row.replace(":", "-"))
        if kind == "random":
            _write_random(model, int(seed), trained)
        elif kind != "start":
            figures |= _trained(data_dir, directory, model, kind, seed, trained)
        cosines = cosines_by_size(trained, examples)
    figures["spearman"] = {size: _spearman(values, scores) for size, values in cosines.items()}
    return {**figures, "cosines": next(iter(cosines.values()))}


def _write_random(model, seed, directory):
    """Writes a model like the given one with BERT's initial weights."""
    from keras_bert_app.interop import load
    from keras_bert_app.modeling.architectures import make_pretrainer

    weights, _ = load.load_weights(model, allow_missing=PARTS[1:])
    untrained = make_pretrainer(weights.config, seed=seed, parts=weights.parts())
    tensors = {variable.path: variable.numpy() for variable in untrained.weights}
    load.write_weights(dataclasses.replace(weights, tensors=tensors), "workdir", directory)


def _examples(path):
    from keras_bert_app.config.finetuning_config import FinetuningConfig
    from keras_bert_app.tasks import registry

    return registry.find("similarity").read_file(path, FinetuningConfig(task="similarity"))


def cosines_by_size(model: str, examples: list) -> dict[str, list[float]]:
    """dict numbers of a vector -> the cosine of each pair; the whole vectors come first.

    Args:
        model: str. A model in any layout that embed reads.
        examples: examples with two texts.
    """
    from keras_bert_app import load_embedder

    embed = load_embedder(model)
    first, second = (embed([example.texts[place] for example in examples]) for place in (0, 1))
    size, found = first.shape[1], {}
    for part in (1, 2, 4, 8):
        a, b = (vectors[:, : size // part] for vectors in (first, second))
        norms = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
        found[str(size // part)] = ((a * b).sum(axis=1) / np.maximum(norms, 1e-12)).tolist()
    return found


def _spearman(values, scores):
    from scipy.stats import spearmanr

    return float(spearmanr(values, scores).statistic)


def _trained(data_dir, directory, model, kind, seed, workdir):
    """Trains a row. Returns its seconds and the number of texts that it has seen."""
    given, source, texts_of_a_row = {**_training(), "num_train_epochs": _EPOCHS.value}, data_dir, 2
    if kind == "peer":
        steps = _num_steps(data_dir, given)
        request = {**_training(), **_ADAM, "model": model, "output": workdir, "seed": int(seed), "num_steps": steps}
        request |= {"train": os.path.join(data_dir, "train.tsv"), "num_warmup_steps": int(_WARMUP * steps)}
        path = f"{workdir}.request.json"
        storage.write_whole(path, json.dumps(request, indent=1) + "\n")
        own_commands.process("sentence-transformers", [_PYTHON.value, _PEER_SCRIPT, path])
        with open(os.path.join(workdir, "training.json"), encoding="utf-8") as file:
            return json.load(file)
    if kind == "simcse":
        source, texts_of_a_row = _raw_folder(data_dir, directory), 1
        given = {**_simcse(), "num_train_epochs": 1.0}
    if kind == "matryoshka":
        given["vector_sizes"] = ",".join(str(_size(model) // part) for part in (2, 4, 8))
    steps = _num_steps(source, given)
    del given["num_train_epochs"]
    own_commands.run(
        "finetune",
        task="similarity",
        data_dir=source,
        init_checkpoint=model,
        workdir=workdir,
        seed=seed,
        num_train_steps=steps,
        num_warmup_steps=int(_WARMUP * steps),
        bias_correction=True,
        **_ADAM,
        eval_steps=steps,
        save_checkpoints_steps=steps,
        **given,
    )
    with open(os.path.join(workdir, "results.json"), encoding="utf-8") as file:
        seconds = json.load(file)["train_seconds"]
    return {"seconds": seconds, "texts": steps * given["global_batch_size"] * texts_of_a_row}


def _size(model):
    from keras_bert_app import load_embedder

    return load_embedder(model)("a text").shape[-1]


def _num_steps(source, given):
    name = "train.tsv" if os.path.exists(os.path.join(source, "train.tsv")) else "train.jsonl"
    return max(
        1, int(given["num_train_epochs"] * len(_examples(os.path.join(source, name))) / given["global_batch_size"])
    )


def _raw_folder(data_dir, directory):
    """The folder for the row simcse: the first lines of the raw text, and the dev file of STS-B."""
    folder = os.path.join(directory, "raw")
    storage.make_directories(folder)
    texts, seen = [], set()
    with open(_RAW_TEXT.value, encoding="utf-8") as file:
        for line in file:
            text = " ".join(line.split())
            if len(text.split()) >= 5 and text not in seen:
                seen.add(text)
                texts.append(json.dumps({"text": text}, ensure_ascii=False) + "\n")
            if len(texts) == _NUM_RAW.value:
                break
    storage.write_whole(os.path.join(folder, "train.jsonl"), "".join(texts))
    with open(os.path.join(data_dir, "dev.tsv"), encoding="utf-8") as file:
        storage.write_whole(os.path.join(folder, "dev.tsv"), file.read())
    return folder


def table(done: dict):
    """Yields the table in Markdown, a line for each kind of row, and the differences between kinds.

    Args:
        done: dict. Row -> figures.
    """
    kinds = {}
    for row, figures in done.items():
        kinds.setdefault(row.partition(":")[0], []).append(figures)
    yield "| row | Spearman (lowest to highest seed) | first half | quarter | eighth | texts/s |"
    yield "|---|---|---|---|---|---|"
    for kind, runs in kinds.items():
        sizes = [
            spread([list(run["spearman"].values())[place] for run in runs]) for place in range(len(runs[0]["spearman"]))
        ]
        speed = spread([run["texts"] / run["seconds"] for run in runs], ",.1f") if "texts" in runs[0] else ""
        yield f"| {kind} | {' | '.join([*sizes, *[''] * (4 - len(sizes))])} | {speed} |"
    yield ""
    names = list(kinds)
    for number, kind in enumerate(names):
        for other in names[:number]:
            gain, low, high = difference(kinds[kind], kinds[other])
            yield f"- {kind} minus {other}: {gain:+.4f} (95 % interval {low:+.4f} to {high:+.4f})"


def difference(runs: list[dict], others: list[dict]) -> tuple[float, float, float]:
    """(difference of the mean correlation, low, high): the interval is over resampled pairs.

    Args:
        runs: figures of the seeds of a kind.
        others: figures of the seeds of another kind.
    """
    from keras_bert_app.tasks import intervals

    gold = np.array(runs[0]["scores"])

    def mean_of(group):
        values = [np.array(run["cosines"]) for run in group]
        return lambda indices: float(np.mean([_spearman(each[indices], gold[indices]) for each in values]))

    one, other = mean_of(runs), mean_of(others)
    low, high = intervals.compared(one, other, range(len(gold))).difference_interval
    everything = np.arange(len(gold))
    return one(everything) - other(everything), low, high


if __name__ == "__main__":
    app.run(main, __doc__)
