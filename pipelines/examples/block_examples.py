"""Documents to masked examples: tokenize, find pairs, pack, mask; one pass over a block of text in one go."""

import tensorflow as tf

from pipelines.choices import MASKINGS, OBJECTIVES
from pipelines.data_error import DataError
from pipelines.examples import masking as masks
from pipelines.examples import packing, pairs, units
from pipelines.ragged import keep, row_ids


def block_examples(
    documents,
    tokenizer,
    seed,
    *,
    max_seq_length=128,
    max_predictions_per_seq=20,
    masked_lm_prob=0.15,
    short_seq_prob=0.1,
    sentence_objective="nsp",
    masking="piece",
    mask_token_rate=0.8,
    random_token_rate=0.1,
    max_ngram=3,
    lexicon=None,
):
    """All examples of one pass over some documents, in the order of the text.

    Args:
        documents: string [D], sentences separated by line feeds. tokenizer: pipelines.wordpiece.tokenizer.BertTokenizer.
        seed: int [2]; the examples are a pure function of it and of the documents.
        max_seq_length: S. max_predictions_per_seq: P. masked_lm_prob: share of a row's tokens that is predicted.
        short_seq_prob: share of documents (without pairs: of rows) cut shorter than S.
        sentence_objective: "nsp" (Google's next sentence), "sop" (ALBERT's sentence order) or "none" (RoBERTa's full
            sentences: [CLS] text [SEP], documents separated by [SEP], next_sentence_labels 0).
        masking: what is masked together: "piece", "whole_word", "span" (of 1 to max_ngram words), "lexicon" (the longest
            phrases of `lexicon`, else words) or "segmented" (what stands between spaces in the text, as a Chinese
            segmenter leaves it).
        mask_token_rate, random_token_rate: shares of the predicted tokens that become [MASK] or a random piece.
        lexicon: pipelines.examples.units.Lexicon, for masking="lexicon".

    Returns:
        dict of N examples: input_word_ids, input_mask, input_type_ids int32 [N, S]; masked_lm_positions, masked_lm_ids
        int32 [N, P], masked_lm_weights float32 [N, P]; next_sentence_labels int32 [N] (1: random, or swapped).
    """
    check_choices(sentence_objective, masking, lexicon)
    pair_seed, unit_seed, mask_seed = tf.unstack(tf.random.experimental.stateless_split(seed, 3))
    sentences, sentences_per_document = _tokenized(documents, tokenizer, by_space=masking == "segmented")
    document_splits = tf.concat([[0], tf.cumsum(sentences_per_document)], axis=0)
    if sentence_objective == "none":
        sentences = _with_separators(sentences, document_splits, tokenizer.sep_id)
    tokens = sentences.flat_values if masking != "segmented" else sentences.values.flat_values
    begins_unit = _unit_beginnings(sentences, masking, tokenizer, unit_seed, max_ngram, lexicon)
    if masking == "segmented":
        sentences = sentences.merge_dims(1, 2)
    sentence_lengths = tf.cast(sentences.row_lengths(), tf.int32)

    if sentence_objective == "none":
        spans = pairs.full_sentences(sentence_lengths, pair_seed, max_seq_length - 2, short_seq_prob)
        spans = _without_separators_at_edges(spans, tokens, tokenizer.sep_id)
    else:
        find = pairs.next_sentence_pairs if sentence_objective == "nsp" else pairs.sentence_order_pairs
        spans = find(sentence_lengths, document_splits, pair_seed, max_seq_length - 3, short_seq_prob)
    ids, input_mask, input_type_ids, source = packing.pack_pairs(
        tokens,
        spans,
        max_seq_length,
        tokenizer.cls_id,
        tokenizer.sep_id,
        tokenizer.pad_id,
        has_b=sentence_objective != "none",
    )
    masked = masks.mask_tokens(
        ids,
        input_mask,
        mask_seed,
        max_predictions_per_seq=max_predictions_per_seq,
        masked_lm_prob=masked_lm_prob,
        vocab_size=tokenizer.vocab_size,
        mask_id=tokenizer.mask_id,
        never_masked=(tokenizer.cls_id, tokenizer.sep_id),
        begins_unit=None if begins_unit is None else tf.gather(begins_unit, tf.maximum(source, 0)),
        mask_token_rate=mask_token_rate,
        random_token_rate=random_token_rate,
    )
    batch = {
        **masked,
        "input_mask": input_mask,
        "input_type_ids": input_type_ids,
        "next_sentence_labels": spans.next_sentence_labels,
    }
    row_shapes = {
        "input_word_ids": [max_seq_length],
        "input_mask": [max_seq_length],
        "input_type_ids": [max_seq_length],
        "next_sentence_labels": [],
    }
    return {
        name: tf.ensure_shape(values, [None] + row_shapes.get(name, [max_predictions_per_seq]))
        for name, values in batch.items()
    }


