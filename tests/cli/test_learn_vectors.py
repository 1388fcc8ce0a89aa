"""learn_vectors and nearest_words as commands."""

import json

import pytest

from tests.cli.test_gpt_commands import assert_refused


def test_vectors_are_learned_shown_and_scored(run, texts, tmp_path):
    path = tmp_path / "my vectors.txt"
    flags = "--method=fasttext", "--vector_size=8", "--epochs=2", "--min_count=2"
    done = run("learn_vectors", f"--input_files={texts / 'text.txt'}", f"--vectors_file={path}", *flags)
    assert done.returncode == 0, done.stderr
    lines = path.read_text().splitlines()
    assert f"{len(lines):,} vectors of 8 numbers" in done.stdout and "epoch 2/2  loss" in done.stdout
    assert (tmp_path / "my vectors.txt.subwords.npz").exists() and len(lines[0].split(" ")) == 9
    words = [line.split(" ")[0] for line in lines]
    done = run("nearest_words", f"--vectors_file={path}", "--top_k=3", words[3], "--unknown_vectors=characters", "zzz")
    assert done.returncode == 0 and len(done.stdout.splitlines()) == 8 and done.stdout.startswith(f"{words[3]}\n")
    (tmp_path / "q.txt").write_text(f": all words\n{' '.join(words[:4])}\n{' '.join(words[1:4])} zzz\n")
    flags = f"--analogies_file={tmp_path / 'q.txt'}", "--output_format=jsonl"
    done = run("nearest_words", f"--vectors_file={path}", *flags)
    section, total = map(json.loads, done.stdout.splitlines())
    assert (section["section"], section["questions"], section["skipped"]) == ("all words", 1, 1)
    assert total["questions"] == 1 and total["interval"][0] <= total["accuracy"] <= total["interval"][1]
    done = run("learn_vectors", f"--input_files={texts / 'text.txt'}", f"--vectors_file={path}")
    assert_refused(done, "is there already; --overwrite replaces it, or name another place")


@pytest.mark.parametrize(
    "flags, message",
    [
        ([], "--input_files is missing; give text files, or a prepared corpus as --corpus_dir"),
        (["--input_files=a", "--corpus_dir=b"], "--input_files and --corpus_dir were both given; give one of them"),
        (["--input_files=a", "--subword_lengths=2,4"], "--subword_lengths=2,4: skip_gram has no subwords"),
        (["--input_files=a", "--method=fasttext", "--subword_lengths=2"], "--subword_lengths=2: expected the fewest"),
        (["--input_files=a", "--epochs=0"], "--epochs=0: expected 1 or more"),
    ],
)
def test_wrong_flags_of_learn_vectors_are_refused(run, tmp_path, flags, message):
    assert_refused(run("learn_vectors", f"--vectors_file={tmp_path / 'v.txt'}", *flags), message)


@pytest.mark.parametrize(
    "flags, message",
    [
        ([], "no word was given; write it after the flags: nearest_words --vectors_file=FILE king"),
        (["--analogies_file=q.txt", "king"], "words and --analogies_file were both given; give one of them"),
        (
            ["--analogies_file=q.txt", "--top_k=5"],
            "--top_k is for words; the nearest word alone answers",
        ),
        (["--output_format=xml", "king"], "--output_format=xml is not known"),
        (["king"], "cannot be read"),
    ],
)
def test_wrong_flags_of_nearest_words_are_refused(run, tmp_path, flags, message):
    assert_refused(run("nearest_words", f"--vectors_file={tmp_path / 'none.txt'}", *flags), message)
