"""prepare_corpus as a user runs it: the result, every wrong input, signals, kills and a full disk."""

import fcntl
import json
import multiprocessing
import os
import random
import re
import resource
import signal
import subprocess
import sys
import time

import pytest
import tensorflow as tf

from keras_bert_app.drawing.corpus_picture import draw_corpus_report
from pipelines.corpus import preparation
from pipelines.corpus.preparation import load_manifest, shard_paths
from tests.cli import small_pieces
from tests.cli.test_commands import ROOT, assert_refused, command

WORDS = [f"{a}{b}{c}" for a in "bdfgklmnprst" for b in "aeiou" for c in ("", "n", "r", "s", "t")]


def sentence(generator):
    return " ".join(generator.choices(WORDS, k=generator.randrange(5, 20))).capitalize() + "."


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    """A directory of 8 files with 40 documents each. Two of the documents are equal."""
    directory = tmp_path_factory.mktemp("prepare") / "my texts"
    directory.mkdir()
    generator = random.Random(1)
    documents = [" ".join(sentence(generator) for _ in range(generator.randrange(1, 9))) for _ in range(320)]
    documents[7] = documents[300]
    for number in range(8):
        (directory / f"{number}.txt").write_text("\n".join(documents[number::8]) + "\n")
    return directory


@pytest.fixture
def prepare(run):
    """A function that runs prepare_corpus in this process."""
    return lambda texts, output_dir, *more: run(
        "prepare_corpus", f"--input_files={texts}", f"--output_dir={output_dir}", *more
    )


def contents(directory):
    return {name: (directory / name).read_bytes() for name in os.listdir(directory)}


def test_text_becomes_shards_a_manifest_and_a_report(prepare, texts, tmp_path):
    result = prepare(texts, tmp_path / "out", "--num_shards=3", "--dedup=near", "--holdout_fraction=0.1", "--seed=7")
    assert result.returncode == 0 and result.stderr == "", result.stderr
    assert "read 8 files, 320 documents" in result.stdout and "1 documents dropped as equal" in result.stdout
    manifest = load_manifest(str(tmp_path / "out"))
    assert len(manifest["train"]["shards"]) == 3 and (manifest["seed"], manifest["dedup"]) == (7, "near")
    records = [
        record
        for split in ("train", "heldout")
        for record in tf.data.TFRecordDataset(shard_paths(str(tmp_path / "out"), manifest, split)).as_numpy_iterator()
    ]
    assert len(records) + manifest["counts"]["heldout_documents_dropped"] == 319
    assert (tmp_path / "out/report.png").read_bytes().startswith(b"\x89PNG")
    report = json.loads((tmp_path / "out/report.json").read_text())
    assert report["splits"]["train"]["documents"] == manifest["train"]["documents"]
    assert "most repeated lines" in (tmp_path / "out/report.txt").read_text()
    assert_refused(prepare(texts, tmp_path / "out"), "manifest.json is there already")


@pytest.mark.parametrize(
    "flags, parts",
    [
        (["--input_files=/nowhere/*.txt"], ["/nowhere/*.txt", "matches no file"]),
        (["--input_files="], ["--input_files is missing"]),
        (["--output_dir="], ["--output_dir is missing"]),
        (["--input_format=jsn"], ["--input_format=jsn", "did you mean 'jsonl'"]),
        (["--dedup=fuzzy"], ["dedup", "fuzzy", "exact"]),
        (["--holdout_fraction=1"], ["holdout_fraction is 1.0"]),
        (["--num_shards=0"], ["num_shards is 0"]),
        (["--workers=0"], ["workers is 0"]),
        (["--input_format=jsonl"], ["0.txt:1: not JSON"]),
        (["surplus"], ["unexpected argument 'surplus'"]),
    ],
)
def test_a_wrong_flag_gives_one_line_and_exit_code_2(prepare, texts, tmp_path, flags, parts):
    assert_refused(prepare(texts, tmp_path / "out", *flags), *parts)
    assert not (tmp_path / "out").exists() or os.listdir(tmp_path / "out") == []