def check_choices(sentence_objective, masking, lexicon):
    """Raises DataError for a choice that there is not, or a lexicon without a use."""
    for name, value, choices in (
        ("sentence_objective", sentence_objective, OBJECTIVES),
        ("masking", masking, MASKINGS),
    ):
        if value not in choices:
            raise DataError(f"{name} is {value!r}; expected one of {', '.join(choices)}")
    if (masking == "lexicon") != (lexicon is not None):
        raise DataError(
            "masking is 'lexicon' but no lexicon is given"
            if lexicon is None
            else f"a lexicon is given but masking is {masking!r}; expected 'lexicon'"
        )


def _tokenized(documents, tokenizer, by_space):
    """(RaggedTensor [M, (pieces)], or by space [M, (words), (pieces)]; int32 [D] sentences of each document).

    Sentences without a piece (control characters only) and documents without a sentence are no text.
    """
    sentences = tf.strings.split(documents, "\n")
    if by_space:
        words = tf.strings.split(sentences.flat_values, " ")
        pieces = words.with_flat_values(tokenizer.tokenize(words.flat_values))
        has_piece = pieces.merge_dims(1, 2).row_lengths() > 0
    else:
        pieces = tokenizer.tokenize(sentences.flat_values)
        has_piece = pieces.row_lengths() > 0
    row_lengths = keep(sentences, has_piece).row_lengths()
    return tf.gather(pieces, tf.where(has_piece)[:, 0]), tf.cast(
        tf.boolean_mask(row_lengths, row_lengths > 0), tf.int32
    )


def _with_separators(sentences, document_splits, sep_id):
    """The sentences with a separator after the last one of each document."""
    is_last = tf.scatter_nd(
        document_splits[1:, None] - 1, tf.ones_like(document_splits[1:]), [sentences.nrows(tf.int32)]
    )
    separators = tf.RaggedTensor.from_row_lengths(
        tf.fill([tf.size(document_splits) - 1], sep_id), tf.cast(is_last, tf.int64)
    )
    if sentences.ragged_rank == 2:  # a word of its own
        separators = separators.with_flat_values(
            tf.RaggedTensor.from_row_lengths(separators.flat_values, tf.ones_like(separators.flat_values, tf.int64))
        )
    return tf.concat([sentences, separators], axis=1)


def _without_separators_at_edges(spans, tokens, sep_id):
    """Spans lose a separator at their end, since every row ends with one, and one that was cut off its document at their
    beginning; what is empty then is dropped."""
    at_end = tf.cast(tf.gather(tokens, tf.maximum(spans.a_start + spans.a_length - 1, 0)) == sep_id, tf.int32)
    length = spans.a_length - at_end
    at_start = tf.cast((tf.gather(tokens, spans.a_start) == sep_id) & (length > 0), tf.int32)
    spans = spans._replace(a_start=spans.a_start + at_start, a_length=length - at_start)
    return pairs.SegmentPairs(*(tf.boolean_mask(values, spans.a_length > 0) for values in spans))


def _unit_beginnings(sentences, masking, tokenizer, seed, max_ngram, lexicon):
    """bool [T], which tokens of all sentences begin a unit of masking; None where each does."""
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
