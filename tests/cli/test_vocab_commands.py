"""The vocabulary commands on small texts, and on every wrong input.

Most tests run in this process, where TensorFlow is loaded already. Tests of pipes and signals start a process.
"""

import gzip
import json
import os
import signal
import subprocess

import pytest

from pipelines.wordpiece.vocabulary import SPECIAL_PIECES, load_vocabulary, write_vocabulary
from tests.cli.test_commands import ROOT, assert_refused, command

TEXT = "the fever and the rash\n" * 10 + "中文 and Käse\n" * 5
LETTERS = "abcdefghijklmnopqrstuvwxyz"
ENTRIES = [*SPECIAL_PIECES, "[unused0]", "the", "and", *LETTERS, *(f"##{c}" for c in LETTERS), "中", "[", "]"]


@pytest.fixture
def folder(tmp_path):
    """A folder with texts and a vocabulary. The folder name has a space."""
    folder = tmp_path / "my texts"
    folder.mkdir()
    (folder / "text.txt").write_text(TEXT)
    (folder / "empty.txt").touch()
    (folder / "cut.gz").write_bytes(gzip.compress(TEXT.encode())[:-20])
    write_vocabulary(ENTRIES, folder / "vocab.txt")
    return folder


def test_learn_vocab_draws_the_same_sample_every_time_and_says_its_size(run, folder):
    arguments = (
        "learn_vocab",
        f"--input_files={folder}/text.txt",
        f"--vocab_file={folder}/new/v.txt",
        "--vocab_size=60",
        "--overwrite",
    )
    assert "text: all 15 documents" in run(*arguments).stdout
    whole = load_vocabulary(folder / "new/v.txt")
    sampled = run(*arguments, "--sample_megabytes=0.0002")
    assert "of 15 documents" in sampled.stdout and "a sample of " in sampled.stdout, sampled.stderr
    pieces = load_vocabulary(folder / "new/v.txt")
    assert sampled.stdout == run(*arguments, "--sample_megabytes=0.0002").stdout
    assert load_vocabulary(folder / "new/v.txt") == pieces
    assert "sample" not in run(*arguments, "--sample_megabytes=0").stdout
    assert load_vocabulary(folder / "new/v.txt") == whole


def test_learn_vocab_replaces_a_file_only_with_overwrite_and_says_how_many_entries_are_unused(run, folder):
    arguments = (
        "learn_vocab",
        f"--input_files={folder}/text.txt",
        f"--vocab_file={folder}/vocab.txt",
        "--vocab_size=300",
    )
    before = (folder / "vocab.txt").read_bytes()
    assert_refused(run(*arguments), f"{folder}/vocab.txt is there already; --overwrite replaces it")
    assert (folder / "vocab.txt").read_bytes() == before
    result = run(*arguments, "--overwrite")
    assert result.returncode == 0, result.stderr
    num_unused = (folder / "vocab.txt").read_text(encoding="utf-8").count("[unused")
    assert 200 < num_unused < 300
    assert (
        f"{num_unused} of the pieces are [unused] entries: the text gives only {300 - num_unused} pieces, so "
        f"--vocab_size={300 - num_unused} is enough" in result.stdout
    )
    (folder / "vocab.txt").unlink()
    assert "[unused]" not in run(*arguments[:-1], f"--vocab_size={300 - num_unused}").stdout


def test_check_vocab_lists_every_fault_and_exits_with_2(run, folder):
    (folder / "bad.txt").write_bytes("\n".join(["a", "a", "", *SPECIAL_PIECES[:4]]).encode() + b"\n\xff\n")
    result = run("check_vocab", f"--vocab_file={folder}/bad.txt")
    assert_refused(result, "not usable, 5 faults", str(folder / "bad.txt"))
    assert result.stdout.splitlines() == [
        "fault: line 2 repeats line 1 ('a')",
        "fault: line 3 is empty",
        "fault: line 8 is not UTF-8",
        "fault: [MASK] is missing",
        "fault: [PAD] is in line 4, not in line 1 (id 0)",
    ]


