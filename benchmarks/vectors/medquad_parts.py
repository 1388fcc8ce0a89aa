"""The data of MedQuAD's benchmark: pairs for training and dev, and collections in BEIR's layout."""

import collections
import hashlib
import json
import os

from keras_bert_app.errors import UserError
from pipelines import storage


def digest(path: str) -> str:
    """The beginning of a file's SHA-256, in hexadecimal digits.

    Args:
        path: str. The file.
    """
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]


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
    rows = _records(medquad)
    if not rows:
        raise UserError(f"--medquad={medquad}: is empty; expected lines with focus, question and answer")
    names = {}  # answer -> its name
    for row in rows:
        names.setdefault(row["answer"], f"d{len(names)}")
    parts = {part: [row for row in rows if part_of(row["focus"]) == part] for part in ("train", "dev", "test")}
    # Some answers stand at several diseases. A question of the test is left out if another part has its words or one of
    # its answers.
    others = [row for part in ("train", "dev") for row in parts[part]]
    taught = {row["answer"] for row in others}
    known = {row["question"] for row in others} | {r["question"] for r in parts["test"] if r["answer"] in taught}
    pairs = {part: {(row["question"], row["answer"]) for row in parts[part]} for part in ("train", "dev")}
    storage.make_directories(os.path.join(directory, "pairs"))
    for part, of_part in pairs.items():
        records = ({"question": question, "answer": answer} for question, answer in sorted(of_part))
        _write_lines(os.path.join(directory, "pairs"), f"{part}.jsonl", records)
    asked = sorted({row["question"] for row in parts["test"]} - known)
    numbers = {question: f"q{number}" for number, question in enumerate(asked)}
    grades = {(numbers[r["question"]], names[r["answer"]]) for r in parts["test"] if r["question"] in numbers}
    texts, queries = ({name: text for text, name in group.items()} for group in (names, numbers))
    _write_collection(os.path.join(directory, "collection"), texts, queries, grades)
    counts = ", ".join(f"{len(of_part):,} pairs of {part}" for part, of_part in pairs.items())
    return f"{counts}; {len(numbers):,} questions of the test, {len(names):,} answers to search"


def first_answers(medquad: str, collection: str, ranking: dict[str, list[str]]) -> tuple[float, float]:
    """What share of questions has a right first answer, and what share one about the disease of the question.

    Args:
        medquad: str. Path of MedQuAD.
        collection: str. Folder of the collection that write_parts wrote.
        ranking: dict name of a question -> names of answers, the best first.
    """
    topics = collections.defaultdict(set)
    for row in _records(medquad):
        for text in (row["question"], row["answer"]):
            topics[text].add(" ".join(row["focus"].split()).casefold())
    answers, questions = (
        {row["_id"]: topics[row["text"]] for row in _records(os.path.join(collection, name))}
        for name in ("corpus.jsonl", "queries.jsonl")
    )
    with open(os.path.join(collection, "qrels", "test.tsv"), encoding="utf-8") as file:
        right = {tuple(line.split("\t")[:2]) for line in file}
    firsts = {question: names[0] for question, names in ranking.items() if names}
    num_right = sum((question, name) in right for question, name in firsts.items())
    num_alike = sum(bool(answers[name] & questions[question]) for question, name in firsts.items())
    return num_right / len(questions), num_alike / len(questions)


def _records(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def _write_lines(directory, name, records):
    text = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
    storage.write_whole(os.path.join(directory, name), text)


def _write_collection(directory, texts, queries, grades):
    """Writes a collection in BEIR's layout: texts and queries by their names, grades as pairs of names."""
    storage.make_directories(os.path.join(directory, "qrels"))
    _write_lines(directory, "corpus.jsonl", ({"_id": name, "text": text} for name, text in texts.items()))
    _write_lines(directory, "queries.jsonl", ({"_id": name, "text": text} for name, text in queries.items()))
    lines = "".join(f"{query}\t{text}\t1\n" for query, text in sorted(grades))
    storage.write_whole(os.path.join(directory, "qrels", "test.tsv"), f"query-id\tcorpus-id\tscore\n{lines}")


def write_squad(path: str, directory: str) -> str:
    """Writes the collection of SQuAD: which paragraph does a question belong to?

    Args:
        path: str. A file of SQuAD, 1.1 or 2.0; questions without an answer do not count.
        directory: str. Folder of the collection.

    Returns:
        A line with the numbers of paragraphs and questions.
    """
    with open(path, encoding="utf-8") as file:
        paragraphs = [paragraph for article in json.load(file)["data"] for paragraph in article["paragraphs"]]
    names, asked = {}, {}
    for paragraph in paragraphs:
        name = names.setdefault(paragraph["context"], f"d{len(names)}")
        for question in paragraph["qas"]:
            if not question.get("is_impossible"):
                asked.setdefault(question["question"].strip(), set()).add(name)
    queries = {f"q{number}": question for number, question in enumerate(asked)}
    grades = {(query, name) for query, question in queries.items() for name in asked[question]}
    _write_collection(directory, {name: text for text, name in names.items()}, queries, grades)
    return f"SQuAD: {len(queries):,} questions, {len(names):,} paragraphs to search"
