"""Makes examples from documents: tokenizes, pairs, packs and masks one block of text.

Language models:
    masked: BERT's. Some pieces are masked, and the model predicts them from both sides.
    causal: GPT's. Rows are [CLS] and consecutive pieces of the text, and the model predicts each piece from the pieces
        before it. [SEP] ends each document. Nothing is masked, and there are no pairs.
    bidirectional: ELMo's. The rows are those of "causal". A second model predicts each piece from the pieces after it.

With is_stream, rows of a causal or bidirectional model have no [CLS] of their own. Each document of the text is [CLS],
its pieces and [SEP], and each row begins with the last piece of the row before, so every piece after the first is
predicted once. An LSTM that keeps its state from row to row then reads the text as a whole.

Sentence objectives:
    nsp: Google's next-sentence prediction.
    sop: ALBERT's sentence order.
    none: RoBERTa's full sentences, [CLS] text [SEP]; [SEP] separates documents, and next_sentence_labels are 0.

Kinds of masking, each with the unit that is masked as a whole:
    piece: a piece.
    whole_word: a word.
    span: 1 to max_ngram words.
    lexicon: the longest phrases of the lexicon, and the words outside of them.
    segmented: the text between two spaces. A Chinese segmenter puts these spaces between words.
"""

from typing import NamedTuple

import tensorflow as tf

from pipelines.choices import LANGUAGE_MODELS, MASKINGS, OBJECTIVES
from pipelines.data_error import DataError
from pipelines.examples import masking as masks
from pipelines.examples import packing, pairs, units
from pipelines.ragged import keep, row_ids
from pipelines.wordpiece import token_columns


def block_examples(
    documents,
    tokenizer,
    seed,
    *,
    max_seq_length: int = 128,
    max_predictions_per_seq: int = 20,
    masked_lm_prob: float = 0.15,
    short_seq_prob: float = 0.1,
    sentence_objective: str = "nsp",
    masking: str = "piece",
    mask_token_rate: float = 0.8,
    random_token_rate: float = 0.1,
    max_ngram: int = 3,
    lexicon: units.Lexicon | None = None,
    other_documents=None,
    language_model: str = "masked",
    is_stream: bool = False,
) -> dict[str, tf.Tensor]:
    """Makes all examples of one pass over documents, in the order of the text.

    Args:
        documents: string [D]. Sentences separated by line feeds.
        tokenizer: pipelines.wordpiece.tokenizer.BertTokenizer.
        seed: int [2]. The examples are a pure function of the seed and the documents.
        max_seq_length: the length S of a row.
        max_predictions_per_seq: the number P of predictions of a row.
        masked_lm_prob: the share of a row's tokens that is predicted.
        short_seq_prob: the share of documents (or rows, without sentence pairs) with a random target length.
        sentence_objective: one of choices.OBJECTIVES; see the module's docstring.
        masking: one of choices.MASKINGS; see the module's docstring.
        mask_token_rate: the share of the predicted tokens that becomes [MASK].
        random_token_rate: the share of the predicted tokens that becomes a random piece.
        max_ngram: the most words of a span, for masking="span".
        lexicon: pipelines.examples.units.Lexicon for masking="lexicon", otherwise None.
        other_documents: string [O]. Documents that serve only as random second segments; they give no examples.
        language_model: one of choices.LANGUAGE_MODELS; see the module's docstring. Only with "masked" the arguments
            about masks and pairs have a meaning.
        is_stream: whether each row continues the row before; see the module's docstring.

    Returns:
        dict of N examples: input_word_ids, input_mask, input_type_ids int32 [N, S]. With "masked" also
        masked_lm_positions, masked_lm_ids int32 [N, P], masked_lm_weights float32 [N, P]; next_sentence_labels int32
        [N], 1 if random or swapped; and the inputs of the tokenizer's columns.
    """
    if language_model in ("causal", "bidirectional"):
        return _causal_rows(documents, tokenizer, seed, max_seq_length, is_stream)
    check_choices(sentence_objective, masking, lexicon, language_model)
    pair_seed, unit_seed, mask_seed = tf.unstack(tf.random.experimental.stateless_split(seed, 3))
    text = _make_text(documents, other_documents, tokenizer, sentence_objective, masking, unit_seed, max_ngram, lexicon)
    spans = _spans(text, tokenizer.sep_id, sentence_objective, pair_seed, max_seq_length, short_seq_prob)
    ids, input_mask, input_type_ids, source = _packed(text.tokens, spans, tokenizer, sentence_objective, max_seq_length)
    begins_unit = None if text.begins_unit is None else tf.gather(text.begins_unit, tf.maximum(source, 0))
    rates = dict(masked_lm_prob=masked_lm_prob, mask_token_rate=mask_token_rate, random_token_rate=random_token_rate)
    masked = _masked(ids, input_mask, begins_unit, tokenizer, mask_seed, max_predictions_per_seq, rates)
    batch = masked | {"input_mask": input_mask, "input_type_ids": input_type_ids}
    batch = _with_columns(batch, tokenizer.columns, text.columns, source)
    batch["next_sentence_labels"] = spans.next_sentence_labels
    return _with_static_shapes(batch, max_seq_length, max_predictions_per_seq)


