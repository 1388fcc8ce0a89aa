"""Search of answers for medical questions: BM25, a model as it is, and the model trained on other questions.

python -m benchmarks.vectors.medquad_search --medquad=medquad.jsonl --init_checkpoint=MINILM --directory=runs/medquad

MedQuAD has questions and answers about diseases and drugs ("focus"). A hash of the focus divides them: eight tenths
train, one tenth chooses the weights, and one tenth is scored. The answers of all parts are the texts that are searched.
A run that was stopped continues.
"""

import hashlib
import json
import os

from absl import flags

from benchmarks.common import own_commands
from benchmarks.common.resumable import results_of
from keras_bert_app.cli.common import app
from pipelines import storage

_MEDQUAD = flags.DEFINE_string("medquad", "", "medquad.jsonl, with focus, question and answer in each line.")
_MODEL = flags.DEFINE_string("init_checkpoint", "", "The model as it is, such as all-MiniLM-L6-v2.")
_DIRECTORY = flags.DEFINE_string("directory", "runs/medquad", "Where collections, runs and tables go.")
_SEEDS = flags.DEFINE_list("seeds", ["1", "2", "3"], "Seeds of the trained model.")
_EPOCHS = flags.DEFINE_float("num_train_epochs", 1.0, "Epochs of each run.")
_BATCH = flags.DEFINE_integer("global_batch_size", 64, "Pairs of a batch.")
_TRAINING = {"learning_rate": 5e-5, "max_seq_length": 128, "bias_correction": True}


def main(arguments):
    del arguments
    medquad, model = app.required("medquad", "init_checkpoint")
    directory = os.path.abspath(_DIRECTORY.value)
    rows = write_parts(medquad, directory)
    done = results_of(
        [f"seed {seed}" for seed in _SEEDS.value],
        lambda row: run_seed(directory, model, row.split()[1]),
        os.path.join(directory, "table.json"),
        {"model": model, "epochs": _EPOCHS.value, "batch": _BATCH.value, **_TRAINING},
        shown=lambda scores: f"nDCG@10 {list(scores.values())[-1]['ndcg@10']['mean']:.4f}",
    )
    print(f"\n{rows}\n" + "\n".join(table(done)))


def part_of(focus: str) -> str:
    """train, dev or test, by a hash of what a question is about.

    Args:
        focus: str. A disease or a drug, in any case.
    """
    number = hashlib.sha256(" ".join(focus.split()).casefold().encode()).digest()[0] % 10
    return {0: "test", 1: "dev"}.get(number, "train")


def write_parts(medquad: str, directory: str) -> str:
    """Writes the pairs for training and dev, and the collection of the test.

    Args:
        medquad: str. Path of MedQuAD.
        directory: str. Folder of the benchmark.

    Returns:
        A line with the numbers of pairs, answers and questions.
    """
    with open(medquad, encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    names = {}  # answer -> its name
    for row in rows:
        names.setdefault(row["answer"], f"d{len(names)}")
    # A question of the test that another part has in the same words would be known.
    parts = {part: [row for row in rows if part_of(row["focus"]) == part] for part in ("train", "dev", "test")}
    known = {row["question"] for part in ("train", "dev") for row in parts[part]}
    pairs = {part: {(row["question"], row["answer"]) for row in parts[part]} for part in ("train", "dev")}
    collection = os.path.join(directory, "collection")
    storage.make_directories(os.path.join(collection, "qrels"))
    for part, of_part in pairs.items():
        _write_lines(directory, f"{part}.jsonl", ({"question": q, "answer": a} for q, a in sorted(of_part)))
    _write_lines(collection, "corpus.jsonl", ({"_id": name, "text": answer} for answer, name in names.items()))
    asked = sorted({row["question"] for row in parts["test"]} - known)
    numbers = {question: f"q{number}" for number, question in enumerate(asked)}
    _write_lines(collection, "queries.jsonl", ({"_id": name, "text": text} for text, name in numbers.items()))
    grades = {(numbers[r["question"]], names[r["answer"]]) for r in parts["test"] if r["question"] in numbers}
    lines = "".join(f"{query}\t{text}\t1\n" for query, text in sorted(grades))
    storage.write_whole(os.path.join(collection, "qrels", "test.tsv"), f"query-id\tcorpus-id\tscore\n{lines}")
    counts = ", ".join(f"{len(of_part):,} pairs of {part}" for part, of_part in pairs.items())
    return f"{counts}; {len(numbers):,} questions of the test, {len(names):,} answers to search"


def _write_lines(directory, name, records):
    text = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
    storage.write_whole(os.path.join(directory, name), text)


def run_seed(directory: str, model: str, seed: str) -> dict:
    """Trains the model and scores it beside BM25 and the model as it is.

    Args:
        directory: str. Folder of the benchmark.
        model: str. The model as it is.
        seed: str. Seed of the run.

    Returns:
        dict. The scores of evaluate_search, by ranking.
    """
    workdir, scores = (os.path.join(directory, f"{name}-{seed}") for name in ("run", "scores"))
    own_commands.run(
        "finetune",
        task="similarity",
        data_dir=directory,
        init_checkpoint=model,
        workdir=workdir,
        num_train_epochs=_EPOCHS.value,
        global_batch_size=_BATCH.value,
        seed=seed,
        **_TRAINING,
    )
    collection = os.path.join(directory, "collection")
    own_commands.run(
        "evaluate_search",
        data_dir=collection,
        saved_model=workdir,
        baseline=model,
        output_file=f"{scores}.json",
        overwrite=True,
    )
    with open(f"{scores}.json", encoding="utf-8") as file:
        return json.load(file)["scores"]


def table(done: dict):
    """Yields the table in Markdown: the scores of each ranking, and the trained model's gains.

    Args:
        done: dict. Row -> scores of evaluate_search.
    """
    names = list(next(iter(next(iter(done.values())).values())))
    yield f"| ranking | {' | '.join(names)} |\n|{'---|' * (len(names) + 1)}"
    for number, (row, scores) in enumerate(done.items()):
        rankings = dict(zip(("BM25", "as it is", f"trained, {row}"), scores.values(), strict=True))
        for name, figures in rankings.items():
            if not number or name.startswith("trained"):
                means = (f"{figures[score]['mean']:.4f}" for score in names)
                yield f"| {name} | {' | '.join(means)} |"
    for row, scores in done.items():
        for name, figures in zip(("BM25", "as it is"), scores.values(), strict=False):
            gain, (low, high) = figures["ndcg@10"]["gain_of_last"], figures["ndcg@10"]["gain_interval"]
            yield f"| trained, {row}, minus {name}: nDCG@10 | {gain:+.4f} ({low:+.4f} to {high:+.4f}) |"


if __name__ == "__main__":
    app.run(main, __doc__)
