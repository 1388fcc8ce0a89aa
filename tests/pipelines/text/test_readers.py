import collections
import gzip
import json
import random
import textwrap

import pytest
import tensorflow as tf

from pipelines.data_error import DataError
from pipelines.text import readers, text_formats, text_lines
from pipelines.text.readers import ReaderCounts, expand_files, read_documents
from pipelines.text.sentences import split_sentences


def write(path, data):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return str(path)


def read(path, *args, **kwargs):
    return list(read_documents([path], *args, **kwargs))


def split(*texts):
    return [[s.decode() for s in row] for row in split_sentences(tf.constant(texts)).to_list()]


# Finding files


def test_a_directory_stands_for_all_files_below_it_except_hidden_ones(tmp_path):
    expected = [write(tmp_path / name, "x") for name in ("a.txt", "b/c.txt", "b/d e.txt")]
    write(tmp_path / ".git/config", "x")
    write(tmp_path / "b/.hidden", "x")
    assert expand_files([str(tmp_path)]) == expected


def test_an_existing_name_with_glob_characters_or_spaces_is_taken_literally(tmp_path):
    name = write(tmp_path / "part [1] *.txt", "x")
    write(tmp_path / "part 1 x.txt", "x")
    assert expand_files([name]) == [name]


def test_globs_are_expanded_sorted_and_each_file_is_taken_once(tmp_path):
    b, a = write(tmp_path / "b.txt", "x"), write(tmp_path / "a.txt", "x")
    assert expand_files([str(tmp_path / "*.txt"), b, str(tmp_path / "." / "a.txt")]) == [a, b]


@pytest.mark.parametrize("patterns", [["no-such-*.txt"], [""], []])
def test_a_pattern_that_matches_nothing_is_refused_by_name(tmp_path, patterns):
    with pytest.raises(DataError) as error:
        expand_files(patterns)
    assert all(repr(pattern) in str(error.value) for pattern in patterns)
    assert "\n" not in str(error.value)


def test_names_with_a_scheme_go_through_gfile():
    for name in ("b", "sub/a"):
        with tf.io.gfile.GFile(f"ram://expand/{name}.txt", "w") as file:
            file.write("One sentence. Another one.\n")
    assert expand_files(["ram://expand/*.txt"]) == ["ram://expand/b.txt"]
    assert read("ram://expand/b.txt") == [["One sentence.", "Another one."]]


# Formats


def test_each_line_of_google_s_layout_is_one_sentence(tmp_path):
    path = write(tmp_path / "a", "One. Two.\nthree\n\n\nFour\n \nfive\n")
    assert read(path, "sentences") == [["One. Two.", "three"], ["Four"], ["five"]]


def test_a_line_that_is_one_document_is_split_into_sentences(tmp_path):
    path = write(tmp_path / "a", "One. Two.\nThree.\n")
    assert read(path) == [["One.", "Two."], ["Three."]]


def test_jsonl_takes_the_named_field_and_splits_its_paragraphs(tmp_path):
    lines = [{"body": "Title\nOne. Two.", "text": 3}, {"body": ""}, {"body": "Drei."}]
    path = write(tmp_path / "a.jsonl", "\n".join(map(json.dumps, lines)))
    assert read(path, text_field="body") == [["Title", "One.", "Two."], ["Drei."]]


def test_wikiextractor_documents_lose_a_first_line_that_repeats_the_title_and_keep_any_other(tmp_path):
    path = write(
        tmp_path / "wiki_00",
        """<doc id="1" url="u" title="A &amp; "B"">
A & "B"

First one. Second one.
History.
</doc>
<doc id="2" url="u" title="Empty">
Empty
</doc>
<doc id="3" url="u" title="C">
Not the title
</doc>
""",
    )
    assert read(path) == [["First one.", "Second one.", "History."], ["Not the title"]]


def test_gzip_files_are_read_whatever_their_name(tmp_path):
    path = write(tmp_path / "a", gzip.compress(b"One. Two.\n"))
    assert read(path) == [["One.", "Two."]]