def _masked(ids, input_mask, begins_unit, tokenizer, seed, max_predictions_per_seq, rates):
    return masks.mask_tokens(
        ids,
        input_mask,
        seed,
        max_predictions_per_seq=max_predictions_per_seq,
        vocab_size=tokenizer.vocab_size,
        mask_id=tokenizer.mask_id,
        never_masked=(tokenizer.cls_id, tokenizer.sep_id),
        begins_unit=begins_unit,
        **rates,
    )


def _with_columns(batch, columns, values, source):
    """Adds the inputs of the tokens' columns, if there are columns."""
    if columns is None:
        return batch
    return columns.hidden_at_masks(batch | columns.inputs(token_columns.at_places(values, source)))


def _causal_rows(documents, tokenizer, seed, max_seq_length, is_stream):
    """Makes rows of [CLS] and consecutive pieces of the text, or a stream."""
    sentences, sentences_per_document = _tokenized(documents, tokenizer, by_space=False)
    document_splits = tf.cumsum(tf.boolean_mask(sentences_per_document, sentences_per_document > 0))
    document_splits = tf.concat([[0], document_splits], axis=0)
    if is_stream:
        sentences = _with_beginnings(sentences, document_splits, tokenizer.cls_id)
    tokens = _with_separators(sentences, document_splits, tokenizer.sep_id).flat_values
    if is_stream:
        ids, input_mask = packing.pack_stream(tokens, max_seq_length, tokenizer.pad_id)
    else:
        spans = pairs.consecutive_rows(tf.size(tokens), seed, max_seq_length - 1)
        ids, input_mask = packing.pack_rows(tokens, spans, max_seq_length, tokenizer.cls_id, tokenizer.pad_id)
    batch = {"input_word_ids": ids, "input_mask": input_mask, "input_type_ids": tf.zeros_like(ids)}
    return {name: tf.ensure_shape(values, [None, max_seq_length]) for name, values in batch.items()}


class _Text(NamedTuple):
    """Tokenized documents.

    Attributes:
        tokens: int32 [T].
        begins_unit: bool [T]. Whether a token begins a unit of masking; None if each token does.
        sentence_lengths: int32 [M].
        document_splits: int32 [D + 1]. The first sentence of each document.
        num_paired: int32 scalar. Only the first num_paired documents give examples.
        columns: int32 [T, C], or None.
    """

    tokens: tf.Tensor
    begins_unit: tf.Tensor | None
    sentence_lengths: tf.Tensor
    document_splits: tf.Tensor
    num_paired: tf.Tensor
    columns: tf.Tensor | None


