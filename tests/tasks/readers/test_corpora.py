"""Reuters-21578 and 20 Newsgroups: documents, splits, and the sizes of the real archives."""

import json
import tarfile

import pytest

from keras_bert_app.config.finetuning_config import FinetuningConfig
from keras_bert_app.errors import UserError
from keras_bert_app.tasks import registry
from keras_bert_app.tasks.readers import corpora
from tests.tasks.texts import read, split, written


def document(number, topics=("earn",), lewis="TRAIN", has_topics="YES", text=None):
    text = text or (
        f"<TEXT>&#2;\n<TITLE>TITLE {number}</TITLE>\n<DATELINE>HERE - </DATELINE><BODY>Body\nof {number}."
        "\n&#3;</BODY></TEXT>"
    )
    return (
        f'<REUTERS TOPICS="{has_topics}" LEWISSPLIT="{lewis}" CGISPLIT="X" OLDID="5" NEWID="{number}">\n'
        f"<TOPICS>{''.join(f'<D>{topic}</D>' for topic in topics)}</TOPICS>\n<PLACES><D>usa</D></PLACES>\n{text}\n"
        "</REUTERS>\n"
    )


def sgm(directory, name, *documents):
    return written(directory, name, '<!DOCTYPE lewis SYSTEM "lewis.dtd">\n' + "".join(documents))


def test_a_document_is_title_and_body_with_its_topics(tmp_path):
    path = sgm(tmp_path, "reut2-000.sgm", document(7, ("wheat", "grain", "wheat")), document(8))
    first, second = read("reuters", path)
    assert (first.guid, first.text_a, first.label, first.group) == (
        "7",
        "TITLE 7\nBody of 7.",
        ("grain", "wheat"),
        "train",
    )
    assert first.place == f"{path}:2" and second.place == f"{path}:11"


def test_entities_are_characters_and_texts_without_parts_are_read_whole(tmp_path):
    path = sgm(
        tmp_path,
        "reut2-000.sgm",
        document(1, text="<TEXT><TITLE>A &lt;B> &amp; C</TITLE></TEXT>"),
        document(2, text='<TEXT TYPE="UNPROC">&#2;\nAll\nof <X>it\n</TEXT>'),
        document(3, text='<TEXT TYPE="BRIEF"></TEXT>'),
    )
    assert [example.text_a for example in read("reuters", path)] == ["A <B> & C", "All of it", ""]


def test_a_byte_that_is_no_utf8_is_a_character(tmp_path):
    content = document(1, text="<TEXT><TITLE>?</TITLE></TEXT>").encode().replace(b"?", b"\xfc")
    path = written(tmp_path, "reut2-017.sgm", content)
    assert read("reuters", path)[0].text_a == "\xfc"


def test_only_documents_of_the_split_with_one_of_the_topics_are_examples_but_all_are_answered(tmp_path):
    path = sgm(
        tmp_path,
        "reut2-000.sgm",
        document(1),
        document(2, lewis="NOT-USED"),
        document(3, has_topics="NO"),
        document(4, has_topics="BYPASS"),
        document(5, topics=()),
        document(6, topics=("tapioca",)),
        document(7, topics=("tapioca", "gold"), lewis="TEST"),
    )
    assert [(example.guid, example.label, example.group) for example in read("reuters", path)] == [
        ("1", ("earn",), "train"),
        ("7", ("gold",), "test"),
    ]
    assert [example.guid for example in read("reuters", path, has_labels=False)] == list("1234567")


def test_every_tenth_training_document_over_all_files_is_dev(tmp_path):
    sgm(tmp_path, "reut2-000.sgm", *(document(number) for number in range(13)), document(99, lewis="TEST"))
    sgm(tmp_path, "reut2-001.sgm", *(document(number) for number in range(13, 23)))
    assert [example.guid for example in split("reuters", tmp_path, "dev")] == ["9", "19"]
    assert [example.guid for example in split("reuters", tmp_path, "train")] == [
        str(number) for number in range(23) if number not in (9, 19)
    ]
    assert [example.guid for example in split("reuters", tmp_path, "test")] == ["99"]


@pytest.mark.parametrize(
    "content, message",
    [
        ("text\n", ":1: has no document; expected a reut2-*.sgm of Reuters-21578"),
        (
            "<!DOCTYPE>\n" + document(1) + document(2)[:-20],
            ":11: is no whole document of Reuters-21578; extract the file again",
        ),
        (
            "<!DOCTYPE>\n" + document(1).replace("NEWID", "ID") + document(2),
            ":2: is no whole document of Reuters-21578; extract the file again",
        ),
    ],
)
def test_an_incomplete_or_foreign_file_is_named_by_file_and_line(tmp_path, content, message):
    path = written(tmp_path, "reut2-000.sgm", content)
    with pytest.raises(UserError) as error:
        read("reuters", path)
    assert str(error.value) == path + message


def test_newsgroups_are_found_in_their_archives_directory_and_every_tenth_is_dev(tmp_path):
    for name in ("train", "test"):
        rows = [
            {"id": f"{name}/{number}", "label": "ab"[number % 2], "text": f"From: {number}"} for number in range(11)
        ]
        written(tmp_path, f"20newsgroups-bydate/{name}.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    (dev,) = split("newsgroups", tmp_path, "dev")
    assert (dev.guid, dev.text_a, dev.label) == ("train/9", "From: 9", "b")
    assert len(split("newsgroups", tmp_path, "train")) == 10
    assert len(split("newsgroups", tmp_path / "20newsgroups-bydate", "test")) == 11


def test_the_first_newsgroups_are_of_all_classes_though_the_file_has_one_after_the_other(tmp_path):
    rows = [{"id": str(number), "label": "aaaaabbbcc"[number], "text": ""} for number in range(10)]
    written(tmp_path, "test.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    assert "".join(example.label for example in split("newsgroups", tmp_path, "test")) == "abcabcabaa"


def extracted(shared, name, directory):
    with tarfile.open(shared / "data" / "tasks" / name) as archive:
        archive.extractall(directory, filter="data")
    return str(directory)


def test_the_real_reuters_has_the_counts_and_topics_of_its_modapte_split(shared, tmp_path):
    directory, task = extracted(shared, "reuters21578.tar.xz", tmp_path), registry.find("reuters")
    everything = task.read_file(f"{directory}/reuters21578/reut2-*.sgm", FinetuningConfig())
    by_group = {group: [example for example in everything if example.group == group] for group in ("train", "test")}
    assert len(by_group["train"]) == 7770 and len(by_group["test"]) == 3019 and len(everything) == 10_789
    # Each of the 90 topics has a document on both sides.
    for examples in by_group.values():
        assert {label for example in examples for label in example.label} == set(corpora.REUTERS_TOPICS)
    assert len(corpora.REUTERS_TOPICS) == 90 and all(example.text_a for example in everything)
    assert len(task.part("dev", everything, None)) == 777 and len(task.part("train", everything, None)) == 6993


def test_the_real_newsgroups_have_their_counts(shared, tmp_path):
    directory, task = extracted(shared, "20newsgroups-bydate.tar.xz", tmp_path), registry.find("newsgroups")
    train, dev, test = (task.read_split(directory, which, FinetuningConfig()) for which in ("train", "dev", "test"))
    assert (len(train), len(dev), len(test)) == (10_183, 1131, 7532)
    assert len(task.family.label_names(task, dev, None)) == 20
