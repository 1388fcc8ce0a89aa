"""Tiny SavedModels with the inputs and outputs of every kind of export, for the tests of the page.

The answers of most kinds are fixed. Embeddings and the encoder compute theirs from the input.
"""

import json
import os

import numpy as np
import tensorflow as tf

from keras_bert_app.serving import saved_model_files

# This label and text would run a script if the page treated it as markup.
HOSTILE = "<img src=x onerror=\"document.title='taken'\">"
SENTENCE = "Ada Lovelace met Charles Babbage in London \U0001f600 and Paris."
CONTEXT = "The tower \U0001f5fc is in Paris. It was built in 1889 for a fair."


def _spans(*words):
    starts = [list(SENTENCE).index(word[0]) if word == "Ada Lovelace" else SENTENCE.index(word) for word in words]
    return starts, [start + len(word) for start, word in zip(starts, words, strict=True)]


def _text_outputs():
    """Kinds with one answer for a whole text or pair -> (example inputs, outputs for each example)."""
    return {
        "fill_mask": (
            {"text": f"The [MASK] of the [MASK] {HOSTILE}"},
            {
                "tokens": [["name", "size", "##s", "type", HOSTILE], ["list", "tensor", "file", "model", "class"]],
                "probabilities": [[0.61, 0.2, 0.1, 0.05, 0.0004], [0.4, 0.3, 0.2, 0.06, 0.04]],
                "truncated": False,
            },
        ),
        "classification": (
            {"text_a": "A man eats.", "text_b": HOSTILE},
            {
                "label": "entailment",
                "probability": 0.72,
                "labels": ["contradiction", "entailment", HOSTILE],
                "probabilities": [0.08, 0.72, 0.2],
                "truncated": True,
            },
        ),
        "multi_label": (
            {"text": "Wheat and corn prices rose."},
            {
                "labels": ["corn", "grain", "wheat", "trade"],
                "probabilities": [0.8, 0.93, 0.97, 0.2],
                "is_chosen": [True, True, True, False],
                "truncated": False,
            },
        ),
        "regression": (
            {"text_a": "A plane takes off.", "text_b": "An air plane is taking off."},
            {"score": 4.7512, "truncated": False},
        ),
        "rerank": (
            {"query": "Who wrote the book?", "document": HOSTILE},
            {"scores": -3.25049, "truncated": False},
        ),
        "multiple_choice": (
            {
                "question": "What does he want?",
                "context": "He looks for his umbrella.",
                "choices": ["to go out", "to sleep", "to cook"],
            },
            {"choice": 0, "probabilities": [0.7, 0.1, 0.2], "truncated": False},
        ),
    }


def _place_outputs():
    """Kinds with answers for places in a text -> (example inputs, outputs for each example)."""
    starts, ends = _spans("Ada Lovelace", "Charles Babbage", "London", "Paris")
    words = SENTENCE.replace(".", " .").split()
    return {
        "tagging": (
            {"text": SENTENCE},
            {
                "words": words,
                "tags": ["O"] * len(words),
                "word_probabilities": [0.9] * len(words),
                "num_windows": 1,
                "entities": ["Ada Lovelace", "Charles Babbage", "London", "Paris"],
                "entity_labels": ["PER", "PER", "LOC", HOSTILE],
                "entity_probabilities": [0.98, 0.95, 0.99, 0.5],
                "entity_starts": starts,
                "entity_ends": ends,
            },
        ),
        "part_of_speech": (
            {"text": "Dogs bark loudly ."},
            {
                "words": ["Dogs", "bark", "loudly", "."],
                "tags": ["NOUN", "VERB", "ADV", "PUNCT"],
                "word_probabilities": [0.9, 0.8, 0.7, 0.99],
                "num_windows": 1,
            },
        ),
        "question_answering": (
            {"question": "When was the tower built?", "context": CONTEXT},
            {
                "answer": "1889",
                "probability": 0.83,
                "score": 11.2,
                "start": CONTEXT.index("1889"),
                "end": CONTEXT.index("1889") + 4,
                "nbest_answers": ["1889", "in 1889", HOSTILE, ""],
                "nbest_probabilities": [0.83, 0.12, 0.05, 0.0],
                "nbest_starts": [CONTEXT.index("1889"), CONTEXT.index("in 1889"), 0, -1],
                "num_windows": 1,
                "truncated": False,
            },
        ),
    }


def _tiled(values, inputs):
    """Returns the values for each example of the inputs [B, ...]."""
    batch = tf.shape(inputs)[:1]
    return {
        key: tf.tile(tf.constant(value)[None], tf.concat([batch, tf.ones(tf.rank(value), tf.int32)], 0))
        for key, value in values.items()
    }