def test_words_are_counted_as_by_learn_vocab(prepare, run, tmp_path):
    """prepare_corpus once counted words between spaces, while learn_vocab counted the words of BERT's tokenizer."""
    lines = [f"第{i}个人来了。他又走了！ And so on, {i}. It's over." for i in range(50)]
    (tmp_path / "a.txt").write_text("\n".join(lines) + "\n")
    prepared = prepare(tmp_path / "a.txt", tmp_path / "out", "--holdout_fraction=0")
    learned = run(
        "learn_vocab", f"--input_files={tmp_path}/a.txt", f"--vocab_file={tmp_path}/v.txt", "--vocab_size=300"
    )
    (words,) = re.findall(r"for training: .*? ([\d,]+) words", prepared.stdout)
    assert f"from {words} words" in learned.stdout and words == f"{50 * 23:,}"


def test_text_with_few_sentence_pairs_gets_a_warning_about_next_sentence(prepare, tmp_path):
    (tmp_path / "a.txt").write_text("".join(f"only one sentence {i}.\n" for i in range(99)) + "One. Two.\n")
    result = prepare(tmp_path / "a.txt", tmp_path / "out", "--holdout_fraction=0")
    assert result.returncode == 0 and "too few documents have two sentences" in result.stdout


def test_an_empty_corpus_is_refused_with_counts_of_files_documents_and_sentences(prepare, tmp_path):
    (tmp_path / "a.txt").touch()
    (tmp_path / "b.txt").write_text("One sentence.\nAnother document.\n")
    result = prepare(tmp_path / "*.txt", tmp_path / "out")
    assert_refused(result, "no document with two sentences in 2 files, 2 documents, 2 sentences")
    assert os.listdir(tmp_path / "out") == []


def test_strict_stops_at_the_file_and_byte_of_invalid_utf8(prepare, texts, tmp_path):
    (tmp_path / "bad.txt").write_bytes(b"Good one. And two.\nbad \xff\n")
    assert_refused(
        prepare(f"{texts},{tmp_path}/bad.txt", tmp_path / "out", "--strict"), "bad.txt:2: invalid UTF-8 at byte 23"
    )
    result = prepare(f"{texts},{tmp_path}/bad.txt", tmp_path / "out")
    assert result.returncode == 0 and "1 lines with invalid UTF-8" in result.stdout


# Processes of these tests are forks of a server that has imported TensorFlow once, which takes seconds.
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload([__name__])


def run_slowly(arguments, piece_bytes, most_bytes_of_a_file, errors):
    """Runs the command in a fork, with slow pieces and standard error in a file."""
    from keras_bert_app.cli import prepare_corpus  # here, because the other tests run this module as a command

    os.dup2(os.open(errors, os.O_WRONLY | os.O_CREAT), 2)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    if most_bytes_of_a_file:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes_of_a_file, most_bytes_of_a_file))
    small_pieces.use(setattr, piece_bytes, pause=0.2)
    sys.argv = ["prepare_corpus", *arguments]
    prepare_corpus.app.run(prepare_corpus.main, "")


@pytest.fixture
def start(texts, tmp_path):
    """A function that starts the command as a process with small, slow pieces, so that a test can stop it midway.

    The function returns the process and the path of its standard error.
    """

    def start_process(*more, piece_bytes=3000, most_bytes_of_a_file=0):
        arguments = f"--input_files={texts}", f"--output_dir={tmp_path}/out", "--num_shards=9", *more
        errors = tmp_path / "errors.txt"
        process = FORKS.Process(target=run_slowly, args=(arguments, piece_bytes, most_bytes_of_a_file, str(errors)))
        process.start()
        return process, errors

    return start_process


@pytest.fixture
def finish(prepare, texts, tmp_path, monkeypatch):
    """A function that runs the same command to its end in this process, with pieces of the same size.

    The function returns the printed text and the paths of the written pieces.
    """

    def run():
        written = small_pieces.use(monkeypatch.setattr, 3000)
        result = prepare(texts, tmp_path / "out", "--num_shards=9")
        assert result.returncode == 0, result.stderr
        return result.stdout, written

    return run


