import json
import os
import re
import shutil

import pytest
import tensorflow as tf

from pipelines.corpus import corpus_reading, corpus_tasks, fingerprints, shards, spool
from pipelines.corpus.preparation import load_manifest, prepare_corpus, shard_paths
from pipelines.data_error import DataError
from pipelines.text import readers, text_formats


def make_documents(number, sentences=5):
    return [[f"Sentence {j} of document {i}." for j in range(sentences)] for i in range(number)]


def read_split(directory, split):
    """Returns the documents of each shard, in the order of the shards."""
    manifest = load_manifest(str(directory))
    return [
        [record.numpy().decode().split("\n") for record in tf.data.TFRecordDataset(path)]
        for path in shard_paths(str(directory), manifest, split)
    ]


def contents(directory):
    return {name: (directory / name).read_bytes() for name in os.listdir(directory)}


def test_every_document_lands_in_exactly_one_split(tmp_path):
    documents = make_documents(700)
    manifest = prepare_corpus(str(tmp_path), documents=documents, holdout_fraction=0.1, num_shards=3)
    train, heldout = sum(read_split(tmp_path, "train"), []), sum(read_split(tmp_path, "heldout"), [])
    assert sorted(train + heldout) == sorted(documents)
    assert 30 < len(heldout) < 130
    assert manifest["train"]["documents"] == len(train)
    assert manifest["heldout"]["sentences"] == 5 * len(heldout)
    assert manifest["train"]["words"] == 5 * 6 * len(train)  # five words and a full stop
    assert manifest == load_manifest(str(tmp_path))


def test_shards_hold_equally_many_documents_in_shuffled_order(tmp_path):
    documents = make_documents(100)
    prepare_corpus(str(tmp_path), documents=documents, holdout_fraction=0, num_shards=3)
    shards = read_split(tmp_path, "train")
    assert [len(shard) for shard in shards] == [33, 33, 34]
    order = [documents.index(document) for shard in shards for document in shard]
    neighbours = sum(abs(a - b) == 1 for a, b in zip(order, order[1:], strict=False))
    assert neighbours < 15 and sorted(order) == list(range(100))


@pytest.mark.parametrize("asked, documents, expected", [(40, 40, 20), (9, 5, 2), (3, 1, 1), (20, 40, 20)])
def test_each_shard_has_two_documents_however_many_shards_are_asked_for(tmp_path, asked, documents, expected):
    lines = []
    manifest = prepare_corpus(
        str(tmp_path), documents=make_documents(documents), holdout_fraction=0, num_shards=asked, log=lines.append
    )
    assert len(manifest["train"]["shards"]) == expected
    assert min(shard["documents"] for shard in manifest["train"]["shards"]) >= min(2, documents)
    message = f"num_shards is {expected} instead of {asked}, so that each shard has at least two documents"
    assert (message in lines) == (asked != expected)


def test_the_same_seed_gives_the_same_bytes_and_another_seed_gives_other_bytes(tmp_path):
    for name, seed in (("a", 5), ("b", 5), ("c", 6)):
        prepare_corpus(str(tmp_path / name), documents=make_documents(90), seed=seed, num_shards=2)
    assert contents(tmp_path / "a") == contents(tmp_path / "b")
    shard = "train-00000-of-00002.tfrecord"
    assert contents(tmp_path / "a")[shard] != contents(tmp_path / "c")[shard]


def test_a_corpus_larger_than_the_buffers_gives_the_same_bytes(tmp_path, monkeypatch):
    prepare_corpus(str(tmp_path / "a"), documents=make_documents(90), holdout_fraction=0.3)
    monkeypatch.setattr(corpus_tasks, "_RUN_BYTES", 1000)
    monkeypatch.setattr(corpus_reading, "_BATCH_BYTES", 300)
    monkeypatch.setattr(fingerprints, "_BLOCK_BYTES", 100)
    monkeypatch.setattr(spool, "_RANGE_BYTES", 500)
    monkeypatch.setattr(spool, "_SLICE_BYTES", 10)
    prepare_corpus(str(tmp_path / "b"), documents=make_documents(90), holdout_fraction=0.3)
    assert contents(tmp_path / "a") == contents(tmp_path / "b")


def test_documents_equal_up_to_white_space_are_dropped_and_counted(tmp_path):
    documents = make_documents(20) + [["  Sentence 0  of\tdocument 3. ", *make_documents(4)[3][1:]]]
    manifest = prepare_corpus(str(tmp_path / "a"), documents=documents + documents[:4], holdout_fraction=0.2)
    assert manifest["counts"]["duplicates"] == 5
    assert manifest["train"]["documents"] + manifest["heldout"]["documents"] == 20
    kept = prepare_corpus(str(tmp_path / "b"), documents=documents, dedup="none", holdout_fraction=0)
    assert (kept["counts"]["duplicates"], kept["train"]["documents"]) == (0, 21)