def _make_text(documents, others, tokenizer, sentence_objective, masking, unit_seed, max_ngram, lexicon):
    num_own = tf.size(documents)
    if others is not None:
        documents = tf.concat([documents, others], axis=0)
    sentences, sentences_per_document = _tokenized(documents, tokenizer, by_space=masking == "segmented")
    # Documents without a sentence are left out.
    num_paired = tf.reduce_sum(tf.cast(sentences_per_document[:num_own] > 0, tf.int32))
    document_splits = tf.cumsum(tf.boolean_mask(sentences_per_document, sentences_per_document > 0))
    document_splits = tf.concat([[0], document_splits], axis=0)
    if sentence_objective == "none":
        sentences = _with_separators(sentences, document_splits, tokenizer.sep_id)
    tokens, columns = _columns(sentences, tokenizer)
    sentences = sentences.with_flat_values(tokens)
    begins_unit = _unit_beginnings(sentences, masking, tokenizer, unit_seed, max_ngram, lexicon)
    if masking == "segmented":
        sentences = sentences.merge_dims(1, 2)
    sentence_lengths = tf.cast(sentences.row_lengths(), tf.int32)
    return _Text(tokens, begins_unit, sentence_lengths, document_splits, num_paired, columns)


def _columns(sentences, tokenizer):
    """Returns (int32 [T] ids, int32 [T, C] columns or None) of all sentences."""
    tokens = sentences.flat_values
    if tokenizer.columns is not None and tokenizer.columns.counts_lines:
        is_token = tokens[:, 1] > 0  # separators have no line
        by_line = sentences if sentences.ragged_rank == 1 else sentences.merge_dims(1, 2)
        lines = row_ids(by_line.row_splits) + 1
        tokens = token_columns.with_lines(tokens, tf.where(is_token, lines, 0))
    return token_columns.split_columns(tokens)


def _spans(text, sep_id, sentence_objective, seed, max_seq_length, short_seq_prob):
    """Draws the pairs or rows of text, as pairs.SegmentPairs."""
    if sentence_objective == "none":
        spans = pairs.full_sentences(text.sentence_lengths, seed, max_seq_length - 2, short_seq_prob)
        return _without_separators_at_edges(spans, text.tokens, sep_id)
    arguments = text.sentence_lengths, text.document_splits, seed, max_seq_length - 3, short_seq_prob
    if sentence_objective == "sop":
        return pairs.sentence_order_pairs(*arguments)
    return pairs.next_sentence_pairs(*arguments, num_paired=text.num_paired)


def _packed(tokens, spans, tokenizer, sentence_objective, max_seq_length):
    return packing.pack_pairs(
        tokens,
        spans,
        max_seq_length,
        tokenizer.cls_id,
        tokenizer.sep_id,
        tokenizer.pad_id,
        has_b=sentence_objective != "none",
    )


def _with_static_shapes(batch, max_seq_length, max_predictions_per_seq):
    """Sets the static shapes of all features; the number of examples stays unknown."""

    def shape(name, values):
        if name == "next_sentence_labels":
            return [None]
        length = max_seq_length if name.startswith("input_") else max_predictions_per_seq
        return [None, length, *values.shape[2:]]

    return {name: tf.ensure_shape(values, shape(name, values)) for name, values in batch.items()}


def check_choices(
    sentence_objective: str, masking: str, lexicon: units.Lexicon | None, language_model: str = "masked"
) -> None:
    """Refuses unknown choices, and a lexicon that is missing or has no use.

    Args:
        sentence_objective: str.
        masking: str.
        lexicon: pipelines.examples.units.Lexicon or None.
        language_model: str.

    Raises:
        DataError: a choice is unknown, or masking and lexicon do not belong together.
    """
    for name, value, choices in (
        ("sentence_objective", sentence_objective, OBJECTIVES),
        ("masking", masking, MASKINGS),
        ("language_model", language_model, LANGUAGE_MODELS),
    ):
        if value not in choices:
            raise DataError(f"{name} is {value!r}; expected one of {', '.join(choices)}")
    if (masking == "lexicon") != (lexicon is not None):
        raise DataError(
            "masking is 'lexicon' but no lexicon is given; give a lexicon, or choose another masking"
            if lexicon is None
            else f"a lexicon is given but masking is {masking!r}; expected 'lexicon'"
        )