def _write_text_to_text(root):
    """Writes three models that give the same texts: with alignments, with alignments that fail, and without."""
    text = {"texts": [f"Ein Buch. {HOSTILE}", "Buch."], "scores": [-0.5, -1.256], "truncated": False}
    attention = np.zeros((3, 64), np.float32)
    attention[0, :2], attention[1, 61] = (0.25, 0.75), 1.0
    alignments = {
        # More pieces than a heat map shows, then padding.
        "source_pieces": ["[CLS]", HOSTILE, *(f"piece{number}" for number in range(60)), "", ""],
        "target_pieces": ["Buch", "[SEP]", ""],
        "attention": attention.tolist(),
    }

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="text")])
    def serve(text_input):
        return _tiled(text, text_input)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="text")])
    def align(text_input):
        return _tiled(alignments, text_input)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="text")])
    def fail(text_input):
        with tf.control_dependencies([tf.debugging.assert_none_equal(text_input, text_input, message="no alignments")]):
            return _tiled(alignments, text_input)

    signatures = {"text_to_text": {"alignments": align}, "failing_alignments": {"alignments": fail}, "text_alone": {}}
    for name, further in signatures.items():
        example = {"text": ["A book."]}
        further = {"serving_default": serve, **further}
        _write(os.path.join(root, name, "1"), tf.Module(), further, "text_to_text", example, [])
    return list(signatures)


def _write_generation(root):
    """Writes a model that continues each text with what it was given."""

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="text")])
    def serve(text):
        return {"continuation": tf.fill(tf.shape(text), " and ends."), "truncated": tf.zeros_like(text, tf.bool)}

    numbers = {"max_new_tokens": tf.int32, "seed": tf.int32, "temperature": tf.float32, "top_p": tf.float32}
    specs = [tf.TensorSpec([None], dtype, name) for name, dtype in {"text": tf.string, **numbers}.items()]

    @tf.function(input_signature=specs)
    def generate(text, max_new_tokens, seed, temperature, top_p):
        shares = [tf.as_string(values, precision=2) for values in (temperature, top_p)]
        continuation = tf.strings.join(["", tf.as_string(max_new_tokens), *shares, HOSTILE], separator=" ")
        truncated = tf.logical_and(tf.zeros_like(text, tf.bool), seed > 0)
        return {"continuation": continuation, "truncated": truncated}

    example, signatures = {"text": ["Once"]}, {"serving_default": serve, "generate": generate}
    numbers = {"max_new_tokens": [20], "seed": [0], "temperature": [0.5], "top_p": [0.75]}
    directory = os.path.join(root, "generation", "1")
    _write(directory, tf.Module(), signatures, "generation", example, [], generate={**example, **numbers})
    return ["generation"]


def _write(directory, module, signatures, kind, example, labels, **examples):
    tf.saved_model.save(module, directory, signatures=signatures)
    with open(os.path.join(directory, "export.json"), "w", encoding="utf-8") as file:
        json.dump(
            {
                "kind": kind,
                "task": "",
                "labels": labels,
                "max_seq_length": 128,
                "examples": {"serving_default": example, **examples},
            },
            file,
        )
    saved_model_files.write_manifest(directory)


def write_all(root):
    """Writes ROOT/NAME/1 for every kind. Returns the names."""
    outputs = {**_text_outputs(), **_place_outputs()}
    for name, (example, answer) in outputs.items():
        specs = [
            tf.TensorSpec([None, None] if isinstance(value, list) else [None], tf.string, name=key)
            for key, value in example.items()
        ]

        @tf.function(input_signature=specs)
        def serve(*inputs, answer=answer):
            return _tiled(answer, inputs[0])

        labels = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"] if name == "tagging" else []
        kind = "tagging" if name == "part_of_speech" else name
        _write(
            os.path.join(root, name, "1"),
            tf.Module(),
            {"serving_default": serve},
            kind,
            {key: [value] for key, value in example.items()},
            labels,
        )

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="text")])
    def embed(text):
        """Makes vectors from lengths and hashes, so that different texts have different vectors."""
        numbers = [tf.cast(tf.strings.length(text), tf.float32)] + [
            tf.cast(tf.strings.to_hash_bucket_fast(tf.strings.substr(text, at, 3), 97), tf.float32) for at in (0, 2, 5)
        ]
        return {"embedding": tf.stack(numbers, axis=1), "truncated": tf.zeros_like(text, tf.bool)}

    _write(
        os.path.join(root, "embeddings", "1"),
        tf.Module(),
        {"serving_default": embed},
        "embeddings",
        {"text": ["A cat sits.", "A cat sat.", HOSTILE]},
        [],
    )

    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int32, name="input_word_ids")])
    def encode(input_word_ids):
        return {"pooled_output": tf.cast(input_word_ids, tf.float32) / 3}

    _write(
        os.path.join(root, "encoder", "1"),
        tf.Module(),
        {"serving_default": encode},
        "encoder",
        {"input_word_ids": [[2, 7, 3]]},
        [],
    )
    return [*outputs, *_write_text_to_text(root), *_write_generation(root), "embeddings", "encoder"]
