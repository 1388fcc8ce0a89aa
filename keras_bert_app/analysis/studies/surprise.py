"""The most surprising pieces of texts by masked LM, and a test of surprise as a detector.

The surprisal of a piece is -log2 p(piece | all other pieces), in bits. The model sees each text with one piece masked
at a time (Salazar et al. 2020). The test plants a fault: in each text, it replaces a word of one piece by a word of one
piece from another text. The most surprising piece should be the planted one.
"""

from collections.abc import Callable

import numpy as np
import tensorflow as tf

from keras_bert_app.analysis import input_texts
from keras_bert_app.analysis.encoders import Subject
from keras_bert_app.analysis.findings import Findings, Table
from keras_bert_app.analysis.options import Options
from keras_bert_app.analysis.pseudo_likelihood import (
    piece_log_probabilities,
    require_masked_lm,
    room,
    unigram_log_probabilities,
)
from keras_bert_app.drawing.bars import draw_results
from keras_bert_app.errors import UserError
from keras_bert_app.training.evaluation import wilson_interval
from pipelines.wordpiece.vocabulary import SPECIAL_PIECES

SUMMARY = "the most surprising pieces of --text, or else of --input_file, by masked LM, and the pieces it expects"
NEEDS = ()
TAKES = ("text", "input_file", "max_sentences", "seed")

_SHOWN, _AROUND = 20, 6
_DEFAULT_SENTENCES = 200


def check(options: Options) -> None:
    """Checks that the options name a text.

    Args:
        options: Options.

    Raises:
        UserError: neither text nor input_file is set.
    """
    if not options.input_file and not options.text:
        raise UserError("--text is missing; give --text, or --input_file with texts")


def run(subject: Subject, options: Options, log: Callable[[str], None]) -> Findings:
    """Lists the most surprising pieces, and measures how often surprise finds a planted piece.

    Args:
        subject: Subject. A model with a masked-LM head.
        options: Options. Uses text, or else input_file; max_sentences and seed.
        log: Callable. Receives progress lines.

    Returns:
        Findings.

    Raises:
        UserError: the options name no text, or no text fits into the model's positions.
    """
    require_masked_lm(subject)
    check(options)
    sentences, read_remark = _sentences(options, subject.tokenizer)
    log(read_remark)
    texts, _, left_out = input_texts.encodable(subject, sentences, room(subject))
    pieces = [np.concatenate(text.pieces).astype(np.int32) for text in texts]
    bits = [-score / np.log(2) for score in piece_log_probabilities(subject, pieces, log)]
    unigrams = -unigram_log_probabilities(pieces, subject.tokenizer.vocab_size) / np.log(2)
    mean = np.concatenate(bits).mean()
    unigram_mean = np.mean([unigrams[piece] for row in pieces for piece in row])
    tables = [_surprise_table(subject, pieces, bits)]
    remarks = [
        f"{len(texts):,} texts. The mean surprisal is {mean:.2f} bits per piece. The frequencies of the pieces in "
        f"these texts, with add-one smoothing, would give {unigram_mean:.2f}.",
        read_remark,
        *([left_out] if left_out else []),
    ]
    values = {"mean_bits": float(mean), "mean_bits_of_unigrams": float(unigram_mean)}
    panels = [
        (
            "mean surprisal, bits a piece",
            {"masked LM": float(mean)},
            {"frequency in these texts": float(unigram_mean)},
        )
    ]
    intervals = {}
    planted, places = plant(pieces, subject.tokenizer.vocabulary, options.seed, subject.tokenizer.kind)
    if len(planted) > 1:
        log("scoring the texts again, each with a planted piece")
        results = _planted_accuracy(subject, planted, places, unigrams, log)
        intervals = {name: wilson_interval(result, len(planted)) for name, result in results.items()}
        intervals.pop("baseline: chance")
        rows = [[name, result, *intervals.get(name, (None, None))] for name, result in results.items()]
        tables.append(Table(f"A planted piece found, of {len(planted):,} texts", ("", "accuracy", "low", "high"), rows))
        remarks.append(_verdict(results, intervals["most surprising piece"]))
        values["planted"] = results
        ours, *baselines = results.items()
        panels.append((f"planted piece found, of {len(planted):,} texts", dict([ours]), dict(baselines)))
    title = f"Surprise in {'--text' if options.text else options.input_file}: {subject.name} model"
    picture = draw_results(panels, title, intervals)
    return Findings("surprise", title, tables, remarks, {"surprise.png": picture}, values)


def _verdict(results, interval):
    ours, *baselines = results.values()
    low, high = interval
    best = max(baselines)
    relation = "above" if low > best else "below" if high < best else "not distinguishable from"
    return (
        f"The most surprising piece is the planted one in {ours:.4f} of the texts (95 % interval {low:.4f} to "
        f"{high:.4f}, Wilson), {relation} the best baseline ({best:.4f})."
    )