def test_check_vocab_notes_entries_that_no_text_can_give_and_counts_no_fault(run, folder):
    write_vocabulary([*ENTRIES, "The", "##中"], folder / "noted.txt")
    result = run("check_vocab", f"--vocab_file={folder}/noted.txt")
    assert result.returncode == 0 and "usable, 65 entries: 27 within words (##), 1 [unused]" in result.stdout
    assert "2 entries can never be produced from uncased text: 'The' (line 64), '##中' (line 65)" in result.stdout
    assert "note:" not in run("check_vocab", f"--vocab_file={folder}/vocab.txt").stdout


def test_check_vocab_reports_on_a_text_in_print_and_in_three_files(run, folder):
    result = run(
        "check_vocab",
        f"--vocab_file={folder}/vocab.txt",
        f"--input_files={folder}/text.txt",
        f"--output_dir={folder}/a report",
    )
    assert result.returncode == 0, result.stderr
    assert "by script" in result.stdout and "f ##e ##v ##e ##r" in result.stdout
    report = json.loads((folder / "a report/report.json").read_text(encoding="utf-8"))
    # In 10 lines "the", "and" and "the" have one piece each, "fever" has 5 and "rash" 4. In 5 lines 中 and "and" have
    # one piece each, 文 becomes [UNK], and "Käse" has 4.
    assert (report["words"], report["pieces"], report["unknown_words"]) == (50 + 20, 120 + 35, 5)
    assert "words " in (folder / "a report/report.txt").read_text(encoding="utf-8")
    assert (folder / "a report/report.png").read_bytes().startswith(b"\x89PNG")


def test_extend_vocab_prints_words_and_saving_and_warns_of_a_larger_table(run, folder):
    result = run(
        "extend_vocab",
        f"--vocab_file={folder}/vocab.txt",
        f"--input_files={folder}/text.txt",
        "--num_words=2",
        f"--output_file={folder}/out/v.txt",
        f"--words_file={folder}/out/words.tsv",
    )
    assert result.returncode == 0, result.stderr
    assert "2 words added, 1 in [unused] entries, 1 at the end" in result.stdout
    assert "on 70 words: 155 pieces -> 85, 2.2143 a word -> 1.2143; [UNK] 5 -> 5" in result.stdout
    assert "vocab_size 63 -> 64" in result.stdout
    assert load_vocabulary(folder / "out/v.txt") == [*ENTRIES[:5], "fever", *ENTRIES[6:], "rash"]
    assert (folder / "out/words.tsv").read_text() == (
        "word\tid\tcount\tpieces\tsaved\nfever\t5\t10\t5\t40\nrash\t63\t10\t4\t30\n"
    )


def test_tokenize_prints_each_piece_with_its_place_in_the_original(run, folder):
    result = run("tokenize", f"--vocab_file={folder}/vocab.txt", "Käse 中", "[MASK]\x1b", " ")
    assert result.returncode == 0, result.stderr
    k, a, m = ENTRIES.index("k"), ENTRIES.index("##a"), ENTRIES.index("m")
    lines = [line.split() for line in result.stdout.splitlines()]
    assert lines[0] == ["1:", "Käse", "中"] and lines[1] == ["id", "piece", "chars", "bytes", "text"]
    assert [str(k), "k", "0-1", "0-1", "K"] in lines and [str(a), "##a", "1-2", "1-3", "ä"] in lines
    assert [str(m), "m", "1-2", "1-2", "M"] in lines and ["2:", "[MASK]\\x1b"] in lines
    assert lines[-2] == ["no", "pieces"]
    special = run(
        "tokenize", f"--vocab_file={folder}/vocab.txt", "--special_tokens_in_text", "[MASK]", "--output_format=jsonl"
    )
    assert json.loads(special.stdout) == {
        "line": 1,
        "text": "[MASK]",
        "ids": [4],
        "pieces": ["[MASK]"],
        "start_chars": [0],
        "end_chars": [6],
        "start_bytes": [0],
        "end_bytes": [6],
        "substrings": ["[MASK]"],
    }