@pytest.mark.parametrize(
    "name, text, expected",
    [
        ("a.jsonl.gz", "", "jsonl"),
        ("a.txt", '{"text": "x"}\n', "jsonl"),
        ("a", "{x} y\n", "documents"),
        ("a", '\n<doc id="1">\n', "wikiextractor"),
        ("a", "\ufeffx\r\n\r\ny", "sentences"),
        ("a", "\n\nx\ny\n\n", "documents"),
        ("a", "", "documents"),
        ("a", "One here.\nTwo here.\nThree. Four.\n\nFive of them.\n", "sentences"),
        ("a", "One here. Two here.\n\nThree of them. Four of them.\n", "paragraphs"),
        ("a", "A heading\nOne here. Two here.\nThree of it.\n\nNext\nFour. Five.\n", "paragraphs"),
        ("a", "他来了。她走了！\n\n他来了。她又走了。\n", "paragraphs"),
        ("a", "他来了。\n她走了！\n\n他又来了。\n", "sentences"),
    ],
)
def test_the_format_is_detected_from_the_name_and_the_first_lines(name, text, expected):
    assert text_formats.detect_format(name, text.encode()).format == expected


def test_paragraphs_between_blank_lines_are_split_into_sentences_and_headings_join_them(tmp_path):
    """An earlier reader made documents of one sentence from these 2,000 paragraphs, since each line was a sentence."""
    blocks = [f"Number {i} is here. It has. Five sentences. Of a few. Words each." for i in range(2000)]
    blocks = [
        text for i, block in enumerate(blocks) for text in ([f"Part {i // 50}", block] if i % 50 == 0 else [block])
    ]
    detections = []
    documents = read(
        write(tmp_path / "a", "\n\n".join(blocks)), report=lambda _, detection: detections.append(detection)
    )
    assert collections.Counter(map(len, documents)) == {5: 1960, 6: 40}
    assert documents[0][:2] == ["Part 0", "Number 0 is here."] and documents[1][0] == "Number 1 is here."
    assert [detection.format for detection in detections] == ["paragraphs"]
    assert "a line has 4.9 sentences and 64 characters on average" in detections[0].reason


def test_a_blank_line_ends_a_document_of_paragraphs_and_a_lone_sentence_begins_the_next(tmp_path):
    text = "Title\nOne. Two.\nThree.\n\nFour.\nFive.\n\nAlone\n\n\nAlone too.\n\nSix. Seven.\n\nThe end\n"
    assert read(write(tmp_path / "a", text), "paragraphs") == [
        ["Title", "One.", "Two.", "Three."],
        ["Four.", "Five."],
        ["Alone", "Alone too.", "Six.", "Seven."],
        ["The end"],
    ]


def test_hard_wrapped_lines_are_not_read_as_paragraphs_and_the_reason_says_so():
    short = "A line of prose. It goes on over\nthe end of the line. This one too. So\nit is here. The end.\n\n" * 9
    prose = "It goes on over the end of the line, as prose does, and on. So does this one, without an end. " * 20
    for text in (short, "\n\n".join([textwrap.fill(prose, 70)] * 5)):
        detection = text_formats.detect_format("a", text.encode())
        assert detection.format == "sentences" and "join hard-wrapped lines first" in detection.reason
    assert "hard-wrapped" not in text_formats.detect_format("a", b"no end\nof it\n\nhere\n" * 9).reason


def test_the_first_file_of_each_format_is_reported_with_the_reason(tmp_path):
    paths = [write(tmp_path / str(i), text) for i, text in enumerate(["A b. C d.\n\nE f. G h.", "A. B.", "C. D."])]
    lines = []
    list(read_documents(paths, report=text_formats.format_reporter(lines.append)))
    assert len(lines) == 2 and "0: read as --input_format=paragraphs, because a line has 2.0 sentences" in lines[0]
    assert "1: read as --input_format=documents, because it has no blank line" in lines[1]


def test_formats_are_detected_for_each_file_and_documents_come_in_the_order_of_files(tmp_path):
    paths = [
        write(tmp_path / "1", "Aa. Bb.\n"),
        write(tmp_path / "2", "Cc dd\n\nEe\n"),
        write(tmp_path / "3", '{"text": "Ff. Gg."}\n'),
    ]
    counts = ReaderCounts()
    assert list(read_documents(paths, counts=counts)) == [["Aa.", "Bb."], ["Cc dd"], ["Ee"], ["Ff.", "Gg."]]
    assert (counts.files, counts.documents, counts.sentences, counts.bytes) == (3, 4, 6, 38)


# Lines


