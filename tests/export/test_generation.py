"""The export of a GPT continues and scores raw texts. The expected values come from whole passes in this process."""

import dataclasses
import functools
import json
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from keras_bert_app.export import pretrained_export, raw_answers, saved_models
from keras_bert_app.interop import load
from tests.export.small_model import TOKENIZER, WEIGHTS
from tests.interop.conftest import make_weights

CONFIG = WEIGHTS.config.replace(architecture="gpt", hidden_act="gelu_tanh", num_hidden_layers=2)
GPT = dataclasses.replace(make_weights(CONFIG, seed=6), vocabulary=WEIGHTS.vocabulary)
# Larger weights give continuations with more than one piece.
GPT = GPT.changed({path: 3 * tensor for path, tensor in GPT.tensors.items()})
MODEL = load.build_model(GPT)


@functools.cache  # importing this module should trace nothing
def whole_pass():
    @tf.function(input_signature=[tf.TensorSpec([1, None], tf.int32)])
    def logits(ids):
        return MODEL({"input_word_ids": ids, "input_mask": tf.ones_like(ids)})["lm_logits"][0]

    return logits


def logits_after(ids):
    return whole_pass()(tf.constant([ids], tf.int32)).numpy()


@functools.cache
def expected_ids(text, new_tokens, penalty=1.1):
    """A greedy continuation by whole passes."""
    ids = [TOKENIZER.cls_id, *TOKENIZER.tokenize([text]).to_list()[0]]
    start = len(ids)
    while len(ids) < start + new_tokens and ids[-1] != TOKENIZER.sep_id:
        logits = logits_after(ids)[-1]
        for piece in set(ids):
            logits[piece] = logits[piece] / penalty if logits[piece] > 0 else logits[piece] * penalty
        logits[[*TOKENIZER.never_written, *range(TOKENIZER.vocab_size, len(logits))]] = -1e9
        ids.append(int(logits.argmax()))
    return ids[start:]


def expected_continuation(text, new_tokens, penalty=1.1):
    ids = [each for each in expected_ids(text, new_tokens, penalty) if each != TOKENIZER.sep_id]
    pieces = [TOKENIZER.vocabulary[each] for each in ids]
    words = " ".join(pieces).replace(" ##", "").replace(" .", ".").replace("[ ", "[").replace(" ]", "]")
    if not pieces or pieces[0].startswith(("##", ".", "]")):
        return words.removeprefix("##")
    return f" {words}"


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    directory = tmp_path_factory.mktemp("my exports")
    load.write_weights(GPT, "workdir", str(directory / "model"))
    written = pretrained_export.export_pretrained(str(directory / "model"), str(directory / "gpt"))
    return directory, written


@pytest.fixture(scope="module")
def signatures(exported):
    directory, _ = exported
    return saved_models.load(str(directory / "gpt")).signatures


def generate(signatures, texts, max_new_tokens, temperature=0.0, seed=0, top_k=0, top_p=1.0, penalty=1.1):
    rows, numbers = len(texts), {"max_new_tokens": max_new_tokens, "seed": seed, "top_k": top_k}
    arguments = {name: tf.constant(np.broadcast_to(value, [rows]), tf.int32) for name, value in numbers.items()}
    numbers = {"temperature": temperature, "top_p": top_p, "repetition_penalty": penalty}
    arguments |= {name: tf.constant(np.broadcast_to(value, [rows]), tf.float32) for name, value in numbers.items()}
    outputs = signatures["generate"](text=tf.constant(texts, tf.string), **arguments)
    return [text.decode() for text in outputs["continuation"].numpy()], outputs["truncated"].numpy().tolist()


def test_three_exports_are_written_and_the_raw_one_answers(exported, signatures):
    directory, written = exported
    assert [path.removeprefix(str(directory)) for path in written] == ["/gpt/1", "/gpt_ids/1", "/gpt_preprocess/1"]
    assert set(signatures) == {"serving_default", "generate", "log_likelihood", "ids"}
    serve, names = raw_answers.load(str(directory / "gpt"))
    ((row, answer),) = raw_answers.answers(serve, [{"text": "a b"}])
    assert names == ("text",) and set(answer) == {"continuation"}
    assert list(raw_answers.text_lines(row, answer)) == ["a b", f"  a b{answer['continuation']}"]


