"""`generate` continues texts, and its flags are checked before a model is loaded."""

import dataclasses

import numpy as np
import pytest

from keras_bert_app.export import text_stream
from keras_bert_app.interop import load
from tests.export.test_generation import GPT, expected_continuation
from tests.interop.conftest import CONFIGS, make_weights


@pytest.fixture(scope="module")
def workdir(tmp_path_factory):
    directory = tmp_path_factory.mktemp("my models") / "gpt"
    load.write_weights(GPT, "workdir", str(directory))
    return directory


def test_it_prints_each_text_with_its_continuation_and_a_remark_about_a_prompt_that_is_too_long(run, workdir):
    long = "a b c d e f g h " * 4
    done = run("generate", f"--workdir={workdir}", "--max_new_tokens=9", "--temperature=0", "a b", "d", long)
    expected = [f"{text}{expected_continuation(text, 9)}" for text in ("a b", "d")]
    assert (done.returncode, done.stdout.splitlines()[:2]) == (0, expected)
    kept = " ".join(long.split()[-(23 - 1 - 9) :])
    assert done.stdout.splitlines()[2:] == [f"{long}{expected_continuation(kept, 9)}"]
    assert done.stderr == "the model reads only the last 13 of 32 pieces of this text\n"


@pytest.mark.slow
def test_seeds_give_different_texts_that_repeat(run, workdir):
    arguments = ("generate", f"--workdir={workdir}", "--max_new_tokens=12", "--num_texts=2", "--temperature=2", "a b")
    texts = run(*arguments).stdout.splitlines()
    later = run(*arguments[:-1], "--seed=1", "a b").stdout.splitlines()
    assert len(set(texts)) == len(set(later)) == 2 and later[0] == texts[1]
    assert run(*arguments[:-1], f"--seed={2**31 - 1}", "a b").stdout.splitlines()[1] == texts[0]  # the next one is 0


def test_parts_of_a_stream_join_to_the_text_that_is_written_at_once(workdir, monkeypatch):
    stream = text_stream.TextStream(str(workdir), text_stream.GenerationOptions(max_new_tokens=20, temperature=1.5))
    seed, parts = next(
        (seed, parts) for seed in range(20) if len(list(filter(None, parts := list(stream.continued("a b", seed))))) > 2
    )
    monkeypatch.setattr(text_stream, "_STEPS_AT_A_TIME", 100)
    assert "".join(parts) == "".join(stream.continued("a b", seed)) and len(parts) > 2


@pytest.mark.parametrize(
    "text, written, expected",
    [
        (" one two", "", (" one", " one")),
        (" one two three", " one", (" two", " one two")),
        # The space after the opening quotation mark went away when the closing one came.
        (' he said "yes" and so', ' he said " yes', ('" and', ' he said "yes" and')),
        (" one", " one", ("", " one")),
        ("北京是中国", "北京", ("是中", "北京是中")),
        ("北京 b", "", ("北京", "北京")),
    ],
)
def test_the_last_word_waits_and_removed_spaces_do_not_repeat_text(text, written, expected):
    assert text_stream._stable_part(text, written) == expected


def test_a_fine_tuned_run_is_refused(run, tmp_path):
    kernel = {"classifier/kernel": np.ones((33, 2), np.float32), "classifier/bias": np.zeros(2, np.float32)}
    weights = GPT.changed({**GPT.tensors, **kernel})
    weights = dataclasses.replace(weights, task="token_classification", labels=("O", "B"))
    load.write_weights(weights, "workdir", str(tmp_path / "tagger"))
    done = run("generate", f"--workdir={tmp_path / 'tagger'}", "--max_new_tokens=5", "a")
    assert "is a fine-tuned run; give a pre-trained model" in done.stderr and done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "arguments, message",
    [
        (("a",), "--workdir is missing"),
        (("--workdir=x",), "no text was given; write it after the flags"),
        (("--workdir=x", "--top_p=0", "a"), "--top_p=0.0: expected more than 0 and at most 1"),
        (("--workdir=x", "--repetition_penalty=0", "a"), "--repetition_penalty=0.0: expected more than 0"),
        (("--workdir=x", "--temperature=nan", "a"), "--temperature=nan: expected 0 to 100"),
        (
            ("--workdir=x", "--temperature=0", "--seed=3", "a"),
            "--seed=3: is for draws, but --temperature=0",
        ),
        (("--workdir=x", "a"), "x: there is no such file or directory"),
    ],
)
def test_a_wrong_flag_gets_one_line(run, arguments, message):
    done = run("generate", *arguments)
    assert done.returncode == 2 and message in done.stderr and done.stderr.count("\n") == 1


def test_more_pieces_than_positions_and_a_model_without_a_head_get_one_line(run, workdir, tmp_path):
    done = run("generate", f"--workdir={workdir}", "--max_new_tokens=22", "a")
    assert "--max_new_tokens=22: expected at most 21, because the model has 23 positions" in done.stderr
    weights = make_weights(CONFIGS["one_layer"])
    tensors = {path: tensor for path, tensor in weights.tensors.items() if path.startswith("encoder/")}
    load.write_weights(weights.changed(tensors), "workdir", str(tmp_path / "encoder"))
    done = run("generate", f"--workdir={tmp_path / 'encoder'}", "--max_new_tokens=5", "a")
    assert "has no head that predicts pieces" in done.stderr and done.stderr.count("\n") == 1


def test_a_bert_fills_in_one_mask_after_the_other(run, tmp_path):
    weights = make_weights(CONFIGS["one_layer"].replace(max_position_embeddings=23))
    load.write_weights(weights, "workdir", str(tmp_path / "bert"))
    done = run("generate", f"--workdir={tmp_path / 'bert'}", "--max_new_tokens=5", "--temperature=0", "a b")
    assert done.returncode == 0 and done.stdout.startswith("a b ")
    assert len(done.stdout.split()) == 7