def test_no_held_out_sentence_stands_in_a_training_document(tmp_path):
    documents = [[f"Own {i}.", f"Own too {i}.", "Boilerplate."] for i in range(200)]
    documents += [[f"Single {i}.", "Boilerplate."] for i in range(200)]
    manifest = prepare_corpus(str(tmp_path), documents=documents, holdout_fraction=0.2)
    train = {s for document in sum(read_split(tmp_path, "train"), []) for s in document}
    heldout = sum(read_split(tmp_path, "heldout"), [])
    assert heldout and not train.intersection(sum(heldout, []))
    assert all(len(document) == 2 for document in heldout)
    counts = manifest["counts"]
    assert counts["heldout_documents_dropped"] == 400 - len(heldout) - manifest["train"]["documents"]
    assert counts["heldout_sentences_dropped"] == len(heldout) + counts["heldout_documents_dropped"]


def parts_by_source(directory, split):
    """Counts the documents of each source in a split. Every document contains the name of its source."""
    names = [re.search(r"article\d\d", " ".join(text))[0] for text in sum(read_split(directory, split), [])]
    return {name: names.count(name) for name in names}


def check_whole_sources(directory, num_documents):
    train, heldout = (parts_by_source(directory, split) for split in ("train", "heldout"))
    assert len(train) > 10 and len(heldout) > 10 and not train.keys() & heldout.keys()
    assert sum(train.values()) + sum(heldout.values()) == num_documents


@pytest.mark.parametrize("input_format", ["documents", "sentences", "jsonl"])
def test_the_parts_of_a_document_above_the_limit_are_held_out_together(tmp_path, monkeypatch, input_format):
    monkeypatch.setattr(readers, "MAX_DOCUMENT_BYTES", 300)
    monkeypatch.setattr(readers, "_BATCH_BYTES", 700)
    monkeypatch.setattr(text_formats, "MAX_LINE_BYTES", 60)
    articles = [[f"Line {line} says its own of article{i:02}." for line in range(30)] for i in range(40)]
    if input_format == "jsonl":
        text = "".join(json.dumps({"text": "\n".join(article)}) + "\n" for article in articles)
    elif input_format == "sentences":
        text = "".join("\n".join(article) + "\n\n" for article in articles)
    else:
        text = "".join(" ".join(article) + "\n" for article in articles)
    (tmp_path / "a.txt").write_text(text)
    manifest = prepare_corpus(
        str(tmp_path / "out"),
        input_files=[str(tmp_path / "a.txt")],
        input_format=input_format,
        holdout_fraction=0.5,
        dedup="none",
    )
    assert manifest["counts"]["capped_documents"] >= 3 * 40
    check_whole_sources(tmp_path / "out", manifest["counts"]["documents"])


def test_the_documents_of_one_source_are_held_out_together_and_single_documents_one_by_one(tmp_path):
    sources = [[[f"Own {part} of article{i:02}", f"And {part} of {i}"] for part in range(4)] for i in range(50)]
    manifest = prepare_corpus(str(tmp_path / "a"), sources=iter(sources), holdout_fraction=0.5)
    assert manifest["counts"]["documents"] == 200
    check_whole_sources(tmp_path / "a", 200)
    documents = sum(sources, [])
    prepare_corpus(str(tmp_path / "b"), documents=documents, holdout_fraction=0.5)
    prepare_corpus(str(tmp_path / "c"), sources=[[document] for document in documents], holdout_fraction=0.5)
    assert contents(tmp_path / "b") == contents(tmp_path / "c")
    assert parts_by_source(tmp_path / "b", "train").keys() & parts_by_source(tmp_path / "b", "heldout").keys()


def test_newlines_in_sentences_become_spaces_and_empty_sentences_are_dropped(tmp_path):
    prepare_corpus(str(tmp_path), documents=[["a\nb", " ", "c \ud800"], [""]], holdout_fraction=0)
    assert read_split(tmp_path, "train") == [[["a b", "c \ufffd"]]]


def test_documents_of_one_sentence_are_kept_for_training(tmp_path):
    prepare_corpus(str(tmp_path), documents=[["Alone."], ["One.", "Two."]], holdout_fraction=0)
    assert sorted(read_split(tmp_path, "train")[0]) == [["Alone."], ["One.", "Two."]]


