"""Attention of one text, or of a pair: maps of all heads, between pieces and between words."""

from collections.abc import Callable

import numpy as np

from keras_bert_app.analysis import input_texts
from keras_bert_app.analysis.encoded_sentences import Encoded, encode_rows, row_length
from keras_bert_app.analysis.encoders import Subject, require_segments, untrained
from keras_bert_app.analysis.findings import Findings, Table
from keras_bert_app.analysis.options import Options
from keras_bert_app.drawing.attention_page import attention_page, draw_attention
from keras_bert_app.errors import UserError

SUMMARY = "maps of all heads for a text or a pair, as a page to click through and as pictures"
NEEDS = ("text",)
TAKES = ("text_pair", "num_seeds", "seed")
_MOST_TOKENS = 128  # with 12 x 12 heads the page has about 12 MB


def run(subject: Subject, options: Options, log: Callable[[str], None]) -> Findings:
    """Draws the attention of all heads for a text or a pair.

    Args:
        subject: Subject. The encoder to look into.
        options: Options. Uses text, text_pair, num_seeds and seed.
        log: Callable. Receives progress lines.

    Returns:
        Findings.

    Raises:
        UserError: a text has no word, or the row is too long for a picture.
    """
    texts = [text for text in (options.text, options.text_pair) if text]
    split_texts, row = _row(subject, texts)
    (encoded,) = encode_rows(subject, [row], with_attention=True)
    vocabulary = subject.tokenizer.vocabulary
    pieces = [vocabulary[token] for token in encoded.token_ids]
    is_special = special_units(encoded)
    words = iter([word for text in split_texts for word in text.words()])
    units = [
        pieces[start] if special else next(words)
        for start, special in zip(encoded.unit_starts(), is_special, strict=True)
    ]
    by_word = encoded.word_attention()
    baselines = [
        next(encode_rows(untrained(subject, options.seed + at), [row], with_attention=True)).word_attention()
        for at in range(options.num_seeds)
    ]
    title = " / ".join(texts)
    focus = (_strongest(by_word, is_special) or (0, 0))[:2]
    special_pieces = encoded.unit_starts()[is_special]
    levels = {
        "pieces": (encoded.attention, pieces, special_pieces),
        "words": (by_word, units, np.flatnonzero(is_special)),
    }
    files = {
        "attention.html": attention_page(levels, focus, f"Attention: {title}"),
        "attention_words.png": draw_attention(by_word, units, focus, f"Attention between words: {title}"),
        "attention_pieces.png": draw_attention(encoded.attention, pieces, focus, f"Attention between pieces: {title}"),
    }
    remarks = [
        f"{len(pieces)} tokens, {len(units)} words with [CLS] and [SEP]. In the maps between words, attention to a "
        "word is the sum over its pieces, and attention from a word is the mean over its pieces.",
        "entropy (in nats) and the share to [CLS] and [SEP] are means over rows and heads. untrained: the mean of "
        f"{options.num_seeds} seeds. With equal attention to all words, the share would be {is_special.mean():.4f} "
        f"and the entropy {np.log(len(units)):.4f} nats.",
        "strongest: the largest weight between two words that are not neighbours, over all heads of the layer. For "
        "untrained encoders, it is the largest weight over all heads of all seeds.",
    ]
    return Findings(
        "attention",
        f"Attention of {subject.name} encoder to {title!r}",
        [_table(by_word, baselines, is_special, units)],
        remarks,
        files,
        {"pieces": pieces, "words": units, "layers": by_word.shape[0], "heads": by_word.shape[1]},
    )


def _row(subject, texts):
    """(list of input_texts.Text, row of encode_rows)."""
    if len(texts) > 1:
        require_segments(subject.config, "--text_pair")
    split_texts = input_texts.cut(subject.tokenizer, texts)
    row = (split_texts[0].pieces, split_texts[1].pieces if len(split_texts) > 1 else None)
    most = min(_MOST_TOKENS, subject.config.max_position_embeddings)
    for text, pieces in zip(texts, row, strict=False):  # for one text, the missing segment B is not checked
        if not pieces:
            raise UserError(f"the text {text!r} holds no word; give one with words")
    if row_length(row) > most:
        raise UserError(
            f"the text has {row_length(row)} tokens; expected at most {most}, the limit of the model or of a map that "
            "people can read; give one or two sentences of the text"
        )
    return split_texts, row


def special_units(encoded: Encoded) -> np.ndarray:
    """Finds [CLS] and [SEP] among the units of a row.

    Args:
        encoded: encoded_sentences.Encoded.

    Returns:
        bool [U].
    """
    return ~np.isin(encoded.unit_starts(), encoded.spans[:, 0])


def entropy(attention: np.ndarray) -> np.ndarray:
    """Computes the entropy of distributions.

    Args:
        attention: float [..., S]. Distributions in the last axis.

    Returns:
        float [...], in nats.
    """
    return -np.sum(attention * np.log(np.maximum(attention, 1e-12)), axis=-1)


def _strongest(attention, is_special):
    """Finds the largest weight between two words that are not adjacent.

    Returns (layer, head, from, to), or None if there is no such pair.
    """
    places = np.arange(len(is_special))
    is_pair = ~(is_special[:, None] | is_special) & (abs(places[:, None] - places) > 1)
    if not is_pair.any():
        return None
    return tuple(map(int, np.unravel_index(np.argmax(np.where(is_pair, attention, -1)), attention.shape)))


def _table(by_word, baselines, is_special, units):
    """The table of layers.

    Args:
        by_word: float [L, N, U, U].
        baselines: list of float [L, N, U, U]. The attention of untrained encoders.
    """
    rows = []
    for layer, attention in enumerate(by_word):
        # [seeds x N, U, U]
        others = np.concatenate([baseline[layer] for baseline in baselines])
        strongest, other = _strongest(attention[None], is_special), _strongest(others[None], is_special)
        rows.append(
            (
                str(layer + 1),
                float(entropy(attention).mean()),
                float(entropy(others).mean()),
                float(attention[..., is_special].sum(axis=-1).mean()),
                float(others[..., is_special].sum(axis=-1).mean()),
                *(
                    (
                        float(attention[None][strongest]),
                        float(others[None][other]),
                        f"head {strongest[1] + 1}: {units[strongest[2]]} -> {units[strongest[3]]}",
                    )
                    if strongest
                    else (None,) * 3
                ),
            )
        )
    return Table(
        "Layers, between words",
        ("layer", "entropy", "untrained", "to [CLS], [SEP]", "untrained", "strongest", "untrained", "which"),
        rows,
    )
