"""Search of answers for medical questions: BM25, a model as it is, trained, with mined negatives, and reranked.

python -m benchmarks.vectors.medquad_search --medquad=medquad.jsonl --init_checkpoint=MINILM --directory=runs/medquad
python -m benchmarks.vectors.medquad_search ... --rows=trained:1 --squad=dev-v2.0.json

MedQuAD has questions and answers about diseases and drugs ("focus"). A hash of the focus divides them: eight tenths
train, one tenth chooses the weights, and one tenth is scored. The answers of all parts are the texts that are searched.
A question of the scored tenth does not count if another part has one of its answers in the same words.

A row is KIND:SEED. "trained" learns from pairs alone; "mined" also has --num_negatives a pair, which the model as it is
finds among the answers of the training part; "reranked" orders the first answers of the row "trained" of the same seed
(--rerank_count) by a cross-encoder that learned from the same pairs and negatives.
--squad also scores the row "trained" on SQuAD: which paragraph does a question belong to?

A run that was stopped continues. The rankings are kept, so that no row searches again for what another row has found.
"""

import hashlib
import json
import os

from absl import flags

from benchmarks.common import own_commands
from benchmarks.common.resumable import results_of
from benchmarks.vectors import medquad_parts
from keras_bert_app.cli.common import app
from keras_bert_app.errors import UserError, nearest
from keras_bert_app.vectors import ranking_files
from pipelines import storage

_MEDQUAD = flags.DEFINE_string("medquad", "", "medquad.jsonl, with focus, question and answer in each line.")
_MODEL = flags.DEFINE_string("init_checkpoint", "", "The model as it is, such as all-MiniLM-L6-v2.")
_DIRECTORY = flags.DEFINE_string("directory", "runs/medquad", "Where collections, runs and tables go.")
_KINDS = ("trained", "mined", "reranked")
_ROWS = flags.DEFINE_list("rows", [f"{kind}:{seed}" for kind in _KINDS for seed in "123"], "Rows, each KIND:SEED.")
_SQUAD = flags.DEFINE_string("squad", "", "A file of SQuAD, 1.1 or 2.0, for the rows of the kind trained.")
_EPOCHS = flags.DEFINE_float("num_train_epochs", 1.0, "Epochs of each run.")
_RERANK_EPOCHS = flags.DEFINE_float("rerank_epochs", 1.0, "Epochs of each cross-encoder, for the rows reranked.")
_BATCH = flags.DEFINE_integer("global_batch_size", 64, "Pairs of a batch.")
_NEGATIVES = flags.DEFINE_integer("num_negatives", 3, "Negatives of a pair, for the rows mined and reranked.")
_RERANKED = flags.DEFINE_integer("rerank_count", 50, "Answers that the rows reranked order anew.")
_TRAINING = {"learning_rate": 5e-5, "max_seq_length": 128, "bias_correction": True}
_MINING = {"range_min": 1, "range_max": 30, "margin": 0.05}


def main(arguments):
    del arguments
    medquad, model = app.required("medquad", "init_checkpoint")
    for row in _ROWS.value:
        kind, colon, seed = row.partition(":")
        if kind not in _KINDS or not colon or not seed.isdecimal():
            raise UserError(f"--rows: {row!r} is not KIND:SEED: {nearest(kind, _KINDS)}")
    directory = os.path.abspath(_DIRECTORY.value)
    counts = medquad_parts.write_parts(medquad, directory)
    collections = {"medquad": os.path.join(directory, "collection")}
    if _SQUAD.value:
        collections["squad"] = os.path.join(directory, "squad")
        counts += f"; {medquad_parts.write_squad(_SQUAD.value, collections['squad'])}"
    rows = [f"start:{name}" for name in collections] + _ROWS.value
    if _SQUAD.value:
        rows += [f"squad:{row}" for row in _ROWS.value if row.startswith("trained:")]
    done = results_of(
        rows,
        lambda row: run_row(directory, collections, model, row),
        os.path.join(directory, "table.json"),
        lambda row: settings_of(row, model, [medquad, *filter(None, [_SQUAD.value])]),
        shown=lambda scores: f"nDCG@10 {list(scores.values())[-1]['ndcg@10']['mean']:.4f}",
    )
    print(f"\n{counts}\n" + "\n".join(table(done)))
    print("\nfirst answer of a question: right, about the disease or drug of the question")
    for row in ("start:medquad", *_ROWS.value):
        for name in done[row] if row.startswith("start:") else list(done[row])[-1:]:
            ranking = ranking_files.read(_kept(directory, row, name), known_questions(collections["medquad"]))
            right, alike = medquad_parts.first_answers(medquad, collections["medquad"], ranking)
            print(f"{row}, {os.path.basename(name)}: {right:.3f}, {alike:.3f}")


def known_questions(collection: str) -> list[str]:
    """The names of the questions of a collection.

    Args:
        collection: str. Its folder.
    """
    with open(os.path.join(collection, "queries.jsonl"), encoding="utf-8") as file:
        return [json.loads(line)["_id"] for line in file]


def settings_of(row: str, model: str, paths: list[str]) -> dict:
    """What the figures of a row depend on, beside its kind and seed.

    Args:
        row: str. Name of the row.
        model: str. The model as it is.
        paths: files of data.
    """
    return {
        **{os.path.basename(path): medquad_parts.digest(path) for path in paths},
        "model": model,
        "epochs": _EPOCHS.value,
        "batch": _BATCH.value,
        **_TRAINING,
        **({"negatives": _negatives()} if row.startswith(("mined:", "reranked:")) else {}),
        **({"rerank_count": _RERANKED.value, "epochs": _RERANK_EPOCHS.value} if row.startswith("reranked:") else {}),
    }


