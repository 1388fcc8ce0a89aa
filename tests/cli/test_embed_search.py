"""`embed` and `search` as a user runs them."""

import gzip
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import types

import numpy as np
import pytest

from keras_bert_app.export import saved_models, sentence_vectors
from keras_bert_app.export.sentence_vectors import Pooling
from keras_bert_app.interop import own_layout
from keras_bert_app.vectors import embedding
from tests.cli.test_commands import ROOT, assert_refused, command
from tests.export.small_model import WEIGHTS

LINES = ["a b c", "", "d e f", "ab. h", "a b c", "c b a " * 20]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A directory with a model, its export, and texts. The directory name has a space."""
    directory = tmp_path_factory.mktemp("my vectors")
    own_layout.write(WEIGHTS, str(directory / "model"))
    sentence_vectors.export_embeddings(str(directory / "model"), str(directory / "export"), Pooling(normalize=True))
    (directory / "texts.txt").write_text("".join(f"{line}\n" for line in LINES))
    return directory


@pytest.fixture
def embed(run, place):
    return lambda *flags: run("embed", f"--input_file={place}/texts.txt", f"--output_file={place}/out.npy", *flags)


@pytest.fixture
def search(run, place):
    return lambda *arguments: run(
        "search", f"--saved_model={place}/export", f"--corpus_file={place}/texts.txt", *arguments
    )


def test_embed_writes_a_row_for_each_line_and_search_finds_the_nearest_lines(embed, search, place):
    result = embed(f"--saved_model={place}/export")
    assert result.returncode == 0 and result.stderr == "", result.stderr
    assert "6 vectors of 33 numbers" in result.stdout
    assert "1 texts had more tokens than the model reads" in result.stdout
    vectors = np.load(place / "out.npy")
    assert vectors.shape == (6, 33) and np.abs(vectors[0] - vectors[4]).max() < 1e-6
    cosines = vectors @ vectors[3]
    expected = np.argsort(-cosines)[:3]
    for vectors_flag in ([f"--vectors={place}/out.npy"], []):
        searched = search("--top_k=3", "--output_format=jsonl", *vectors_flag, LINES[3], "d")
        message = f"{place}/texts.txt: 1 texts had more tokens than the model reads; their ends were left out\n"
        assert searched.returncode == 0 and searched.stderr == ("" if vectors_flag else message), searched.stderr
        first, second = map(json.loads, searched.stdout.splitlines())
        assert first["query"] == LINES[3] and second["query"] == "d"
        assert [near["text_number"] for near in first["nearest"]] == [3 + 1, *(expected[1:] + 1)]
        np.testing.assert_allclose([near["cosine"] for near in first["nearest"]], cosines[expected], atol=2e-6)
        assert [near["text"] for near in first["nearest"]] == [LINES[row] for row in expected]
    table = search(f"--vectors={place}/out.npy", "--top_k=1", LINES[3]).stdout.splitlines()
    assert table[0] == LINES[3] and table[1].split() == ["1.000", "4", "ab.", "h"]


def test_embed_pools_a_model_without_an_export_and_reads_json_lines(run, place):
    with gzip.open(place / "x.jsonl.gz", "wt") as file:
        file.writelines(json.dumps({"body": line}) + "\n" for line in LINES)
    result = run(
        "embed",
        f"--init_checkpoint={place}/model",
        "--pooling=mean_max",
        "--layer=1",
        "--text_field=body",
        f"--input_file={place}/x.jsonl.gz",
        f"--output_file={place}/new/x.tsv",
        "--batch_size=2",
    )
    assert result.returncode == 0, result.stderr
    assert "layers 3 -> 1" in result.stdout
    module, _ = sentence_vectors.embedding_module(str(place / "model"), Pooling("mean_max", 1))
    expected = module.exported["serving_default"](LINES)["embedding"]
    np.testing.assert_allclose(np.loadtxt(place / "new" / "x.tsv", delimiter="\t"), expected, atol=1e-6)


class SlowPipe(io.RawIOBase):
    """A pipe whose parts arrive one by one. `answered` counts the lines of standard output before each part."""

    def __init__(self, parts):
        self.parts, self.answered = list(parts), []

    def readable(self):
        return True

    def readinto(self, buffer):
        self.answered.append(sys.stdout.getvalue().count("\n"))
        part = self.parts.pop(0) if self.parts else b""
        buffer[: len(part)] = part
        return len(part)


def test_queries_come_from_a_pipe_or_a_file(search, place, monkeypatch, run):
    assert (
        run(
            "embed",
            f"--saved_model={place}/export",
            f"--input_file={place}/texts.txt",
            f"--output_file={place}/corpus.npy",
        ).returncode
        == 0
    )
    flags = (f"--vectors={place}/corpus.npy", "--output_format=jsonl", "--top_k=1")
    pipe = SlowPipe([b"d e f\r\n", b"\xff ", b"a\n\n", b"h"])
    monkeypatch.setattr(sys, "stdin", types.SimpleNamespace(buffer=io.BufferedReader(pipe)))
    from_stdin = search(*flags, "--query_file=-")
    queries = [json.loads(line)["query"] for line in from_stdin.stdout.splitlines()]
    assert queries == ["d e f", "\ufffd a", "", "h"], from_stdin.stderr
    assert pipe.answered[:4] == [0, 1, 1, 3]  # no line waits for the next one
    (place / "queries.txt").write_text("d e f\nh\n")
    from_file = search(*flags, f"--query_file={place}/queries.txt")
    assert from_stdin.stdout.splitlines()[0] == from_file.stdout.splitlines()[0] and from_file.stdout.count("\n") == 2
    read_end, write_end = os.pipe()  # a pipe, such as <(...) of a shell, can be read only once
    os.write(write_end, b"d e f\n" + b"c b a " * 20)
    os.close(write_end)
    from_pipe = search(*flags, f"--query_file=/dev/fd/{read_end}")
    os.close(read_end)
    assert from_pipe.stdout.splitlines()[0] == from_file.stdout.splitlines()[0] and from_pipe.stdout.count("\n") == 2
    assert "1 queries had more tokens than the model reads" in from_pipe.stderr


@pytest.mark.parametrize(
    "flags, parts",
    [
        (["--input_file="], ["--input_file is missing"]),
        ([], ["--saved_model is missing", "--init_checkpoint"]),
        (["--saved_model=PLACE/export", "--init_checkpoint=PLACE/model"], ["give one of them"]),
        (["--saved_model=PLACE/export", "--layer=1"], ["--layer goes with --init_checkpoint"]),
        (["--saved_model=PLACE/export", "--output_file=PLACE/x.txt"], [".npy", ".tsv"]),
        (["--saved_model=PLACE/export", "--output_file=PLACE/folder.npy"], ["is a directory"]),
        (["--saved_model=PLACE/export", "--input_file=PLACE/none.txt"], ["none.txt", "o such file"]),
        (["--saved_model=PLACE/export", "--input_file=PLACE/empty.txt"], ["empty.txt", "has no text"]),
        (["--saved_model=PLACE/export", "--input_format=xml"], ["--input_format=xml", "jsonl"]),
        (["--saved_model=PLACE/none"], ["no SavedModel there"]),
        (["--init_checkpoint=PLACE/model", "--pooling=avg"], ["--pooling=avg"]),
        (["--init_checkpoint=PLACE/model", "--layer=7"], ["layers 1 to 3"]),
        (["--saved_model=PLACE/export", "surplus"], ["unexpected argument 'surplus'"]),
        (
            [
                "--saved_model=PLACE/export",
                "--input_file=PLACE/texts.tsv",
                "--output_file=PLACE/../PLACE_NAME/texts.tsv",
            ],
            ["is the --input_file, whose texts would be lost"],
        ),
        (
            ["--saved_model=PLACE/export", "--input_file=/dev/null", "--output_file=PLACE/out.npy"],
            ["/dev/null: cannot be read several times; give a regular file"],
        ),
    ],
)
def test_a_wrong_flag_of_embed_gives_one_line_and_leaves_no_file(embed, place, flags, parts):
    (place / "empty.txt").touch()
    (place / "texts.tsv").write_text("a b c\n")
    (place / "folder.npy").mkdir(exist_ok=True)
    (place / "out.npy").unlink(missing_ok=True)
    before = set(os.listdir(place))
    assert_refused(
        embed(*(flag.replace("PLACE_NAME", place.name).replace("PLACE", str(place)) for flag in flags)), *parts
    )
    assert set(os.listdir(place)) == before


@pytest.mark.parametrize(
    "arguments, parts",
    [
        ([], ["no query was given"]),
        (["x", "--query_file=-"], ["give one of them"]),
        (["x", "--output_format=csv"], ["csv", "table"]),
        (["x", "--top_k=0"], ["top_k"]),
        (["x", "--corpus_file=PLACE/empty.txt"], ["has no text"]),
        (["--query_file=PLACE/empty.txt"], ["empty.txt: has no query; write one a line"]),
        (["x", "--vectors=PLACE/texts.txt"], ["texts.txt", "embed"]),
        (["x", "--vectors=PLACE/few.npy"], ["5 vectors", "6 texts"]),
        (["x", "--vectors=PLACE/none.npy"], ["none.npy", "`embed` wrote"]),
        (["x", "--corpus_file=/dev/null"], ["cannot be read several times"]),
        (["x", "--vectors=PLACE/other.npy"], ["vector 1 is not that of text 1"]),
    ],
)
def test_a_wrong_flag_of_search_gives_one_line(search, place, arguments, parts):
    (place / "empty.txt").touch()
    (place / "none.npy").touch()
    np.save(place / "few.npy", np.ones((5, 33), np.float32))
    np.save(place / "other.npy", np.random.default_rng(0).normal(size=(6, 33)))
    assert_refused(search(*(argument.replace("PLACE", str(place)) for argument in arguments)), *parts)


def test_a_version_that_appears_during_the_loading_is_not_mixed_in(place, tmp_path, monkeypatch):
    exported, load = shutil.copytree(place / "export", tmp_path / "export"), saved_models.load

    def slow_load(path):
        loaded = load(path)
        shutil.copytree(exported / "1", exported / "2", dirs_exist_ok=True)
        (exported / "2" / "export.json").write_text("of another model")
        return loaded

    monkeypatch.setattr(saved_models, "load", slow_load)
    assert embedding.load_embedder(str(exported))([b"a b"])[0].shape == (1, 33)


def test_ctrl_c_leaves_nothing_half_written(place):
    (place / "many.txt").write_text("a b c d e f\n" * 500_000)
    flags = (f"--init_checkpoint={place}/model", f"--input_file={place}/many.txt", f"--output_file={place}/many.npy")
    # If a shell starts the tests in the background, their processes ignore SIGINT; a command at a terminal does not.
    process = subprocess.Popen(
        command("embed", *flags),
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    while not (place / "many.npy.tmp").exists():
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130 and errors == "interrupted\n"
    assert not [name for name in os.listdir(place) if name.startswith("many.npy")]
