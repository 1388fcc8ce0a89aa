"""The weights and the batches of the benchmark of text-to-text speed, in the layouts of both sides."""

import contextlib
import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from keras_bert_app.config.bert_config import BertConfig
from keras_bert_app.errors import UserError
from keras_bert_app.interop.huggingface.huggingface_names import huggingface_name, transposed

TRAINING, DECODING = "training", "decoding"
# The special pieces are those of a vocabulary that learn_vocab writes.
PAD_ID, UNK_ID, BEGIN_ID, END_ID, MASK_ID, FIRST_WORD_ID = range(6)
NEVER_IDS = (PAD_ID, UNK_ID, BEGIN_ID, MASK_ID)
# Standard deviation of all weights. Biases and LayerNorm weights are random too, so that the outputs depend on them.
_SPREAD = 0.08
# Decoding multiplies the input of the output layer by this factor. Without it, thousands of pieces have almost the same
# probability. Rounding then decides which of two beams is better, and the texts of two libraries differ.
_SHARPENING = 3.0
# Decoding gives this bias to the special pieces. Their probability is then 0, so all texts have the same number of
# pieces.
_FORBIDDEN_BIAS = -1e4
_QUERY_KEY_VALUE = ("query", "key", "value")
_FUSED = {"query_key_value": _QUERY_KEY_VALUE, "key_value": _QUERY_KEY_VALUE[1:]}


class Work(NamedTuple):
    """What is timed.

    Attributes:
        kind: str. TRAINING or DECODING.
        num_beams: int. K; 1 for a greedy search. 0 for training.
        rows: int. B, the number of pairs or texts of a batch.
    """

    kind: str
    num_beams: int
    rows: int


def parsed(name: str) -> Work:
    """Parses training:ROWS or decoding:BEAMS:ROWS.

    Args:
        name: str. An entry of --works.

    Returns:
        Work.

    Raises:
        UserError: the entry has another form.
    """
    kind, *numbers = name.split(":")
    with contextlib.suppress(ValueError):
        numbers = [int(number) for number in numbers]
        if len(numbers) == {TRAINING: 1, DECODING: 2}.get(kind) and min(numbers) > 0:
            return Work(kind, numbers[0] if kind == DECODING else 0, numbers[-1])
    raise UserError(
        f"--works={name}: expected training:ROWS or decoding:BEAMS:ROWS, such as training:64 or decoding:5:32"
    )


@contextlib.contextmanager
def written(config: BertConfig, work: Work, source_length: int, target_length: int) -> Iterator[dict]:
    """Writes the configuration, the same random weights for both sides, and a batch of full rows.

    The files exist until the end of the block.

    Args:
        config: BertConfig. The encoder, and the decoder too.
        work: Work.
        source_length: int. S, pieces of a source.
        target_length: int. T, pieces of a target or of a decoded text.

    Yields:
        dict. The part of each request that describes the files and the work.
    """
    tensors = random_weights(config)
    if work.kind == DECODING:
        for path in ("masked_lm/layer_norm/gamma", "masked_lm/layer_norm/beta"):
            tensors[path] *= _SHARPENING
        tensors["masked_lm/output_bias"][:FIRST_WORD_ID] = _FORBIDDEN_BIAS
    with tempfile.TemporaryDirectory() as directory:
        with open(os.path.join(directory, "config.json"), "w", encoding="utf-8") as file:
            json.dump(config.to_dict(), file)
        np.savez(os.path.join(directory, "ours.npz"), **tensors)
        np.savez(os.path.join(directory, "transformers.npz"), **encoder_decoder_state(tensors))
        batch = random_batch(config, work.rows, source_length, target_length)
        np.savez(os.path.join(directory, "batch.npz"), **batch)
        yield {
            "directory": directory,
            "work": work.kind,
            "num_beams": work.num_beams,
            "length": target_length,
            "num_parameters": sum(tensor.size for tensor in tensors.values()),
        }


def random_weights(config: BertConfig) -> dict[str, np.ndarray]:
    """Random float32 arrays for all weights of a TextToTextModel that shares no weights, by path.

    Args:
        config: BertConfig.
    """
    from keras_bert_app.modeling.text_to_text_model import TextToTextModel

    generator = np.random.default_rng(2)
    return {
        variable.path: (
            float(variable.path.endswith("/gamma")) + _SPREAD * generator.standard_normal(variable.shape)
        ).astype(np.float32)
        for variable in TextToTextModel(config, make_decoder()).weights
    }


def make_decoder():
    """The Decoder of both sides: a Transformer with as many layers as the encoder, and with its own embeddings."""
    from keras_bert_app.modeling.text_to_text_model import TRANSFORMER, Decoder

    return Decoder(TRANSFORMER, 0, "nothing", BEGIN_ID, END_ID, NEVER_IDS)


def random_batch(config: BertConfig, rows: int, source_length: int, target_length: int) -> dict[str, np.ndarray]:
    """A batch of random pairs. Every row is full.

    Args:
        config: BertConfig.
        rows: int. B.
        source_length: int. S.
        target_length: int. T.

    Returns:
        dict of int32: input_word_ids, input_mask, input_type_ids [B, S]; target_word_ids [B, T + 1].
    """
    generator = np.random.default_rng(1)
    source, target = (
        generator.integers(FIRST_WORD_ID, config.vocab_size, (rows, length))
        for length in (source_length, target_length)
    )
    batch = {
        "input_word_ids": source,
        "input_mask": np.ones_like(source),
        "input_type_ids": np.zeros_like(source),
        "target_word_ids": np.concatenate([np.full((rows, 1), BEGIN_ID), target], axis=1),
    }
    return {name: values.astype(np.int32) for name, values in batch.items()}


def encoder_decoder_state(tensors: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The weights under the names of transformers' EncoderDecoderModel of two BERTs.

    Args:
        tensors: dict path -> array. The weights of a TextToTextModel that shares no weights.

    Returns:
        dict name -> array, without the weights that are tied to others.
    """
    return {
        _encoder_decoder_name(path): transposed(path, part)
        for fused_path, fused in tensors.items()
        for path, part in _parts(fused_path, fused)
    }


def _parts(path, array):
    """Splits a kernel or bias of several projections. Returns a list of (path, array)."""
    name = path.split("/")[-2]
    if name not in _FUSED:
        return [(path, array)]
    names = _FUSED[name]
    parts = np.split(array, len(names), axis=-1)
    return [(path.replace(f"/{name}/", f"/{each}/"), part) for each, part in zip(names, parts, strict=True)]


def _encoder_decoder_name(path):
    side = "encoder" if path.startswith("encoder/") else "decoder"
    # The attention to the encoder has the names of the attention of its layer, with another prefix.
    plain = path.replace("/cross_attention", "/attention").replace("decoder/", "encoder/", 1)
    name = huggingface_name(plain)
    if "/cross_attention" in path:
        name = name.replace(".attention.", ".crossattention.")
    return f"{side}.{name.removeprefix('bert.') if side == 'encoder' else name}"
