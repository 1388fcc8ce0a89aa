"""States and attention of an encoder, by piece or by word, for sentences that are split into words.

Dimensions: L layers, N heads, W words, H hidden size. There are L + 1 states; the first is the output of the
embeddings. S counts the tokens of a sentence with [CLS] and [SEP]. U counts the units: [CLS], each word and each [SEP].
"""

import dataclasses
import functools
from collections.abc import Iterator, Sequence

import numpy as np
import tensorflow as tf

from keras_bert_app.analysis.encoders import Subject, require_attention
from keras_bert_app.config.bert_config import INPUTS
from keras_bert_app.errors import UserError
from keras_bert_app.tasks.batches import make_batch
from keras_bert_app.tasks.features import RowBuilder, piece_ids
from keras_bert_app.tasks.lengths import rounded

_TOKENS_A_BATCH = 4096
_MOST_ROWS = 64
_ATTENTION_A_BATCH = 1 << 26  # float32 weights of all heads; TensorFlow and numpy each hold a copy


@dataclasses.dataclass(frozen=True)
class Encoded:
    """One sentence as an encoder sees it.

    Attributes:
        number: int. The place of the sentence among the given ones.
        token_ids: int32 [S].
        spans: int32 [W, 2]. The tokens of each word, the end exclusive. Each word has at least one token. The words of
            a segment B follow the words of segment A.
        states: float32 [L + 1, S, H]. Some LSTMs have layers of different widths. H is then the largest one, and the
            vectors of the other layers end with zeros.
        attention: float32 [L, N, S, S] or None. Rows attend to columns. None without with_attention.
    """

    number: int
    token_ids: np.ndarray
    spans: np.ndarray
    states: np.ndarray
    attention: np.ndarray | None

    def word_states(self) -> np.ndarray:
        """Returns float32 [L + 1, W, H]: the mean of the states of each word's pieces."""
        starts, ends = self.spans.T
        sums = np.concatenate(
            [np.zeros_like(self.states[:, :1]), np.cumsum(self.states, axis=1, dtype=np.float64)], axis=1
        )
        return ((sums[:, ends] - sums[:, starts]) / (ends - starts)[:, None]).astype(np.float32)

    def unit_starts(self) -> np.ndarray:
        """Returns int64 [U]: the first token of each unit."""
        starts, ends = self.spans.T
        return np.setdiff1d(
            np.arange(len(self.token_ids)),
            np.concatenate(
                [np.arange(start + 1, end) for start, end in zip(starts, ends, strict=True)] or [np.zeros(0, np.int64)]
            ).astype(np.int64),
        )

    def word_attention(self) -> np.ndarray:
        """Computes attention between units.

        Attention to a word is the sum over its pieces. Attention from a word is the mean over its pieces. The rows
        still sum to 1 (Clark et al. 2019, What Does BERT Look At?, section 4.1).

        Returns:
            float32 [L, N, U, U].
        """
        starts = self.unit_starts()
        sizes = np.diff(np.append(starts, len(self.token_ids)))
        to_words = np.add.reduceat(self.attention, starts, axis=3)
        return np.add.reduceat(to_words, starts, axis=2) / sizes[:, None].astype(np.float32)


def encode(subject: Subject, sentences: list[Sequence[str]], with_attention: bool = False) -> Iterator[Encoded]:
    """Encodes the sentences that fit into the encoder's positions, in batches of similar lengths.

    A word that has no piece, such as a control character alone, becomes [UNK], so that words and spans agree.

    Args:
        subject: Subject. The encoder.
        sentences: list of sequences of str. The words of each sentence, at least one.
        with_attention: bool. Whether to return attention.

    Returns:
        iterator of Encoded, in another order than the sentences: `number` identifies the sentence.
    """
    return encode_rows(subject, [(words, None) for words in _pieces(subject.tokenizer, sentences)], with_attention)


def encode_rows(subject: Subject, rows: list[tuple], with_attention: bool = False) -> Iterator[Encoded]:
    """Encodes rows whose pieces are known. See encode.

    Args:
        subject: Subject. The encoder.
        rows: list of (A, B). A segment is a list of int32 arrays. Each array holds the pieces of one word and is not
            empty. B is None for a row of one segment.
        with_attention: bool. Whether to return attention.

    Yields:
        Encoded.

    Raises:
        UserError: with_attention is set, and the encoder has no attention or has pruned heads.
    """
    if with_attention and subject.config.num_heads_by_layer:
        raise UserError("the model was pruned, and its layers have different numbers of heads; give the whole model")
    if with_attention:
        require_attention(subject.config)
    lengths = np.array([row_length(row) for row in rows], np.int64)
    longest, heads = (
        subject.config.max_position_embeddings,
        subject.config.num_hidden_layers * subject.config.num_attention_heads,
    )
    order = [number for number in np.argsort(lengths, kind="stable") if lengths[number] <= longest]
    at = 0
    while at < len(order):
        count = 1
        while at + count < len(order) and count < _MOST_ROWS:
            length = rounded(lengths[order[at + count]], longest)
            if (
                length * (count + 1) > _TOKENS_A_BATCH
                or with_attention
                and heads * length**2 * (count + 1) > _ATTENTION_A_BATCH
            ):
                break
            count += 1
        yield from _encode_batch(subject, [(number, rows[number]) for number in order[at : at + count]], with_attention)
        at += count