def _sentences(options, tokenizer):
    """(list of str, remark on what was read)."""
    if options.text and options.input_file:
        return [options.text], "--text was read; --input_file was not used."
    if options.text:
        return [options.text], "--text was read."
    most = options.most_sentences(_DEFAULT_SENTENCES)
    sentences, _ = input_texts.corpus_sentences(options.input_file, most, tokenizer.kind)
    return sentences, input_texts.read_remark(options, len(sentences), _DEFAULT_SENTENCES)


def _surprise_table(subject, pieces, bits):
    text_numbers = np.repeat(np.arange(len(pieces)), [len(row) for row in pieces])
    places = np.concatenate([np.arange(len(row)) for row in pieces])
    order = np.argsort(-np.concatenate(bits), kind="stable")[:_SHOWN]
    shown = [(int(text_numbers[at]), int(places[at])) for at in order]
    guesses = _guesses(subject, [(pieces[text], place) for text, place in shown])
    rows = [
        [float(bits[text][place]), *_shown(subject.tokenizer, pieces[text], place), guess, share]
        for (text, place), (guess, share) in zip(shown, guesses, strict=True)
    ]
    columns = ("bits", "before", "piece", "after", "expected", "probability")
    return Table(f"Most surprising of {len(places):,} pieces", columns, rows, digits=2)


def _planted_accuracy(subject, planted, places, unigrams, log):
    """dict of name -> how often the planted piece is found."""
    scores = piece_log_probabilities(subject, planted, log)
    return {
        "most surprising piece": hits([-score for score in scores], places),
        "baseline: rarest piece": hits([unigrams[row] for row in planted], places),
        "baseline: chance": float(np.mean([1 / len(row) for row in planted])),
    }


def plant(
    pieces: list[np.ndarray], vocabulary: list[str], seed: int, tokenizer: str = "wordpiece"
) -> tuple[list[np.ndarray], list[int]]:
    """Replaces a word of one piece in each text by a different word of one piece from another text.

    Only words of letters take part, or all symbols. The result leaves out texts without such a word.

    Args:
        pieces: list of int32 arrays. The pieces of each text.
        vocabulary: list of str.
        seed: int. The seed that draws the words.
        tokenizer: str. The kind of the model's tokenizer.

    Returns:
        (list of int32 arrays, list of int): the texts with a planted piece, and its place in each.
    """
    is_symbol = tokenizer == "symbols"
    is_word = np.array([piece not in SPECIAL_PIECES if is_symbol else piece.isalpha() for piece in vocabulary])
    is_inner = np.array([piece.startswith("##") for piece in vocabulary])
    generator, rows, chosen = np.random.default_rng(seed), [], []
    for row in pieces:
        ends = np.append(~is_inner[row[1:]], True)
        whole = np.flatnonzero(is_word[row] & ends)
        if len(whole):
            rows.append(row.copy())
            chosen.append(int(generator.choice(whole)))
    taken = np.array([row[at] for row, at in zip(rows, chosen, strict=True)], np.int32)
    planted, positions = [], []
    for number, (row, at) in enumerate(zip(rows, chosen, strict=True)):
        others = np.flatnonzero(taken != taken[number])
        if len(others):
            row[at] = taken[generator.choice(others)]
            planted.append(row)
            positions.append(at)
    return planted, positions


def hits(scores: list[np.ndarray], positions: list[int]) -> float:
    """Computes how often the highest score of a text is at the given place.

    If n places share the highest score, the given one among them counts 1/n.

    Args:
        scores: list of float arrays, one for each text.
        positions: list of int. The place in each text.

    Returns:
        float, 0 to 1.
    """
    return float(
        np.mean([(row[at] == row.max()) / np.sum(row == row.max()) for row, at in zip(scores, positions, strict=True)])
    )


def _guesses(subject, asked):
    """list of (likeliest piece, its probability) for each (pieces, place)."""
    tokenizer, guesses = subject.tokenizer, []
    for row, place in asked:
        ids = np.concatenate([[tokenizer.cls_id], row, [tokenizer.sep_id]]).astype(np.int32)[None]
        ids[0, place + 1] = tokenizer.mask_id
        logits = subject.model(
            {
                "input_word_ids": tf.constant(ids),
                "input_mask": tf.ones_like(ids),
                "input_type_ids": tf.zeros_like(ids),
                "masked_lm_positions": tf.constant([[place + 1]]),
            },
            heads_only=True,
        )["mlm_logits"][0, 0, : tokenizer.vocab_size]
        shares = tf.nn.softmax(logits).numpy()
        guesses.append((tokenizer.vocabulary[shares.argmax()], float(shares.max())))
    return guesses


def _shown(tokenizer, row, place):
    """(text before, piece, text after) of a place."""

    def joined(part):
        return " ".join(tokenizer.vocabulary[piece] for piece in part).replace(" ##", "")

    return (
        joined(row[max(0, place - _AROUND) : place]),
        tokenizer.vocabulary[row[place]],
        joined(row[place + 1 : place + 1 + _AROUND]),
    )
