"""What the benchmarks of the data engine stand on: texts that are enlarged, figures of several runs, and the same masking."""

import gzip
import json
import pathlib
import subprocess
import sys

import pytest

from benchmarks.finetuning.without_sentences import write_without

ROOT = pathlib.Path(__file__).parents[1]

# Benchmarks share names of flags, which are one table of a process: each is asked in a process of its own.
_CALL = """
import importlib, json, sys
from absl import flags
from keras_bert_app.errors import UserError

name, function, arguments = json.loads(sys.argv[1])
module = importlib.import_module(f"benchmarks.{name}")
flags.FLAGS([name])
try:
    found = getattr(module, function)(*arguments)
except UserError as error:
    found = {"refused": str(error)}
print(json.dumps(found))
"""


def call(module, function, *arguments):
    command = [sys.executable, "-c", _CALL, json.dumps([module, function, arguments])]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    return json.loads(found.stdout)


@pytest.mark.parametrize(
    "lines",
    [
        ["the rain had ceased\n", "\n", "in THE streets\n"],
        [*["\n"] * 150, "<doc title=marked>\n", "a single word\n", *["1\n"] * 170],
    ],
)
def test_a_text_is_enlarged_whichever_of_its_lines_have_words(lines, tmp_path):
    text = "".join(lines)
    (tmp_path / "text").write_text(text, encoding="utf-8")
    assert call("prepare_corpus", "make_text", [str(tmp_path / "text")], str(tmp_path / "made"), 11 * len(text)) is None
    made = [path.read_text(encoding="utf-8") for path in sorted((tmp_path / "made").iterdir())]
    assert made[0] == text and sum(map(len, made)) >= 11 * len(text)
    assert {word for copy in made for word in copy.split()} == set(text.split())
    assert [copy.count("\n") for copy in made] == [text.count("\n")] * len(made)


def test_compressed_text_and_bytes_that_are_no_utf8_are_taken_as_prepare_corpus_takes_them(tmp_path):
    (tmp_path / "text.gz").write_bytes(gzip.compress(b"the rain \xff had\n" * 3))
    call("prepare_corpus", "make_text", [str(tmp_path / "text.gz")], str(tmp_path / "made"), 40)
    assert (tmp_path / "made" / "00000").read_text(encoding="utf-8") == "the rain \ufffd had\n" * 3


def test_copies_differ(tmp_path):
    text = "".join(f"{'abcdefgh'[number % 8] * 5} {'ijklmnop'[number // 8] * 4}\n" for number in range(64))
    (tmp_path / "text").write_text(text, encoding="utf-8")
    call("prepare_corpus", "make_text", [str(tmp_path / "text")], str(tmp_path / "made"), 3 * len(text))
    made = [path.read_text(encoding="utf-8") for path in (tmp_path / "made").iterdir()]
    assert len(set(made)) == len(made) >= 3


def test_a_text_without_words_is_refused_in_one_line_where_copies_of_it_are_needed(tmp_path):
    for name, text in (("capitals", "NO sun of 4\n力加勝北区\n"), ("empty", "")):
        (tmp_path / name).write_text(text, encoding="utf-8")
        told = call("prepare_corpus", "make_text", [str(tmp_path / name)], str(tmp_path / "made"), 1000)["refused"]
        assert (
            told.startswith(f"--text_dir={tmp_path / name}: ")
            and "expected text with such words" in told
            and "\n" not in told
        )
    assert call("prepare_corpus", "make_text", [str(tmp_path / "capitals")], str(tmp_path / "made"), 10) is None


def test_of_repeated_runs_the_median_is_shown_between_the_lowest_and_highest_seconds():
    runs = [
        {
            "dedup": "exact",
            "workers": "2",
            "text_bytes": 60_000_000,
            "documents": 1234,
            "shard_bytes": 56_700_000,
            "seconds": seconds,
            "start_seconds": 2.0,
            "cpu_seconds": 2 * seconds,
            "peak_bytes": megabytes * 1_000_000,
        }
        for seconds, megabytes in ((12.0, 700), (5.0, 900), (8.0, 800))
    ]
    assert (
        call("prepare_corpus", "row", runs)
        == "| 60 | exact | 2 | 8.0 | 5.0 to 12.0 | 7.5 | 6.0 | 10.0 | 16.0 | 800 | 1,234 | 56.7 |"
    )


@pytest.mark.parametrize(
    "labels, tokens, examples, is_fair",
    [
        (19, 128, 1, True),  # round(0.15 * 128)
        (2, 16, 1, True),  # round(0.15 * 16)
        (14_900, 100_000, 1000, True),
        (13_900, 100_000, 1000, False),
        (16_100, 100_000, 1000, False),
        (20, 512, 1, False),
        (0, 0, 0, False),
    ],
)
def test_a_contender_that_masks_another_share_is_refused_but_for_rounding(labels, tokens, examples, is_fair):
    found = call(
        "pretraining_throughput",
        "masked_share",
        "a peer",
        {"labels": labels, "real_tokens": tokens, "examples": examples},
    )
    if is_fair:
        assert found == pytest.approx(labels / tokens)
    else:
        assert (
            found["refused"].startswith("a peer: ")
            and f"of {tokens:,} real tokens are masked; expected 0.15" in found["refused"]
        )


def test_a_stage_is_without_the_sentences_that_the_next_task_is_judged_by(tmp_path):
    def write(name, header, *rows):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("\n".join("\t".join(row) for row in (header, *rows)) + "\n", encoding="utf-8")
        return path.read_text(encoding="utf-8").splitlines(keepends=True)

    sts = ["index", "genre", "filename", "year", "old_index", "source1", "source2", "sentence1", "sentence2"]
    kept = ["0"] * 7
    train = write(
        "sts/train.tsv",
        [*sts, "score"],
        [*kept, "A cat sat .", "It rained .", "1.0"],
        [*kept, "Dogs ran", "He said no", "2.0"],
        [*kept, "Only learned .", "A song .", "3.0"],
        [*kept, "Songs", "CATS sang", "4.0"],
    )
    dev = write("sts/dev.tsv", [*sts, "score"], [*kept, "Songs", "Birds", "0.5"])
    write(
        "mrpc/train.tsv",
        ["\ufeffQuality", "#1 ID", "#2 ID", "#1 String", "#2 String"],
        ["1", "1", "2", "Only learned.", "Songs"],
    )
    write(
        "mrpc/dev.tsv",
        ["\ufeffQuality", "#1 ID", "#2 ID", "#1 String", "#2 String"],
        ["1", "1", "2", "Cats sang.", "Gold"],
    )
    write(
        "mrpc/test.tsv", ["index", "#1 ID", "#2 ID", "#1 String", "#2 String"], ["0", "1", "2", "Silver", "It rained"]
    )
    counts = write_without("sts-b", str(tmp_path / "sts"), "mrpc", str(tmp_path / "mrpc"), str(tmp_path / "made"))
    assert counts == {"train": (4, 2), "dev": (1, 0)}
    assert (tmp_path / "made" / "train.tsv").read_text(encoding="utf-8") == train[0] + train[2] + train[3]
    assert (tmp_path / "made" / "dev.tsv").read_text(encoding="utf-8") == "".join(dev)