def test_invalid_utf8_is_replaced_and_its_lines_are_counted(tmp_path):
    path, counts = write(tmp_path / "a", b"caf\xe9 \xff\nfine\n\xc3"), ReaderCounts()
    assert read(path, counts=counts) == [["caf\ufffd \ufffd"], ["fine"], ["\ufffd"]]
    assert counts.invalid_utf8_lines == 2


def test_strict_reading_stops_at_the_line_and_byte_of_invalid_utf8(tmp_path):
    path = write(tmp_path / "a", b"fine\ncaf\xe9\n")
    with pytest.raises(DataError, match=r"a:2: invalid UTF-8 at byte 8"):
        read(path, strict=True)


def test_lines_end_at_newlines_only_and_lose_bom_and_carriage_return(tmp_path):
    path = write(tmp_path / "a", "\ufeffa\u2028b\x0cc\r\nd\x85e\r\n")
    assert read(path) == [["a\u2028b\x0cc"], ["d\x85e"]]


@pytest.mark.parametrize("chunk_bytes", [1, 7, 1 << 20])
def test_a_long_line_is_cut_into_pieces_that_do_not_depend_on_the_chunk_size(tmp_path, monkeypatch, chunk_bytes):
    monkeypatch.setattr(text_lines, "CHUNK_BYTES", chunk_bytes)
    path, counts = write(tmp_path / "a", "ab cd efg\nééééé\nx\n"), ReaderCounts()
    with open(path, "rb") as stream:
        lines = list(text_lines.read_lines(stream, path, counts, max_line_bytes=5))
    assert lines == [
        (1, b"ab ", 1),
        (1, b"cd ", 2),
        (1, b"efg", 3),
        (2, "éé".encode(), 1),
        (2, "éé".encode(), 2),
        (2, "é".encode(), 3),
        (3, b"x", 0),
    ]
    assert counts.capped_lines == 2


def test_no_text_of_a_line_above_the_cap_is_lost(tmp_path):
    words = [f"word{i}" for i in range(300_000)]
    path, counts = write(tmp_path / "a", " ".join(words) + "\nNext.\n"), ReaderCounts()
    document, after = read(path, counts=counts)
    assert " ".join(document).split() == words and after == ["Next."]
    assert (counts.capped_lines, counts.documents) == (1, 2)


def test_a_document_above_the_limit_is_cut_into_several(tmp_path, monkeypatch):
    monkeypatch.setattr(readers, "MAX_DOCUMENT_BYTES", 200)
    monkeypatch.setattr(readers, "_BATCH_BYTES", 50)
    path, counts = write(tmp_path / "a", "sentence here\n" * 100 + "\nend\n"), ReaderCounts()
    documents = read(path, "sentences", counts=counts)
    assert sum(documents, []) == ["sentence here"] * 100 + ["end"]
    assert max(map(len, documents)) < 20 and counts.capped_documents == len(documents) - 2


def test_files_of_one_document_each_are_not_all_held_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr(readers, "_BATCH_BYTES", 50)
    paths = [write(tmp_path / str(number), "sentence here\n" * 10) for number in range(5)]
    batches = list(readers.read_batches(paths, "sentences", "text", ReaderCounts(), strict=False))
    assert [batch.ends for batch in batches] == [[10]] * 5 and {len(batch.texts) for batch in batches} == {10}


def test_a_json_record_that_is_too_long_is_left_out_and_counted(tmp_path, monkeypatch):
    monkeypatch.setattr(text_formats, "MAX_RECORD_BYTES", 50)
    path, counts = write(tmp_path / "a.jsonl", '{"text": "%s"}\n{"text": "b"}\n' % ("a" * 90)), ReaderCounts()
    assert read(path, counts=counts) == [["b"]]
    assert (counts.bad_records, counts.capped_lines) == (1, 1)


def test_a_lone_surrogate_in_json_becomes_u_fffd(tmp_path):
    path, counts = write(tmp_path / "a.jsonl", '{"text": "a\\ud800b \\ud83d\\ude00"}'), ReaderCounts()
    assert read(path, counts=counts) == [["a\ufffdb \U0001f600"]]
    assert counts.invalid_utf8_lines == 1


# Faults


