"""The best answers to one question from the logits of its windows, in graph.

tasks.families.answer_spans does the same for files. Dimensions: W windows, S the longest row, P tokens of the
context, C its characters, M possible answers.
"""

import tensorflow as tf

from pipelines.ragged import row_ids

# The number of possible answers to try for each answer to return. Several may have the same text, which counts once.
_TRIED = 20


def n_best(windows: list, characters, start_chars, end_chars, tokens, run, has_null: bool) -> dict:
    """Computes the answers to one question.

    Args:
        windows: list of four tensors for the windows. [0] float64 [W, S, 2]: the logits, -infinity at padding.
            [1] bool [W, S]: whether a token has its most context in this window. [2] bool [W, S]: whether the token
            belongs to the context. [3] int32 [W, S]: the place of the token among the tokens of the batch.
        characters: string [C]. The characters of the context.
        start_chars: int32 [P]. The first character of each token of the context.
        end_chars: int32 [P]. The end of each token of the context, exclusive.
        tokens: int32 [P]. The places of the context's tokens among the tokens of the batch.
        run: FinetuningConfig. It has the limits of answers.
        has_null: bool. Whether a question may have no answer.

    Returns:
        dict of tensors, as `signature` describes them.
    """
    texts, scores, start = _different_texts(windows, characters, start_chars, end_chars, tokens, run, has_null)
    probabilities = tf.nn.softmax(scores)
    chosen, odds = tf.constant(0), {}
    if has_null:
        is_null = texts == ""
        # `chosen` is the best answer that is a text. If no answer is a text, `chosen` is "no answer".
        chosen, null = (tf.argmax(tf.cast(mask, tf.int32), output_type=tf.int32) for mask in (~is_null, is_null))
        null_odds = scores[null] - scores[chosen]
        chosen = tf.where(null_odds > run.null_score_diff_threshold, null, chosen)
        odds["null_odds"] = tf.cast(null_odds, tf.float32)
    size = run.n_best_size + 1

    def padded(values, value):
        return tf.ensure_shape(tf.concat([values, tf.fill([size - tf.size(values)], value)], axis=0), [size])

    answer, first = texts[chosen], start[chosen]
    probabilities = tf.cast(probabilities, tf.float32)
    return {
        **odds,
        "answer": answer,
        "probability": probabilities[chosen],
        "score": tf.cast(scores[chosen], tf.float32),
        "start": first,
        "end": tf.where(first < 0, -1, first + tf.strings.length(answer, unit="UTF8_CHAR")),
        "nbest_answers": padded(texts, ""),
        "nbest_probabilities": padded(probabilities, 0.0),
        "nbest_starts": padded(start, -1),
    }


def signature(run, has_null: bool) -> dict[str, tf.TensorSpec]:
    """Describes the results of n_best.

    Args:
        run: FinetuningConfig. It has the number of answers.
        has_null: bool. Whether a question may have no answer.

    Returns:
        dict from name to tf.TensorSpec.
    """
    scalars = {
        "answer": tf.string,
        "probability": tf.float32,
        "score": tf.float32,
        "start": tf.int32,
        "end": tf.int32,
        **({"null_odds": tf.float32} if has_null else {}),
    }
    vectors = {"nbest_answers": tf.string, "nbest_probabilities": tf.float32, "nbest_starts": tf.int32}
    return {
        **{name: tf.TensorSpec([], dtype) for name, dtype in scalars.items()},
        **{name: tf.TensorSpec([run.n_best_size + 1], dtype) for name, dtype in vectors.items()},
    }