@pytest.mark.parametrize("penalty", [1.0, 1.3])
def test_greedy_continuations_equal_those_of_whole_passes(signatures, penalty):
    texts = ["a b", "", "d e f g", "c"]
    found, truncated = generate(signatures, texts, [9, 5, 1, 0], penalty=penalty)
    # The continuations have all their pieces, and another penalty gives others.
    assert len(expected_ids("a b", 9, penalty)) == 9 and expected_ids("a b", 9, penalty) != expected_ids("a b", 9, 2.5)
    assert found == [expected_continuation(*each, penalty) for each in zip(texts, [9, 5, 1, 0], strict=True)]
    assert truncated == [False] * 4


def test_a_long_prompt_loses_its_beginning_and_says_so(signatures):
    text = "a b c d e f g h " * 4
    (found,), truncated = generate(signatures, [text], [6])
    kept = " ".join(text.split()[-(23 - 1 - 6) :])
    assert truncated == [True] and found == expected_continuation(kept, 6)


def test_the_answer_to_a_text_does_not_depend_on_the_other_texts_of_the_batch(signatures):
    texts, numbers = ["a b", "d e f g h a b c", "c"], ([9, 12, 3], [1.5, 1.0, 2.0], [3, 4, 5], [0, 2, 1])
    together, _ = generate(signatures, texts, *numbers, top_p=0.9)
    alone = [
        generate(signatures, [text], *([each[row]] for each in numbers), top_p=0.9)[0][0]
        for row, text in enumerate(texts)
    ]
    assert together == alone and together[2] == expected_continuation("c", 3)  # its top_k is 1


def test_another_process_without_this_package_draws_the_same_texts(exported, signatures, tmp_path):
    program = """
import json, sys
import tensorflow as tf
import tensorflow_text
generate = tf.saved_model.load(sys.argv[1]).signatures["generate"]
numbers = {"max_new_tokens": 9, "top_k": 0}, {"temperature": 1.5, "top_p": 0.9, "repetition_penalty": 1.1}
arguments = {name: tf.fill([3], value) for values in numbers for name, value in values.items()}
texts = tf.constant(["a b", "c", "a b"])
drawn = generate(text=texts, seed=tf.constant([3, 4, 5]), **arguments)["continuation"]
print(json.dumps([text.decode() for text in drawn.numpy()]))
assert "keras_bert_app" not in sys.modules
"""
    command = [sys.executable, "-c", program, str(exported[0] / "gpt" / "1")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    here, _ = generate(signatures, ["a b", "c", "a b"], 9, 1.5, [3, 4, 5], top_p=0.9, penalty=1.1)
    assert json.loads(done.stdout.splitlines()[-1]) == here and len({*here}) == 3


def test_log_likelihoods_are_sums_over_the_pieces_of_a_text(signatures):
    texts = ["a b ab", "", "d", "a b c d e f g h " * 4]
    outputs = signatures["log_likelihood"](text=tf.constant(texts))
    for row, pieces in enumerate(TOKENIZER.tokenize(texts).to_list()):
        ids = [TOKENIZER.cls_id, *pieces[:21]]
        log_p = tf.nn.log_softmax(logits_after(ids)[:, : TOKENIZER.vocab_size]).numpy()
        expected = [log_p[place, piece] for place, piece in enumerate(ids[1:])]
        np.testing.assert_allclose(outputs["score"][row], sum(expected), rtol=1e-4, atol=1e-5)
        found = outputs["token_log_probabilities"][row].numpy()
        np.testing.assert_allclose(found[: len(expected)], expected, rtol=1e-4, atol=1e-5)
        assert outputs["num_tokens"][row] == len(expected)
    assert outputs["truncated"].numpy().tolist() == [False, False, False, True]


def test_numbers_outside_of_their_range_are_refused(signatures):
    for numbers in (
        {"temperature": -1.0},
        {"temperature": np.inf},
        {"top_k": -1},
        {"top_p": 0.0},
        {"penalty": 0.0},
        {"max_new_tokens": -1},
    ):
        with pytest.raises(tf.errors.InvalidArgumentError, match="expected max_new_tokens of 0 or more"):
            generate(signatures, ["a"], **{"max_new_tokens": 3, **numbers})


def test_no_text_gives_no_answer(signatures):
    nothing = tf.constant([], tf.string)
    assert signatures["serving_default"](text=nothing)["continuation"].shape == (0,)
    assert signatures["log_likelihood"](text=nothing)["score"].shape == (0,)
    assert generate(signatures, [], 5) == ([], [])