def _tokenized(documents, tokenizer, by_space):
    """Tokenizes the sentences of documents.

    Sentences without a piece (control characters only) are left out.

    Returns:
        (RaggedTensor [M, (pieces)], or by space [M, (words), (pieces)], with a further axis if the tokenizer has
        columns; int32 [D] number of sentences of each document).
    """
    sentences = tf.strings.split(documents, "\n")
    if by_space:
        words = tf.strings.split(sentences.flat_values, " ")
        pieces = words.with_flat_values(tokenizer.tokenize_with_columns(words.flat_values))
        has_piece = pieces.merge_dims(1, 2).row_lengths() > 0
    else:
        pieces = tokenizer.tokenize_with_columns(sentences.flat_values)
        has_piece = pieces.row_lengths() > 0
    row_lengths = keep(sentences, has_piece).row_lengths()
    return tf.gather(pieces, tf.where(has_piece)[:, 0]), tf.cast(row_lengths, tf.int32)


def _with_separators(sentences, document_splits, sep_id):
    """Adds a separator after the last sentence of each document."""
    separators = _at_sentences(sentences, document_splits[1:] - 1, sep_id)
    if sentences.ragged_rank == 2:  # the separator is a separate word
        pieces = separators.flat_values
        separators = separators.with_flat_values(
            tf.RaggedTensor.from_row_lengths(pieces, tf.ones([tf.shape(pieces)[0]], tf.int64))
        )
    return tf.concat([sentences, separators], axis=1)


def _with_beginnings(sentences, document_splits, cls_id):
    """Adds [CLS] before the first sentence of each document."""
    return tf.concat([_at_sentences(sentences, document_splits[:-1], cls_id), sentences], axis=1)


def _at_sentences(sentences, numbers, piece):
    """Makes a RaggedTensor with one piece in the rows of the numbered sentences, and empty rows elsewhere."""
    has_piece = tf.scatter_nd(numbers[:, None], tf.ones_like(numbers), [sentences.nrows(tf.int32)])
    pieces = tf.fill([tf.size(numbers)], piece)
    if sentences.flat_values.shape.rank == 2:
        pieces = tf.pad(pieces[:, None], [[0, 0], [0, sentences.flat_values.shape[1] - 1]])
    return tf.RaggedTensor.from_row_lengths(pieces, tf.cast(has_piece, tf.int64))


def _without_separators_at_edges(spans, tokens, sep_id):
    """Removes separators at both ends of the spans, and then drops empty spans.

    Every row ends with a separator anyway. A separator at the start belongs to the previous document.
    """
    at_end = tf.cast(tf.gather(tokens, tf.maximum(spans.a_start + spans.a_length - 1, 0)) == sep_id, tf.int32)
    length = spans.a_length - at_end
    at_start = tf.cast((tf.gather(tokens, spans.a_start) == sep_id) & (length > 0), tf.int32)
    spans = spans._replace(a_start=spans.a_start + at_start, a_length=length - at_start)
    return pairs.SegmentPairs(*(tf.boolean_mask(values, spans.a_length > 0) for values in spans))


def _unit_beginnings(sentences, masking, tokenizer, seed, max_ngram, lexicon):
    """Marks the tokens of all sentences that begin a unit of masking, bool [T].

    Returns None if each token begins a unit.
    """
    if masking == "piece":
        return None
    if masking == "segmented":
        sentences = sentences.values  # [(words), (pieces)]
    tokens = sentences.flat_values
    row = row_ids(sentences.row_splits)
    begins_row = tf.concat([[True], row[1:] != row[:-1]], axis=0)[: tf.size(tokens)]
    begins_word = tf.gather(units.word_beginnings(tokenizer.vocabulary), tokens)
    if masking == "segmented":
        return begins_row
    if masking == "span":
        return units.span_beginnings(begins_word, begins_row, seed, max_ngram)
    if masking == "lexicon":
        return lexicon.beginnings(tokens, begins_word, tf.cast(tf.gather(sentences.row_limits(), row), tf.int32))
    return begins_word