def wait_for(output_dir, pattern):
    deadline = time.monotonic() + 120
    while not list((output_dir / ".incomplete").glob(pattern)):
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.fixture(scope="module")
def uninterrupted(texts, tmp_path_factory):
    """The files of a run without interruption, in pieces of the usual size."""
    directory = tmp_path_factory.mktemp("uninterrupted") / "out"
    preparation.prepare_corpus(
        str(directory),
        input_files=[str(texts)],
        num_shards=9,
        seed=12345,
        draw=lambda report: draw_corpus_report(report, "out"),
    )
    return contents(directory)


@pytest.mark.parametrize(
    "moment",
    [
        pytest.param("spool/00001.json", marks=pytest.mark.slow),
        "shards/train-00003-of-00009.tfrecord.json",
    ],
)
def test_a_killed_run_continues_to_the_same_bytes_and_repeats_no_finished_work(
    start, tmp_path, finish, uninterrupted, moment
):
    process, _ = start()
    wait_for(tmp_path / "out", moment)
    process.kill()
    process.join()
    assert not (tmp_path / "out/manifest.json").exists()
    done = [str(path).removesuffix(".json") for path in (tmp_path / "out/.incomplete").glob("s*/*.json")]
    output, written = finish()
    assert "continues an earlier run" in output
    assert done and written and not [path for path in written if path.startswith(tuple(done))]
    assert contents(tmp_path / "out") == uninterrupted


@pytest.mark.parametrize("number, name", [(signal.SIGINT, "SIGINT"), (signal.SIGTERM, "SIGTERM")])
def test_a_signal_ends_the_run_with_one_line_and_the_run_can_continue(
    start, tmp_path, finish, uninterrupted, number, name
):
    process, errors = start()
    wait_for(tmp_path / "out", "spool/00000.json")
    os.kill(process.pid, number)
    process.join()
    assert process.exitcode == 128 + number
    assert errors.read_text() == f"stopped by {name}; the same command continues from what is finished\n"
    assert "continues an earlier run" in finish()[0] and contents(tmp_path / "out") == uninterrupted


def test_a_run_with_other_parameters_starts_over_and_says_so(start, tmp_path, finish, uninterrupted):
    process, _ = start("--seed=8")
    wait_for(tmp_path / "out", "spool/00001.json")
    process.kill()
    process.join()
    output, _ = finish()
    assert "starts over" in output and "seed was 8, is 12345" in output
    assert contents(tmp_path / "out") == uninterrupted


def test_a_second_process_is_refused(prepare, texts, tmp_path):
    (tmp_path / "out/.incomplete").mkdir(parents=True)
    with open(tmp_path / "out/.incomplete/lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert_refused(prepare(texts, tmp_path / "out"), "another process is preparing a corpus there")


def test_a_full_disk_gives_one_line_and_leaves_no_corpus(prepare, start, texts, tmp_path):
    # A limit on the size of files makes a write fail as a full disk does. Only the error number differs.
    process, errors = start(piece_bytes=1 << 24, most_bytes_of_a_file=20_000)
    process.join()
    assert process.exitcode == 2 and errors.read_text().count("\n") == 1, errors.read_text()
    assert "the corpus could not be written (File too large" in errors.read_text()
    assert not (tmp_path / "out/manifest.json").exists()
    result = prepare(texts, tmp_path / "out")
    assert result.returncode == 0, result.stderr


@pytest.mark.slow
def test_a_corpus_is_made_although_nobody_reads_the_output(texts, tmp_path):
    reader, writer = os.pipe()
    os.close(reader)
    result = subprocess.run(
        command("prepare_corpus", f"--input_files={texts}", f"--output_dir={tmp_path}/corpus"),
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
    )
    os.close(writer)
    assert result.returncode == 0 and not result.stderr, result.stderr
    assert load_manifest(f"{tmp_path}/corpus")["train"]["documents"] > 200