def test_tokenize_splits_long_lines_into_parts_and_reads_bytes_that_are_no_utf8(run, folder):
    long_line = b"the rash " * 20_000
    (folder / "lines.txt").write_bytes(b"and\xff\r\n" + long_line + b"\n\nthe")
    result = run(
        "tokenize", f"--vocab_file={folder}/vocab.txt", f"--input_file={folder}/lines.txt", "--output_format=jsonl"
    )
    assert result.returncode == 0, result.stderr
    records = [json.loads(line) for line in result.stdout.splitlines()]
    assert records[0]["text"] == "and\ufffd" and records[0]["substrings"] == ["and"]
    parts = [record for record in records if record["line"] == 2]
    assert [record["part"] for record in parts] == list(range(1, len(parts) + 1)) and len(parts) > 1
    assert "".join(record["text"] for record in parts).encode() == long_line
    assert [record["pieces"] for record in records[-2:]] == [[], ["the"]]


@pytest.mark.parametrize(
    "arguments, parts",
    [
        (["tokenize"], ["--vocab_file is missing"]),
        (["tokenize", "--vocab_file={}/vocab.txt"], ["no text was given"]),
        (["tokenize", "--vocab_file={}/vocab.txt", "--input_file=-", "text"], ["both given"]),
        (["tokenize", "--vocab_file={}/vocab.txt", "--input_file={}/none.txt"], ["none.txt: cannot be read"]),
        (["tokenize", "--vocab_file={}/vocab.txt", "--output_format=json", "text"], ["did you mean 'jsonl'"]),
        (["tokenize", "--vocab_file={}/none.txt", "text"], ["none.txt: cannot be read"]),
        (["check_vocab"], ["--vocab_file is missing"]),
        (["check_vocab", "vocab.txt"], ["unexpected argument 'vocab.txt'"]),
        (["check_vocab", "--vocab_file={}/empty.txt"], ["not usable"]),
        (["check_vocab", "--vocab_file={}/vocab.txt", "--output_dir=out"], ["--output_dir", "--input_files"]),
        (["check_vocab", "--vocab_file={}/vocab.txt", "--text_field=a"], ["--text_field is for", "--input_files"]),
        (["check_vocab", "--vocab_file={}/vocab.txt", "--input_files={}/empty.txt"], ["no word"]),
        (["check_vocab", "--vocab_file={}/vocab.txt", "--input_files={}/none"], ["matches no file"]),
        (["check_vocab", "--vocab_file={}/vocab.txt", "--input_files={}/text.txt", "--input_format=json"], ["jsonl"]),
        (["extend_vocab", "--vocab_file={}/vocab.txt", "--input_files={}/text.txt"], ["--output_file is missing"]),
        (
            ["extend_vocab", "--vocab_file={}/vocab.txt", "--input_files={}/text.txt", "--output_file={}/vocab.txt"],
            ["is also the --vocab_file, which would be lost"],
        ),
        (
            [
                "extend_vocab",
                "--vocab_file={}/vocab.txt",
                "--input_files={}/text.txt",
                "--output_file={}/o.txt",
                "--words_file={}/./vocab.txt",
            ],
            ["--words_file", "is also the --vocab_file"],
        ),
        (
            [
                "extend_vocab",
                "--vocab_file={}/vocab.txt",
                "--input_files={}/text.txt",
                "--output_file={}/o.txt",
                "--words_file={}/o.txt",
            ],
            ["--words_file", "is also the --output_file"],
        ),
        (
            ["extend_vocab", "--vocab_file={}/vocab.txt", "--input_files={}/empty.txt", "--output_file={}/o.txt"],
            ["no word"],
        ),
        (
            [
                "extend_vocab",
                "--vocab_file={}/vocab.txt",
                "--input_files={}/text.txt",
                "--output_file={}/o.txt",
                "--num_words=0",
            ],
            ["--num_words=0"],
        ),
        (
            ["extend_vocab", "--vocab_file={}/empty.txt", "--input_files={}/text.txt", "--output_file={}/o.txt"],
            ["the file is empty"],
        ),
        (
            ["learn_vocab", "--input_files=https://host/a.txt", "--vocab_file={}/o.txt"],
            ["File system scheme 'https' not implemented"],
        ),
        (["learn_vocab", "--input_files={}/text.txt", "--vocab_file={}/o.txt", "--vocab_size=5"], ["--vocab_size=5"]),
        (
            ["learn_vocab", "--input_files={}/text.txt", "--vocab_file={}/o.txt", "--sample_megabytes=-1"],
            ["--sample_megabytes=-1"],
        ),
        (["learn_vocab", "--input_files={}/text.txt", "--vocab_file={}"], ["is a directory"]),
        (
            ["learn_vocab", "--input_files={}/text.txt", "--vocab_file={}/./text.txt"],
            ["is one of --input_files, whose text would be lost"],
        ),
        (
            ["learn_vocab", "--input_files={}/te*.txt,{}/o*.txt,{}/empty.txt", "--vocab_file={}/other.txt"],
            ["matches no file"],
        ),
        (
            ["learn_vocab", "--input_files={}", "--vocab_file={}/sub/o.txt"],
            ["the next run would read it as text of --input_files", "give another place"],
        ),
        (
            ["extend_vocab", "--vocab_file={}/vocab.txt", "--input_files={}/*.txt", "--output_file={}/o.txt"],
            ["--output_file=", "the next run would read it as text of --input_files="],
        ),
        (
            [
                "extend_vocab",
                "--vocab_file={}/vocab.txt",
                "--input_files={}/text.txt",
                "--output_file={}/o.txt",
                "--words_file={}/text.txt",
            ],
            ["--words_file=", "whose text would be lost"],
        ),
        (
            ["check_vocab", "--vocab_file={}/vocab.txt", "--input_files={}/te?t.txt,{}", "--output_dir={}/o"],
            ["--output_dir=", "the next run would read it as text of --input_files="],
        ),
        (
            ["tokenize", "--vocab_file={}/vocab.txt", "--input_file={}/cut.gz"],
            ["cut.gz: cannot be read", "expected a whole, readable file"],
        ),
    ],
)
def test_a_wrong_flag_or_file_gives_one_line_and_exit_code_2(run, folder, arguments, parts):
    assert_refused(run(*(argument.replace("{}", str(folder)) for argument in arguments)), *parts)
    assert not (folder / "o.txt").exists()