@pytest.mark.parametrize("seed", range(8))
def test_training_is_never_left_empty(tmp_path, seed):
    manifest = prepare_corpus(str(tmp_path), documents=make_documents(1), holdout_fraction=0.9, seed=seed, num_shards=4)
    assert manifest["train"]["documents"] == 1 and len(manifest["train"]["shards"]) == 1
    assert manifest["heldout"]["documents"] == 0 and manifest["heldout"]["shards"] == []
    assert load_manifest(str(tmp_path)) == manifest


def test_files_are_read_and_counted(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.txt").write_text("One. Two.\nThree. Four.\n")
    (tmp_path / "in/b.txt").write_bytes(b"Five\nsix\n\nSeven\xff\n")
    calls = []
    manifest = prepare_corpus(
        str(tmp_path / "out"),
        input_files=[str(tmp_path / "in")],
        holdout_fraction=0,
        progress=lambda *call: calls.append(call),
    )
    counts = manifest["counts"]
    assert (counts["files"], counts["documents"], counts["sentences"]) == (2, 4, 7)
    assert (counts["invalid_utf8_lines"], counts["bytes"]) == (1, 40)
    assert calls[-1] == (4, 40)
    assert str(tmp_path) not in json.dumps(manifest)


@pytest.mark.parametrize(
    "text, counts", [("", "0 documents, 0 sentences"), ("One.\nTwo.\n", "2 documents, 2 sentences")]
)
def test_a_corpus_without_two_sentences_in_a_document_is_refused_with_its_counts(tmp_path, text, counts):
    (tmp_path / "a.txt").write_text(text)
    with pytest.raises(DataError, match=f"1 file, {counts}"):
        prepare_corpus(str(tmp_path / "out"), input_files=[str(tmp_path / "a.txt")])
    assert os.listdir(tmp_path / "out") == []


def test_a_failure_leaves_no_file_and_the_next_run_removes_the_files_of_a_killed_run(tmp_path):
    def documents():
        yield from make_documents(5)
        raise RuntimeError("stopped")

    with pytest.raises(RuntimeError, match="stopped"):
        prepare_corpus(str(tmp_path), documents=documents())
    assert os.listdir(tmp_path) == []
    (tmp_path / ".incomplete").mkdir()
    (tmp_path / ".incomplete/train-00000-of-00001.tfrecord").write_bytes(b"half")
    (tmp_path / "notes.txt").write_text("mine")
    prepare_corpus(str(tmp_path), documents=make_documents(5), holdout_fraction=0)
    assert sorted(os.listdir(tmp_path)) == [
        "manifest.json",
        "notes.txt",
        "report.json",
        "report.txt",
        "train-00000-of-00001.tfrecord",
    ]


def test_shards_of_somebody_else_are_neither_removed_nor_mixed_in(tmp_path):
    (tmp_path / "train-00000-of-00009.tfrecord").write_bytes(b"mine")
    with pytest.raises(DataError, match="train-00000-of-00009.tfrecord: is there already"):
        prepare_corpus(str(tmp_path), documents=make_documents(5))
    assert (tmp_path / "train-00000-of-00009.tfrecord").read_bytes() == b"mine"


@pytest.mark.parametrize("name", ["report.txt", "report.json", "report.png"])
def test_reports_of_somebody_else_are_not_overwritten(tmp_path, name):
    (tmp_path / name).write_text("mine")
    with pytest.raises(DataError, match=f"{name}: is there already, and would be overwritten"):
        prepare_corpus(str(tmp_path), documents=make_documents(5))
    assert os.listdir(tmp_path) == [name] and (tmp_path / name).read_text() == "mine"


def test_an_existing_corpus_is_not_overwritten(tmp_path):
    prepare_corpus(str(tmp_path), documents=make_documents(5))
    (tmp_path / ".incomplete/spool").mkdir(parents=True)  # the state after a run was killed before its last step
    with pytest.raises(DataError, match="is there already"):
        prepare_corpus(str(tmp_path), documents=make_documents(5))
    assert not (tmp_path / ".incomplete").exists() and load_manifest(str(tmp_path))


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({}, "takes one of input_files, documents, sources; got none of them"),
        ({"documents": [], "input_files": ["x"]}, "got input_files and documents"),
        ({"documents": [], "num_shards": 0}, "num_shards is 0"),
        ({"documents": [], "holdout_fraction": 1.0}, "holdout_fraction is 1.0"),
        ({"documents": [], "dedup": "fuzzy"}, "expected one of auto, exact, near, none"),
        ({"documents": [], "seed": 1.5}, "seed is 1.5"),
        ({"documents": [], "input_format": "xml"}, "input_format is 'xml'"),
    ],
)
def test_unusable_arguments_are_refused(tmp_path, arguments, message):
    with pytest.raises(DataError, match=message):
        prepare_corpus(str(tmp_path / "out"), **arguments)
    assert not (tmp_path / "out").exists()


