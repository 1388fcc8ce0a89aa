"""20 Newsgroups: removed text compared with scikit-learn, threads, senders, splits, and the look-up baseline."""

import json
import random
import tarfile

from sklearn.datasets import _twenty_newsgroups

from keras_bert_app.config.finetuning_config import FinetuningConfig
from keras_bert_app.tasks import registry
from keras_bert_app.tasks.readers import newsgroups
from keras_bert_app.tasks.readers.newsgroups import Message
from tests.tasks.texts import read, split, written

_LINES = (
    "",
    "",
    " ",
    "-",
    "--",
    " -- ",
    "- -",
    "\r",
    "--\r",
    "\x0c",
    "\u2028",
    "Some text",
    "> quoted",
    " > kept",
    "| quoted",
    "a > b",
    "In article <1@a> he",
    "as In article",
    "Quoted from him",
    "she writes:",
    "he wrote in vain",
    "he writes in vain",
    "She Wrote: no",
    "we said: so",
    "it says:",
    "From: a@b",
)


def message(text="Body.", subject="Re: The  Thread", sender="A. Name <a@b.c>"):
    return f"From: {sender}\nSubject: {subject}\nLines: 3\n\n{text}"


def news(directory, name, *rows):
    rows = [dict(zip(("id", "label", "text"), row, strict=True)) for row in rows]
    return written(directory, name, "".join(json.dumps(row) + "\n" for row in rows))


def test_headers_footers_and_quotes_are_removed_as_scikit_learn_removes_them():
    generator = random.Random(7)
    pairs = (
        (newsgroups.without_headers, _twenty_newsgroups.strip_newsgroup_header),
        (newsgroups.without_footer, _twenty_newsgroups.strip_newsgroup_footer),
        (newsgroups.without_quotes, _twenty_newsgroups.strip_newsgroup_quoting),
    )
    for size in (0, 1, 2, *generator.choices(range(3, 13), k=2000)):
        text = ours = theirs = "\n".join(generator.choices(_LINES, k=size))
        for own, other in pairs:
            ours, theirs = own(ours), other(theirs)
            assert own(text) == other(text) and ours == theirs, text


def test_a_message_has_the_thread_and_the_address_of_its_headers(tmp_path):
    path = news(
        tmp_path,
        "train.jsonl",
        ("1", "a", message("He writes:\n> one\nTwo.\n\nA. Name")),
        ("2", "b", " path!of!hosts\n" + message("x", "RE: re[2]:Re^3: the thread\n\t<1@d>", '"N" (a@B.c)')),
        ("3", "b", message("x", "Regards: none", "No Address")),
    )
    first, second, third = read("newsgroups", path)
    assert first == Message("1", "Two.", None, "a", f"{path}:1", subject="the thread", sender="a@b.c")
    assert (second.subject, second.sender) == ("the thread", "a@b.c")
    assert (third.subject, third.sender) == ("regards: none", "no address")


def test_empty_texts_are_examples_and_a_text_without_headers_keeps_its_beginning_and_both_are_counted(tmp_path):
    path = news(tmp_path, "test.jsonl", ("1", "a", message("> one\n")), ("2", "b", "One.\n\nTwo.\n\nThree."))
    examples = read("newsgroups", path)
    assert [example.text_a for example in examples] == ["", "One.\n\nTwo."]
    assert examples.remarks == [
        "1 of 2 messages of test.jsonl are empty without headers, quotes and footers",
        "1 of 2 messages of test.jsonl have no headers to remove",
    ]
    assert [example.label for example in read("newsgroups", path, has_labels=False)] == [None, None]


def test_dev_has_whole_threads_of_the_training_file_and_the_classes_come_in_turn(tmp_path):
    for name in ("train", "test"):
        rows = [
            (f"{name}/{number}", "aaab"[number // 30], message(subject=f"{'Re: ' * (number % 2)}T{number % 30}"))
            for number in range(120)
        ]
        news(tmp_path, f"20newsgroups-bydate/{name}.jsonl", *rows)
    train, dev = split("newsgroups", tmp_path, "train"), split("newsgroups", tmp_path, "dev")
    assert {example.subject for example in dev} == {f"t{at}" for at in range(30) if newsgroups._is_dev(f"t{at}")}
    assert len(train) + len(dev) == 120 and not {one.subject for one in train} & {one.subject for one in dev}
    assert "".join(example.label for example in train[:9]) == "ababababa"
    assert len(split("newsgroups", tmp_path / "20newsgroups-bydate", "test")) == 120


def test_the_baseline_looks_up_the_subject_then_the_sender_and_else_takes_the_most_frequent_class():
    def mail(subject, sender, label=None):
        return Message("", "", None, label, "", subject=subject, sender=sender)

    known = [mail("s", "x", "a"), mail("s", "x", "a"), mail("s", "y", "b"), mail("t", "y", "c"), mail("u", "z", "b")]
    known += [mail("", "", "b")]
    queries = [mail("s", "y"), mail("new", "y"), mail("new", "z"), mail("new", "new"), mail("", "")]
    what, answers = newsgroups.look_up(registry.find("newsgroups"), known, queries, ("a", "b", "c"))
    assert what == "most frequent class of messages with the same subject, or else the same sender"
    # Sender y wrote one message of class b and one of class c.
    assert [one["label"] for one in answers] == ["a", "b", "b", "b", "b"]
    assert answers[0]["probabilities"] == {"a": 2 / 3, "b": 1 / 3, "c": 0.0}
    assert answers[1]["probabilities"] == {"a": 0.0, "b": 0.5, "c": 0.5}
    assert registry.find("newsgroups").baseline is newsgroups.look_up


def test_the_real_newsgroups_have_the_known_counts_and_the_known_score_of_the_baseline(shared, tmp_path):
    with tarfile.open(shared / "data" / "tasks" / "20newsgroups-bydate.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    run, task = FinetuningConfig(), registry.find("newsgroups")
    everything = task.read_file(str(tmp_path / "20newsgroups-bydate" / "train.jsonl"), run)
    train, dev = (task.part(which, everything, run) for which in ("train", "dev"))
    test = task.read_split(str(tmp_path), "test", run)
    assert (len(train), len(dev), len(test)) == (10_075, 1239, 7532)
    assert [sum(not one.text_a.strip() for one in part) for part in (everything, test)] == [300, 215]
    labels = task.family.label_names(task, dev, run)
    assert len(labels) == 20
    _, answers = task.baseline(task, everything, test, labels)
    assert round(task.family.score(task, test, answers, labels)["accuracy"], 4) == 0.5903
