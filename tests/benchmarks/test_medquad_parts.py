"""The parts of MedQuAD's benchmark: nothing of the scored part is known from training."""

import json

import pytest

from benchmarks.vectors import medquad_parts


@pytest.fixture
def written(tmp_path):
    """(folder, line of counts) of parts whose diseases share one answer."""
    focuses = {part: [] for part in ("train", "dev", "test")}
    for number in range(200):
        focuses[medquad_parts.part_of(f"disease {number}")].append(f"disease {number}")
    rows = [
        {"focus": focus, "question": f"What is {focus} ?", "answer": f"{focus} is rare."}
        for part in focuses.values()
        for focus in part
    ]
    shared = (focuses["train"][0], focuses["test"][0])
    rows += [{"focus": focus, "question": f"Is {focus} inherited ?", "answer": "It is."} for focus in shared]
    (tmp_path / "medquad.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path, medquad_parts.write_parts(str(tmp_path / "medquad.jsonl"), str(tmp_path / "parts")), focuses


def read(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_scored_question_has_no_answer_of_another_part(written):
    folder, _, focuses = written
    queries = {row["text"] for row in read(folder / "parts" / "collection" / "queries.jsonl")}
    assert queries == {f"What is {focus} ?" for focus in focuses["test"]}  # "Is ... inherited ?" has a known answer
    texts = {row["_id"]: row["text"] for row in read(folder / "parts" / "collection" / "corpus.jsonl")}
    assert len(texts) == 201 and "It is." in texts.values()
    taught = {row["answer"] for part in ("train", "dev") for row in read(folder / "parts" / "pairs" / f"{part}.jsonl")}
    lines = (folder / "parts" / "collection" / "qrels" / "test.tsv").read_text().splitlines()[1:]
    assert len(lines) == len(queries) and not taught & {texts[line.split("\t")[1]] for line in lines}


def test_the_pairs_of_training_and_dev_are_those_of_their_diseases(written):
    folder, counts, focuses = written
    for part in ("train", "dev"):
        questions = {row["question"] for row in read(folder / "parts" / "pairs" / f"{part}.jsonl")}
        assert {f"What is {focus} ?" for focus in focuses[part]} <= questions
        assert not any(f"What is {focus} ?" in questions for focus in focuses["test"])
    assert f"{len(focuses['test'])} questions of the test, 201 answers to search" in counts


def test_first_answers_are_right_or_at_least_about_the_disease(written):
    folder, _, focuses = written
    collection = folder / "parts" / "collection"
    answers = {row["text"]: row["_id"] for row in read(collection / "corpus.jsonl")}
    names = {row["text"]: row["_id"] for row in read(collection / "queries.jsonl")}
    right, related, unrelated, *_ = focuses["test"][:1] + focuses["test"][:1] + focuses["test"][1:]
    ranking = {names[f"What is {right} ?"]: [answers[f"{right} is rare."], answers["It is."]]}
    share = 1 / len(names)
    score = medquad_parts.first_answers(str(folder / "medquad.jsonl"), str(collection), ranking)
    assert score == (share, share)
    ranking = {names[f"What is {related} ?"]: [answers["It is."]], names[f"What is {unrelated} ?"]: [answers["It is."]]}
    score = medquad_parts.first_answers(str(folder / "medquad.jsonl"), str(collection), ranking)
    assert score == (0.0, share)