@pytest.fixture(scope="module")
def whole_corpus(tmp_path_factory):
    directory = tmp_path_factory.mktemp("whole")
    prepare_corpus(str(directory), documents=make_documents(40), num_shards=2, holdout_fraction=0.2)
    return directory


SHARD = "train-00001-of-00002.tfrecord"


def edit_manifest(directory, change):
    manifest = json.loads((directory / "manifest.json").read_text())
    change(manifest)
    (directory / "manifest.json").write_text(json.dumps(manifest))


def flip(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def cut(path, share=None, num_records=None):
    """Cuts a shard to a share of its bytes, or to a number of records."""
    data = path.read_bytes()
    end = sum(len(text) + 16 for text in list(tf.data.TFRecordDataset(str(path)).as_numpy_iterator())[:num_records])
    path.write_bytes(data[: end if num_records else int(share * len(data))])


def swap(path, other):
    first, second = path.read_bytes(), other.read_bytes()
    path.write_bytes(second)
    other.write_bytes(first)


@pytest.mark.parametrize(
    "damage, message",
    [
        (lambda d: (d / "manifest.json").unlink(), "manifest.json: does not exist"),
        (lambda d: (d / "manifest.json").write_text("{"), "manifest.json: unreadable"),
        (lambda d: (d / "manifest.json").write_bytes(b"\xff\xfe{"), "manifest.json: unreadable"),
        (lambda d: edit_manifest(d, lambda m: m.update(format_version=2)), "format_version is 2; expected 1"),
        (lambda d: edit_manifest(d, lambda m: m.pop("heldout")), "'heldout' does not list its shards"),
        (lambda d: edit_manifest(d, lambda m: m["train"]["shards"][0].update(file="../x")), "'train' does not"),
        (lambda d: (d / SHARD).unlink(), f"{SHARD}: missing"),
        (lambda d: (d / SHARD).write_bytes(b""), f"{SHARD}: 0 bytes; expected"),
        (lambda d: flip(d / SHARD), f"{SHARD}: sha256 is"),
        (lambda d: flip(d / SHARD), "9 of 18 records are whole, the next one, at byte 1335, is damaged"),
        (lambda d: cut(d / SHARD, 0.55), "9 of 18 records are whole, the next one, at byte 1335, is damaged or cut"),
        (lambda d: cut(d / SHARD, num_records=5), "5 of 18 records are whole, then the file ends"),
        (lambda d: swap(d / "train-00000-of-00002.tfrecord", d / SHARD), "train-00000-of-00002.tfrecord"),
        (lambda d: shutil.copy(d / "train-00000-of-00002.tfrecord", d / SHARD), SHARD),
    ],
)
def test_a_damaged_corpus_is_refused_with_the_name_of_the_damaged_file(tmp_path, whole_corpus, damage, message):
    directory = tmp_path / "copy"
    shutil.copytree(whole_corpus, directory)
    damage(directory)
    with pytest.raises(DataError) as error:
        load_manifest(str(directory))
    assert message in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize("dedup", ["exact", "near", "none"])
def test_the_number_of_workers_and_the_order_of_files_make_no_difference(tmp_path, dedup, monkeypatch):
    monkeypatch.setattr(readers, "_BATCH_BYTES", 300)
    monkeypatch.setattr(corpus_tasks, "_TASK_BYTES", 2000)
    for number in range(6):
        text = "".join(f"Sentence {i} of {number}. And more of it, {i} times.\n" for i in range(30 + number))
        (tmp_path / f"{number}.txt").write_text(text + "The same. In all files.\n")
    for workers in (1, 4):
        prepare_corpus(
            str(tmp_path / f"out{workers}"),
            input_files=[str(tmp_path / "?.txt")],
            workers=workers,
            dedup=dedup,
            holdout_fraction=0.1,
        )
    assert contents(tmp_path / "out1") == contents(tmp_path / "out4")
    for number in range(6):
        (tmp_path / f"{number}.txt").rename(tmp_path / f"{5 - number}.moved")
    prepare_corpus(str(tmp_path / "moved"), input_files=[str(tmp_path / "*.moved")], dedup=dedup, holdout_fraction=0.1)
    if dedup != "none":
        assert contents(tmp_path / "out1") == contents(tmp_path / "moved")


def test_a_task_that_was_read_is_read_again_only_if_it_is_damaged_or_its_file_has_changed(tmp_path, monkeypatch):
    monkeypatch.setattr(corpus_tasks, "_TASK_BYTES", 1)
    for number in range(3):
        (tmp_path / f"{number}.txt").write_text(f"One of {number}. Two of {number}.\n")

    def fail(*arguments):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch, pytest.raises(DataError, match="No space left on device"):
        patch.setattr(shards, "publish", fail)
        prepare_corpus(str(tmp_path / "out"), input_files=[str(tmp_path / "*.txt")], holdout_fraction=0)
    spool_dir = tmp_path / "out/.incomplete/spool"
    flip(spool_dir / "00000-00000-train.text")
    (tmp_path / "2.txt").write_text("New one. New two.\n")
    lines = []
    prepare_corpus(str(tmp_path / "out"), input_files=[str(tmp_path / "*.txt")], holdout_fraction=0, log=lines.append)
    assert lines[0] == "continues an earlier run: 1 of 3 files were already read"
    assert sorted(sum(read_split(tmp_path / "out", "train"), [])) == [
        ["New one.", "New two."],
        ["One of 0.", "Two of 0."],
        ["One of 1.", "Two of 1."],
    ]


def test_a_finished_shard_that_is_damaged_is_written_again(tmp_path, monkeypatch):
    (tmp_path / "a.txt").write_text("".join(f"One of {i}. Two of {i}.\n" for i in range(50)))
    arguments = {"input_files": [str(tmp_path / "a.txt")], "num_shards": 3, "holdout_fraction": 0.1}
    prepare_corpus(str(tmp_path / "whole"), **arguments)

    def fail(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(shards, "publish", fail)
        prepare_corpus(str(tmp_path / "out"), **arguments)
    flip(tmp_path / "out/.incomplete/shards/train-00001-of-00003.tfrecord")
    # This is the state after a stop during publication: one shard is already in its final place.
    (tmp_path / "out/.incomplete/shards/train-00000-of-00003.tfrecord").rename(
        tmp_path / "out/train-00000-of-00003.tfrecord"
    )
    prepare_corpus(str(tmp_path / "out"), **arguments)
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")


def test_nul_u_fffd_and_control_characters_stay_in_the_corpus_and_make_no_token(tmp_path):
    from pipelines.wordpiece.tokenizer import BertTokenizer

    (tmp_path / "a.txt").write_bytes("A\x00b c\x07d. Next\x1b\ufffd one.\n\x01\x02\n".encode())
    prepare_corpus(str(tmp_path / "out"), input_files=[str(tmp_path / "a.txt")], holdout_fraction=0)
    documents = sum(read_split(tmp_path / "out", "train"), [])
    assert sorted(documents) == [["\x01\x02"], ["A\x00b c\x07d.", "Next\x1b\ufffd one."]]
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "ab", "cd", ".", "next", "one"]
    (tmp_path / "vocab.txt").write_text("\n".join(pieces) + "\n")
    tokenizer = BertTokenizer(str(tmp_path / "vocab.txt"))
    tokens = tokenizer.tokenize(["\x01\x02", "A\x00b c\x07d.", "Next\x1b\ufffd one."])
    assert tokens.to_list() == [[], [5, 6, 7], [8, 9, 7]]


def test_one_line_of_many_megabytes_is_cut_counted_and_not_lost(tmp_path):
    words = " ".join(f"word{i}." for i in range(900_000))  # 10 MB, which become ten lines and three documents
    (tmp_path / "a.txt").write_text(words + "\nA short one. Of two sentences.\n")
    manifest = prepare_corpus(
        str(tmp_path / "out"),
        input_files=[str(tmp_path / "a.txt")],
        input_format="documents",
        holdout_fraction=0,
        dedup="none",
    )
    assert (manifest["counts"]["capped_lines"], manifest["counts"]["capped_documents"]) == (1, 2)
    assert manifest["train"]["words"] == 2 * 900_000 + 8  # each word has a full stop


def test_a_corpus_can_be_written_and_read_on_a_file_system_that_only_gfile_reaches():
    with tf.io.gfile.GFile("ram://text/in.txt", "w") as file:
        file.write("One. Two.\nThree. Four.\n")
    written = prepare_corpus("ram://corpus/out", input_files=["ram://text/in.txt"], holdout_fraction=0)
    assert load_manifest("ram://corpus/out") == written
    assert shard_paths("ram://corpus/out", written, "train") == ["ram://corpus/out/train-00000-of-00001.tfrecord"]