def row_length(row: tuple) -> int:
    """Counts the tokens of a row of encode_rows, [CLS] and [SEP] included.

    Args:
        row: (A, B). See encode_rows.

    Returns:
        int.
    """
    return 1 + sum(1 + sum(map(len, segment)) for segment in row if segment is not None)


def num_tokens(subject: Subject, sentences: list[Sequence[str]]) -> np.ndarray:
    """Counts the tokens of sentences, [CLS] and [SEP] included.

    Args:
        subject: Subject. Its tokenizer splits the words.
        sentences: list of sequences of str.

    Returns:
        int64 [sentences].
    """
    return np.array([row_length((words, None)) for words in _pieces(subject.tokenizer, sentences)], np.int64)


def fitting(subject: Subject, items: list, path: str) -> tuple[list, int]:
    """Selects the items that fit into the encoder's positions.

    Select the items before you count anything. Baselines and encoders then see the same sentences.

    Args:
        subject: Subject. The encoder.
        items: list of objects with `words`, such as treebank.Tree.
        path: str. The file of the items, for the message.

    Returns:
        (list, int): the items that fit, and the number of items that do not.

    Raises:
        UserError: no item fits.
    """
    longest = subject.config.max_position_embeddings
    fits = num_tokens(subject, [item.words for item in items]) <= longest
    if not fits.any():
        raise UserError(
            f"{path}: none of its {len(items):,} sentences fits into the model's {longest} positions; give shorter ones"
        )
    return [item for item, fit in zip(items, fits, strict=True) if fit], int(np.sum(~fits))


def _pieces(tokenizer, sentences):
    """list of the pieces of each sentence's words, int32 arrays."""
    words = sorted({word for words in sentences for word in words})
    unknown = np.array([tokenizer.unk_id], np.int32)
    known = {word: ids if len(ids) else unknown for word, ids in zip(words, piece_ids(tokenizer, words), strict=True)}
    return [[known[word] for word in words] for words in sentences]


def _encode_batch(subject, rows, with_attention):
    builder = RowBuilder(subject.tokenizer)
    for _, row in rows:
        builder.add(
            *[None if segment is None else np.concatenate([np.zeros(0, np.int32), *segment]) for segment in row]
        )
    features = builder.features(range(len(rows)))
    lengths = features.row_lengths()
    length = rounded(lengths.max(), subject.config.max_position_embeddings)
    batch = make_batch(features, range(len(rows)), len(rows), length)
    outputs = _run(subject.encoder, with_attention)({name: tf.constant(batch[name]) for name in INPUTS})
    states = [outputs["embedding_output"], *outputs["encoder_outputs"]]
    states = np.stack([_widened(layer, subject.config.widest_state) for layer in states], axis=1)
    attention = np.stack(outputs["attention_scores"], axis=1) if with_attention else [None] * len(rows)
    for (number, row), size, ids, state, scores in zip(
        rows, lengths, batch["input_word_ids"], states, attention, strict=True
    ):
        yield Encoded(
            int(number),
            ids[:size],
            _spans(row),
            state[:, :size],
            None if scores is None else scores[:, :, :size, :size],
        )


def _widened(states, width):
    """float32 [B, S, width]. Zeros at the end change no cosine, no distance and no linear map."""
    return np.pad(states, [(0, 0), (0, 0), (0, width - states.shape[-1])])


def _spans(row):
    """int32 [W, 2]: the tokens of each word of a row."""
    spans, at = [], 1
    for segment in row:
        for word in segment or ():
            spans.append((at, at + len(word)))
            at += len(word)
        at += 1
    return np.array(spans, np.int32).reshape(-1, 2)


@functools.lru_cache(maxsize=4)  # tracing takes seconds; each cached encoder takes memory
def _run(encoder, with_attention):
    """Traces a graph from a batch of any size and length to the encoder's outputs."""

    @tf.function(autograph=False)
    def run(inputs):
        return encoder(inputs, return_attention_scores=with_attention)

    # Each encoder needs its own function. A concrete function avoids TensorFlow's warning about retracing.
    return run.get_concrete_function({name: tf.TensorSpec([None, None], tf.int32, name) for name in INPUTS})
