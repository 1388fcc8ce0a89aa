"""The graph of an export refuses ids that are outside its tables, so every server refuses them."""

import numpy as np
import pytest
import tensorflow as tf

from keras_bert_app.export.choice_answers import ChoiceModule
from keras_bert_app.export.encoder_signatures import EncoderModule
from keras_bert_app.export.fill_mask_signatures import FillMaskModule
from keras_bert_app.export.question_answers import QuestionAnsweringModule
from keras_bert_app.export.sentence_vectors import EmbeddingModule, Pooling
from keras_bert_app.export.sequence_answers import SequenceModule
from keras_bert_app.export.tagging_answers import TaggingModule
from keras_bert_app.interop import load
from tests.export.small_model import ONE_LAYER, TOKENIZER
from tests.export.untrained import untrained

NAMES = ("input_word_ids", "input_mask", "input_type_ids")


@pytest.fixture(scope="module")
def model():
    return load.build_model(ONE_LAYER)


@pytest.fixture(scope="module")
def encoder(model):
    return EncoderModule(model.encoder)


@pytest.fixture(scope="module")
def fill_mask(model):
    return FillMaskModule(model, TOKENIZER, top_k=3).exported


def rows(length=4, **changed):
    """A batch of two rows. `changed` gives values for the end of the second row, by the name of the input."""
    inputs = {"input_word_ids": np.full((2, length), 6), "input_mask": np.ones((2, length)), "input_type_ids": None}
    inputs["input_type_ids"] = np.zeros((2, length))
    for name, value in changed.items():
        inputs[name][1, -1] = value
    return {name: tf.constant(values, tf.int32) for name, values in inputs.items()}


FAULTS = [
    (rows(input_type_ids=5), "input_type_ids: expected numbers from 0 to\\] \\[1\\] .* \\[0\\] \\[to\\] \\[5\\]"),
    (rows(input_type_ids=-1), "input_type_ids: expected numbers from 0 to"),
    (rows(input_mask=2), "input_mask: expected numbers from 0 to\\] \\[1\\]"),
    (rows(input_word_ids=19), "input_word_ids: expected numbers from 0 to\\] \\[18\\]"),
    (rows(input_word_ids=-1), "input_word_ids: expected numbers from 0 to"),
    (rows(24), "expected rows of at most 23 tokens; they have\\] \\[24\\]"),
    ({**rows(), "input_mask": tf.ones([2, 1], tf.int32)}, "input_mask: expected the shape of input_word_ids"),
    ({**rows(), "input_type_ids": tf.zeros([1, 4], tf.int32)}, "input_type_ids: expected the shape"),
]


@pytest.mark.parametrize("inputs, expected", FAULTS)
def test_signatures_of_a_pretrained_model_refuse_invalid_ids(encoder, fill_mask, inputs, expected):
    for ask in (
        lambda: fill_mask["ids"](**inputs),
        lambda: fill_mask["masked_lm"](**inputs, masked_lm_positions=tf.zeros([2, 1], tf.int32)),
        lambda: encoder.exported["serving_default"](**inputs),
        lambda: encoder.__call__(inputs),
    ):
        with pytest.raises(tf.errors.InvalidArgumentError, match=expected):
            ask()


@pytest.mark.parametrize(
    "positions, expected",
    [
        ([[0, 1, 2, 3, 0]] * 2, "expected at most one for each token; a row has\\] \\[5\\] \\[for\\] \\[4\\]"),
        ([[0] * 5000] * 2, "expected at most one for each token"),
        ([[0], [4]], "masked_lm_positions: expected numbers from 0 to\\] \\[3\\]"),
        ([[0], [-1]], "masked_lm_positions: expected numbers from 0 to"),
    ],
)
def test_masked_lm_takes_one_position_for_each_token_and_no_other_rows(fill_mask, positions, expected):
    with pytest.raises(tf.errors.InvalidArgumentError, match=expected):
        fill_mask["masked_lm"](**rows(), masked_lm_positions=tf.constant(positions))


def test_valid_rows_and_an_empty_batch_are_answered(model, encoder, fill_mask):
    longest = fill_mask["masked_lm"](**rows(23), masked_lm_positions=tf.constant([list(range(23))] * 2))
    assert longest["mlm_logits"].shape == (2, 23, 19)
    empty = {name: values[:0] for name, values in rows().items()}
    assert fill_mask["ids"](**empty)["sequence_output"].shape == (0, 4, 33)
    compiled = tf.function(encoder.__call__, jit_compile=True)
    expected = model.encoder(rows())["sequence_output"]
    np.testing.assert_allclose(compiled(rows())["sequence_output"], expected, atol=1e-5)


TASKS = {
    "classification": lambda: SequenceModule(untrained("sst-2", ("a", "b")), ["text"]),
    "tagging": lambda: TaggingModule(untrained("ner", ("O", "B-X")), 4),
    "question answering": lambda: QuestionAnsweringModule(untrained("squad2"), 4),
    "choices": lambda: ChoiceModule(untrained("swag"), ["context", "choices"]),
}


@pytest.mark.parametrize("task", TASKS)
def test_signatures_of_a_task_refuse_invalid_ids(task):
    ids = TASKS[task]().exported["ids"]
    has_groups = ids.input_signature[0].shape.rank == 3

    def asked(inputs):
        return ids(**{name: values[:, None] if has_groups else values for name, values in inputs.items()})

    asked(rows())
    with pytest.raises(tf.errors.InvalidArgumentError, match="input_type_ids: expected numbers from 0 to"):
        asked(rows(input_type_ids=5))


def test_sentence_vectors_of_invalid_ids_are_refused(model):
    ids = EmbeddingModule(model.encoder, TOKENIZER, Pooling("mean", max_seq_length=23), (1,)).exported["ids"]
    with pytest.raises(tf.errors.InvalidArgumentError, match="input_type_ids: expected numbers from 0 to"):
        ids(**rows(input_type_ids=5))
