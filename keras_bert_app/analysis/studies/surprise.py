"""The most surprising pieces of texts, by masked LM; and how well surprise finds a word that does not belong.

The surprisal of a piece is -log2 p(piece | all others), in bits, each masked in turn (Salazar et al. 2020). What it is
worth is measured by planting: in each text one piece of a whole word changes places with one of another text, and the most
surprising piece should be that one.
"""

import numpy as np
import tensorflow as tf

from keras_bert_app.analysis import input_texts
from keras_bert_app.analysis.findings import Findings, Table
from keras_bert_app.analysis.pseudo_likelihood import (
    piece_log_probabilities,
    require_masked_lm,
    room,
    unigram_log_probabilities,
)
from keras_bert_app.drawing.bars import draw_results
from keras_bert_app.errors import UserError

SUMMARY = "the most surprising pieces of --text, or else of --input_file, by masked LM, and what it says instead"
NEEDS = ()

_SHOWN, _AROUND = 20, 6
_BY_ITSELF = 200  # sentences


def check(options):
    """Raises UserError where there is no text to look at."""
    if not options.input_file and not options.text:
        raise UserError("--text is missing; give that, or --input_file with texts")


def run(subject, options, log):
    """Findings; options.text, or else input_file, max_sentences, seed."""
    require_masked_lm(subject)
    check(options)
    sentences, read = [options.text], "--text was read."
    if options.text and options.input_file:
        read = "--text was read, and --input_file was not."
    elif options.input_file:
        sentences, _ = input_texts.corpus_sentences(options.input_file, options.most_sentences(_BY_ITSELF))
        read = input_texts.read_remark(options, len(sentences), _BY_ITSELF)
    log(read)
    given, _, remark = input_texts.encodable(subject, sentences, room(subject))
    pieces = [np.concatenate(text.pieces).astype(np.int32) for text in given]
    bits = [-score / np.log(2) for score in piece_log_probabilities(subject, pieces, log)]
    numbers = np.repeat(np.arange(len(pieces)), [len(row) for row in pieces])
    places = np.concatenate([np.arange(len(row)) for row in pieces])
    order = np.argsort(-np.concatenate(bits), kind="stable")[:_SHOWN]
    shown = [(int(numbers[at]), int(places[at])) for at in order]
    guesses = _guesses(subject, [(pieces[text], place) for text, place in shown])
    rows = [
        [float(bits[text][place]), *_shown(subject.tokenizer, pieces[text], place), guess, share]
        for (text, place), (guess, share) in zip(shown, guesses)
    ]
    columns = ("bits", "before", "piece", "after", "expected", "with")
    tables = [Table(f"Most surprising of {len(places):,} pieces", columns, rows, digits=2)]
    unigrams = -unigram_log_probabilities(pieces, subject.tokenizer.vocab_size) / np.log(2)
    mean, plain = np.concatenate(bits).mean(), np.mean([unigrams[piece] for row in pieces for piece in row])
    remarks = [
        f"{len(given):,} texts. Mean surprisal {mean:.2f} bits a piece; by how often each stands in these texts, "
        f"counted once more, {plain:.2f}.",
        read,
        *([remark] if remark else []),
    ]
    values = {"mean_bits": float(mean), "mean_bits_of_unigrams": float(plain)}
    panels = [
        ("mean surprisal, bits a piece", {"masked LM": float(mean)}, {"how often each stands here": float(plain)})
    ]
    planted, where = plant(pieces, subject.tokenizer.vocabulary, options.seed)
    if len(planted) > 1:
        log("the same with a piece changed in each text")
        scores = piece_log_probabilities(subject, planted, log)
        results = {
            "most surprising piece": hits([-score for score in scores], where),
            "baseline: rarest piece": hits([unigrams[row] for row in planted], where),
            "baseline: chance": float(np.mean([1 / len(row) for row in planted])),
        }
        rows = [list(result) for result in results.items()]
        tables.append(Table(f"A planted piece found, of {len(planted):,} texts", ("", "accuracy"), rows))
        above = results["most surprising piece"] > max(results["baseline: rarest piece"], results["baseline: chance"])
        remarks.append(f"Surprise finds what does not belong {'better' if above else 'no better'} than its baselines.")
        values["planted"] = results
        found, *baselines = results.items()
        panels.append((f"planted piece found, of {len(planted):,} texts", dict([found]), dict(baselines)))
    title = f"Surprise in {'--text' if options.text else options.input_file}: {subject.name} model"
    return Findings("surprise", title, tables, remarks, {"surprise.png": draw_results(panels, title)}, values)


def plant(pieces, vocabulary, seed):
    """(texts with a piece of another text in each, where it stands), of those texts that have a word of one piece.

    Only words of letters that are one piece are taken out or put in, each by one of another spelling.

    Args:
        pieces: list of int32 arrays. vocabulary: list of str.
    """
    is_word = np.array([piece.isalpha() for piece in vocabulary])
    is_inner = np.array([piece.startswith("##") for piece in vocabulary])
    generator, rows, chosen = np.random.default_rng(seed), [], []
    for row in pieces:
        ends = np.append(~is_inner[row[1:]], True)
        whole = np.flatnonzero(is_word[row] & ends)
        if len(whole):
            rows.append(row.copy())
            chosen.append(int(generator.choice(whole)))
    taken = np.array([row[at] for row, at in zip(rows, chosen)], np.int32)
    planted, where = [], []
    for number, (row, at) in enumerate(zip(rows, chosen)):
        others = np.flatnonzero(taken != taken[number])
        if len(others):
            row[at] = taken[generator.choice(others)]
            planted.append(row)
            where.append(at)
    return planted, where


def hits(scores, where):
    """How often the highest score of a text stands at a place; a share where several are as high."""
    return float(np.mean([(row[at] == row.max()) / np.sum(row == row.max()) for row, at in zip(scores, where)]))


def _guesses(subject, asked):
    """For each (pieces, place) the likeliest piece there and its probability."""
    tokenizer, found = subject.tokenizer, []
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
        found.append((tokenizer.vocabulary[shares.argmax()], float(shares.max())))
    return found


def _shown(tokenizer, row, place):
    """A piece with some before it and after it, as text."""

    def joined(part):
        return " ".join(tokenizer.vocabulary[piece] for piece in part).replace(" ##", "")

    return (
        joined(row[max(0, place - _AROUND) : place]),
        tokenizer.vocabulary[row[place]],
        joined(row[place + 1 : place + 1 + _AROUND]),
    )