def start(*arguments, **more):
    # If a shell starts the tests in the background, their processes ignore SIGINT; a command at a terminal does not.
    return subprocess.Popen(
        command(*map(str, arguments)),
        stdout=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        **more,
    )


def test_tokenize_answers_a_pipe_line_by_line_and_stops_quietly_at_ctrl_c(folder):
    process = start("tokenize", f"--vocab_file={folder}/vocab.txt", "--input_file=-", stdin=subprocess.PIPE)
    process.stdin.write(b"the\n")
    process.stdin.flush()
    assert process.stdout.readline() == b"1: the\n"  # while the pipe is still open
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130 and errors == b"interrupted\n"


def test_tokenize_ends_quietly_when_its_reader_leaves(folder):
    (folder / "much.txt").write_text("the rash and the fever\n" * 20_000)
    process = start("tokenize", f"--vocab_file={folder}/vocab.txt", f"--input_file={folder}/much.txt")
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(timeout=60) == 0 and process.stderr.read() == b""
    process.stderr.close()


def test_learn_vocab_stops_at_ctrl_c_and_leaves_no_file(folder):
    os.mkfifo(folder / "endless.txt")
    process = start("learn_vocab", f"--input_files={folder}/endless.txt", f"--vocab_file={folder}/o.txt")
    with open(folder / "endless.txt", "wb"):  # open waits for the reader; the command then waits for text
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 130 and errors == b"interrupted\n"
    assert not (folder / "o.txt").exists()