def run_row(directory: str, collections: dict[str, str], model: str, row: str) -> dict:
    """Trains the model of a row and scores it beside the rankings that the rows before have kept.

    Args:
        directory: str. Folder of the benchmark.
        collections: dict. Name of a collection -> its folder.
        model: str. The model as it is.
        row: str. start:COLLECTION, KIND:SEED, or squad:trained:SEED.

    Returns:
        dict. The scores of evaluate_search, by ranking.
    """
    kind, _, rest = row.partition(":")
    if kind == "start":
        return _scored(directory, collections[rest], row, {"saved_model": model})
    start = [_kept(directory, "start:squad" if kind == "squad" else "start:medquad", name) for name in ("BM25", model)]
    if kind == "squad":
        workdir = _workdir(directory, rest)
        return _scored(directory, collections["squad"], row, {"saved_model": workdir, "bm25": False}, start)
    workdir, trained = _workdir(directory, row), _workdir(directory, f"trained:{rest}")
    has_trained = storage.is_file(_kept(directory, f"trained:{rest}", trained))
    if kind == "reranked":
        if not has_trained:
            raise UserError(f"--rows: {row} reranks what trained:{rest} finds; give that row before it")
        _train(directory, workdir, model, rest, task="rerank")
        given = {"rerank": workdir, "rerank_count": _RERANKED.value, "bm25": False}
        return _scored(
            directory, collections["medquad"], row, given, [*start, _kept(directory, f"trained:{rest}", trained)]
        )
    if kind == "mined" and has_trained:
        start.append(_kept(directory, f"trained:{rest}", trained))
    _train(directory, workdir, model, rest, task="similarity", is_mined=kind == "mined")
    return _scored(directory, collections["medquad"], row, {"saved_model": workdir, "bm25": False}, start)


def _workdir(directory, row):
    return os.path.join(directory, f"run-{row.replace(':', '-')}")


def _kept(directory, row, name):
    """The file of a ranking that a row has kept."""
    return os.path.join(directory, "rankings", row.replace(":", "-"), ranking_files.file_name(name))


def _train(directory, workdir, model, seed, task, is_mined=False):
    own_commands.run(
        "finetune",
        task=task,
        data_dir=_mined(directory, model) if is_mined or task == "rerank" else os.path.join(directory, "pairs"),
        init_checkpoint=model,
        workdir=workdir,
        num_train_epochs=_RERANK_EPOCHS.value if task == "rerank" else _EPOCHS.value,
        global_batch_size=_BATCH.value,
        seed=seed,
        **_TRAINING,
        # A few questions have many answers. Lists of all of them would need many programs and over 20 GB.
        **({"list_size": _NEGATIVES.value + 1} if task == "rerank" else {}),
    )


def _mined(directory, model):
    """The folder of the pairs with the negatives that the model as it is finds."""
    settings = json.dumps([model, _negatives(), medquad_parts.digest(os.path.join(directory, "pairs", "train.jsonl"))])
    folder = os.path.join(directory, f"mined-{hashlib.sha256(settings.encode()).hexdigest()[:8]}")
    for part in ("train", "dev"):
        output = os.path.join(folder, f"{part}.jsonl")
        if not storage.is_file(output):
            source = os.path.join(directory, "pairs", f"{part}.jsonl")
            own_commands.run("mine_negatives", saved_model=model, input_file=source, output_file=output, **_negatives())
    return folder


def _negatives():
    return {"num_negatives": _NEGATIVES.value, **_MINING}


def _scored(directory, collection, row, given, rankings=()):
    name = row.replace(":", "-")
    output = os.path.join(directory, f"scores-{name}.json")
    own_commands.run(
        "evaluate_search",
        data_dir=collection,
        rankings=",".join(rankings),
        save_rankings=os.path.join(directory, "rankings", name),
        output_file=output,
        overwrite=True,
        **given,
    )
    with open(output, encoding="utf-8") as file:
        return json.load(file)["scores"]


def table(done: dict):
    """Yields the table in Markdown: the last ranking of each row, and its gains over the others.

    Args:
        done: dict. Row -> scores of evaluate_search.
    """
    names = list(next(iter(next(iter(done.values())).values())))
    yield f"| row | {' | '.join(names)} | minus the rankings before it: nDCG@10 |\n|{'---|' * (len(names) + 2)}"
    for row, scores in done.items():
        *others, last = scores
        gains = []
        for other in others:
            gain, (low, high) = scores[other]["ndcg@10"]["gain_of_last"], scores[other]["ndcg@10"]["gain_interval"]
            gains.append(f"{os.path.basename(other)} {gain:+.4f} ({low:+.4f} to {high:+.4f})")
        for name in (others if row.startswith("start:") else []) + [last]:
            means = " | ".join(f"{scores[name][score]['mean']:.4f}" for score in names)
            shown = f"{row}, {os.path.basename(name)}" if row.startswith("start:") else row
            yield f"| {shown} | {means} | {'; '.join(gains) if name == last else ''} |"


if __name__ == "__main__":
    app.run(main, __doc__)
