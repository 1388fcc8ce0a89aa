"""Reuters-21578: documents, splits, and the sizes of the real archive."""

import tarfile

import pytest

from keras_bert_app.config.finetuning_config import FinetuningConfig
from keras_bert_app.errors import UserError
from keras_bert_app.tasks import registry
from keras_bert_app.tasks.readers import reuters
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


def test_entities_become_characters_and_texts_without_title_and_body_are_read_whole(tmp_path):
    path = sgm(
        tmp_path,
        "reut2-000.sgm",
        document(1, text="<TEXT><TITLE>A &lt;B> &amp; C</TITLE></TEXT>"),
        document(2, text='<TEXT TYPE="UNPROC">&#2;\nAll\nof <X>it\n</TEXT>'),
        document(3, text='<TEXT TYPE="BRIEF"></TEXT>'),
    )
    assert [example.text_a for example in read("reuters", path)] == ["A <B> & C", "All of it", ""]


def test_a_byte_that_is_not_utf8_is_read_as_latin_1(tmp_path):
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


def titled(number, title, body, lewis="TRAIN"):
    return document(number, lewis=lewis, text=f"<TEXT><TITLE>{title}</TITLE><BODY>{body}</BODY></TEXT>")


def test_training_documents_with_the_same_beginning_are_in_one_part_across_all_files(tmp_path):
    pairs = [f"{a}{b}" for a in "abcdef" for b in "abcdefghij"]
    lead = " ".join("abcdefghijklmno")
    first = [titled(f"1{at:02}", f"Shr {word} {at}", f"One {word}.") for at, word in enumerate(pairs[:30])]
    first += [titled(f"1{at:02}", f"A {word}", f"{lead} {word} 5 so") for at, word in enumerate(pairs[30:], 30)]
    again = [titled(f"2{at:02}", f"SHR {word.upper()}", f"Two {word}.") for at, word in enumerate(pairs[:30])]
    again += [titled(f"2{at:02}", f"B {word}", f"{lead} {word} 6 no") for at, word in enumerate(pairs[30:], 30)]
    sgm(tmp_path, "reut2-000.sgm", *first, document(300, ("gold",)), titled(99, "Shr aa", "One aa.", "TEST"))
    sgm(tmp_path, "reut2-001.sgm", *again)
    dev, train, test = (
        [example.guid for example in split("reuters", tmp_path, which)] for which in ("dev", "train", "test")
    )
    assert test == ["99"] and len(dev) == 12 and len(train) == 109
    assert sorted({guid[1:] for guid in dev} | {guid[1:] for guid in train}) == [f"{at:02}" for at in range(60)]
    assert not {guid[1:] for guid in dev} & {guid[1:] for guid in train if guid != "300"}
    assert "300" in train  # the only document of topic gold


def test_numbers_are_no_part_of_the_beginning_of_a_document(tmp_path):
    assert reuters._beginnings("1,234\n5 6") == set() and reuters._beginnings("") == set()
    assert reuters._beginnings("A 1 b\n2 A b") == {(0, "a b"), (1, "a b")}


@pytest.mark.parametrize(
    "content, message",
    [
        ("text\n", ":1: has no document; expected a reut2-*.sgm of Reuters-21578"),
        (
            "<!DOCTYPE>\n" + document(1) + document(2)[:-20],
            ":11: is not a whole document of Reuters-21578; extract the file again",
        ),
        (
            "<!DOCTYPE>\n" + document(1).replace("NEWID", "ID") + document(2),
            ":2: is not a whole document of Reuters-21578; extract the file again",
        ),
    ],
)
def test_an_incomplete_or_foreign_file_is_named_by_file_and_line(tmp_path, content, message):
    path = written(tmp_path, "reut2-000.sgm", content)
    with pytest.raises(UserError) as error:
        read("reuters", path)
    assert str(error.value) == path + message


def extracted(shared, name, directory):
    with tarfile.open(shared / "data" / "tasks" / name) as archive:
        archive.extractall(directory, filter="data")
    return str(directory)


def test_the_real_reuters_has_the_counts_and_topics_of_its_modapte_split(shared, tmp_path):
    directory, task = extracted(shared, "reuters21578.tar.xz", tmp_path), registry.find("reuters")
    everything = task.read_file(f"{directory}/reuters21578/reut2-*.sgm", FinetuningConfig())
    by_group = {group: [example for example in everything if example.group == group] for group in ("train", "test")}
    assert len(by_group["train"]) == 7770 and len(by_group["test"]) == 3019 and len(everything) == 10_789
    # Each of the 90 topics has a document in both parts of the split.
    for examples in by_group.values():
        assert {label for example in examples for label in example.label} == set(reuters.REUTERS_TOPICS)
    assert len(reuters.REUTERS_TOPICS) == 90 and all(example.text_a for example in everything)
    dev, train, test = (task.part(which, everything, None) for which in ("dev", "train", "test"))
    assert (len(train), len(dev), len(test)) == (6997, 773, 3019)
    assert not {example.text_a for example in dev} & {example.text_a for example in train}