def _different_texts(windows, characters, start_chars, end_chars, tokens, run, has_null):
    """Returns texts, scores and first characters of the best answers, each text once. For arguments see n_best."""
    most, longest = run.n_best_size, tf.shape(windows[0])[1]
    scores, first, last = _candidates(*windows, tf.minimum(most, longest), run.max_answer_length)
    # All the best places may lie in the question. In that case try every place.
    scores, first, last = tf.cond(
        tf.size(scores) > 0,
        lambda: (scores, first, last),
        lambda: _candidates(*windows, longest, run.max_answer_length),
    )
    first_token = tf.concat([tokens, [0]], axis=0)[0]
    start, end = tf.gather(start_chars, first - first_token), tf.gather(end_chars, last - first_token)
    null = tf.reduce_min(tf.reduce_sum(windows[0][:, 0], axis=1))

    def with_null(count, parts):
        return [tf.concat([part, tf.fill([count], value)], axis=0) for part, value in parts]

    if has_null:
        scores, start, end = with_null(1, ((scores, null), (start, -1), (end, -1)))
    order = tf.argsort(scores, direction="DESCENDING", stable=True)[: _TRIED * most]
    scores, start, end = tf.gather(scores, order), tf.gather(start, order), tf.gather(end, order)
    places = tf.ragged.range(tf.maximum(start, 0), tf.maximum(_with_accents(characters, end), 0))
    texts = tf.strings.unsorted_segment_join(
        tf.gather(characters, places.flat_values), row_ids(places.row_splits), tf.size(scores)
    )
    # tf.unique keeps the order, so the best of several equal texts stays.
    texts, number = tf.unique(texts)
    if has_null:  # Keep the best answer that is a text, because the score of "no answer" is compared with its score.
        most += tf.cast(tf.reduce_all(texts[:most] == ""), tf.int32)
    at = tf.math.unsorted_segment_min(tf.range(tf.size(number)), number, tf.size(texts))[:most]
    texts, scores, start = texts[:most], tf.gather(scores, at), tf.gather(start, at)
    # Add "no answer" if it is possible and missing, even if the list then has n_best_size + 1 answers. Also add it
    # if the list is empty.
    is_missing = ~tf.reduce_any(texts == "") if has_null else tf.size(texts) == 0
    return with_null(tf.cast(is_missing, tf.int32), ((texts, ""), (scores, null), (start, -1)))


def _candidates(logits, is_best, is_context, place, size, max_answer_length):
    """Computes the possible answers in windows.

    Args:
        logits: see n_best, windows[0].
        is_best: see n_best, windows[1].
        is_context: see n_best, windows[2].
        place: see n_best, windows[3].
        size: int32 scalar. The number of best first tokens, and of best last tokens, to try in each window.
        max_answer_length: int. The most tokens of an answer.

    Returns:
        (score float64, first token int32, last token int32), each [M].
    """
    (start_logits, starts), (end_logits, ends) = (tf.math.top_k(logits[:, :, end], size) for end in (0, 1))
    lengths = ends[:, None, :] - starts[:, :, None] + 1
    fits = (lengths > 0) & (lengths <= max_answer_length)
    fits &= tf.gather(is_best, starts, batch_dims=1)[:, :, None] & tf.gather(is_context, ends, batch_dims=1)[:, None, :]
    first, last = (tf.gather(place, places, batch_dims=1) for places in (starts, ends))
    return (
        tf.boolean_mask(start_logits[:, :, None] + end_logits[:, None, :], fits),
        tf.boolean_mask(tf.broadcast_to(first[:, :, None], tf.shape(fits)), fits),
        tf.boolean_mask(tf.broadcast_to(last[:, None, :], tf.shape(fits)), fits),
    )


def _with_accents(characters, ends):
    """Moves ends [M] of parts of a text behind the accents that follow. Uncased pieces do not contain accents."""
    # The added "" represents the end of the text and counts as no accent.
    not_accents = tf.where(~tf.strings.regex_full_match(tf.concat([characters, [""]], axis=0), r"\p{Mn}"))[:, 0]
    moved = tf.gather(not_accents, tf.searchsorted(not_accents, tf.cast(tf.maximum(ends, 0), tf.int64)))
    return tf.where(ends < 0, ends, tf.cast(moved, tf.int32))