@pytest.mark.parametrize(
    "name, data, message",
    [
        ("a.jsonl", b'{"text": "a"}\n{"text"\n', "a.jsonl:2: not JSON"),
        ("a.jsonl", b"[" * 100_000, "a.jsonl:1: not JSON"),
        ("a.json", b'["a"]', "a.json:1: a JSON list"),
        ("a.jsonl", b'\n{"title": "a", "body": "b"}', "a.jsonl:2: no field 'text'; it has title, body"),
        ("a.jsonl", b'{"text": null}', "a.jsonl:1: field 'text' is None; expected a string"),
        ("a", b'<doc id="1">\nx\n</doc>\nstray\n', "a:4: text outside"),
        ("a.gz", gzip.compress(b"One. Two.\n" * 99, mtime=0)[:-9], "a.gz: cannot be read"),
        ("a.xz", b"\xfd7zXZ\x00\x00", "a.xz: holds xz data"),
        ("a.txt", "Text.".encode("utf-16"), "a.txt: holds UTF-16 data"),
    ],
)
def test_a_broken_file_is_refused_with_its_name_and_the_fault(tmp_path, name, data, message):
    path = write(tmp_path / name, data)
    with pytest.raises(DataError) as error:
        read(path)
    assert message in str(error.value) and "\n" not in str(error.value)


def test_an_unknown_format_is_refused_before_a_file_is_opened():
    with pytest.raises(DataError, match="expected one of auto, sentences"):
        read_documents(["no-such-file"], "xml")


# Sentences


@pytest.mark.parametrize(
    "sentences",
    [
        ["It rained.", "Then it stopped!", "Did it?", "Yes…", "No."],
        ['He said "Go."', "She went.", "(It was late.)", "“Was it?”", "Élan vital.", "4 more."],
        ["Mr. A. B. Smith and Dr. J. Doe met, e.g. Tuesdays, i.e. Often.", "St. Paul vs. Rome."],
        ["See No. 5 and Fig. 3.", "The answer was No.", "Jan. 5 is near.", "It came in Jan.", "Then Feb."],
        ["Acme Inc. Holdings of the U.S. Navy.", "He left the U.S.", "In 1990 he met Acme Inc.", "They sold."],
        ["It was World War I.", "The end came.", "J. R. R. Tolkien wrote."],
        ["1. Introduction of it.", "More in 2012.", "The end."],
        ["version 2.0 of foo.bar runs. ok...", "Yes."],
        ["他来了。", "她走了！", "「真的吗？」", "真的；", "好。"],
        ["《仿生人會夢見電子羊嗎？》的讀後感。", "「走！」，他說。", "Really?", "是的。"],
        ["約翰（；）是政治家。", "好；", "是。"],
        ["これは本です。", "そうですか？", "はい。"],
        ["Привет. и всё.", "Да.", "Нет."],
    ],
)
def test_sentences_end_where_a_reader_would_end_them(sentences):
    space = "" if any("\u3040" <= c <= "\u9fff" for c in "".join(sentences)) else " "
    assert split(space.join(sentences)) == [sentences]


def test_each_text_has_its_own_sentences_and_blank_texts_have_none():
    assert split("A b. C d.", "", " \n\t", "No end") == [["A b.", "C d."], [], [], ["No end"]]
    assert split_sentences(tf.constant([], tf.string)).to_list() == []


def test_splitting_loses_nothing_but_white_space():
    rng = random.Random(0)
    alphabet = [
        ". ",
        "! ",
        "? ",
        ".\n",
        "。",
        "？",
        "；",
        "！」",
        "》",
        "，",
        "Mr.",
        "U.S.",
        "J. ",
        "No. 5",
        "etc. The ",
        '"',
        "’",
        ")",
        "(",
        "«",
        " ",
        "\u3000",
        "\u2028",
        "\xa0",
        "\n",
        "\x0b",
        "\x00",
        "\x01",
        "\ue000",
        "\ufdd0",
        "\uffff",
        "é",
        "É",
        "中",
        "か",
        "a",
        "The",
        "7",
        "😀",
    ] + [chr(c) for c in range(1, 128)]
    texts = ["".join(rng.choices(alphabet, k=rng.randrange(60))) for _ in range(20_000)]
    for text, sentences in zip(texts, split(*texts), strict=True):
        assert "".join("".join(sentences).split()) == "".join(text.split())
        assert all(sentences) and not any("\n" in s for s in sentences)


def test_splitting_keeps_bytes_that_are_not_utf8():
    assert split_sentences(tf.constant([b"A\xff. B\xc3."])).to_list() == [[b"A\xff.", b"B\xc3."]]
