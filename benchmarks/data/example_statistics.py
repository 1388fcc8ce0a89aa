"""Statistics of pre-training examples. A statistic is an array of integers and the document of each integer.

Dimensions: N examples, S positions, P predictions in each example.
"""

import typing

import numpy as np

from benchmarks.data import segment_locations
from benchmarks.data.segment_locations import document_at, sentence_at

MASKED, KEPT, REPLACED = 0, 1, 2
_TWENTIETHS = 20
_SHORT_DOCUMENT = 20  # sentences
_DOCUMENT_CLASSES = 50


class Statistic(typing.NamedTuple):
    """One statistic of one builder's examples.

    Attributes:
        name: str. Title in the table.
        values: int array [n]. The entries.
        documents: int array [n]. The document of each entry. An example belongs to the document of its segment A.
        categories: tuple of str. Names of the values 0, 1, and so on; () if the values are numbers.
        is_compared: bool. Whether the statistic counts for the verdict. Where it is False, a comment gives the reason.
    """

    name: str
    values: np.ndarray
    documents: np.ndarray
    categories: tuple = ()
    is_compared: bool = True


class Examples(typing.NamedTuple):
    """The examples of one builder.

    Attributes:
        rows: int32 array [N, S]. Ids of the original pieces, before masking.
        shown: int32 array [N, S]. Ids after masking, the model's input.
        lengths: int array [N]. Number of pieces, special pieces included.
        a_lengths: int array [N]. Number of pieces of segment A.
        b_lengths: int array [N]. Number of pieces of segment B.
        is_random: int array [N]. 1 if segment B is random.
        num_masked: int array [N]. Number of predictions.
        positions: int array [N, P]. Positions of the predictions.
    """

    rows: np.ndarray
    shown: np.ndarray
    lengths: np.ndarray
    a_lengths: np.ndarray
    b_lengths: np.ndarray
    is_random: np.ndarray
    num_masked: np.ndarray
    positions: np.ndarray


def examples_from(arrays: dict[str, np.ndarray]) -> Examples:
    """Examples from the arrays that peer_google_pretraining_data._arrays describes.

    Args:
        arrays: dict of int32 arrays by name.
    """
    shown, positions, num_masked = (arrays[name] for name in ("input_word_ids", "masked_lm_positions", "num_masked"))
    row, slot = np.nonzero(np.arange(positions.shape[1]) < num_masked[:, None])
    rows = shown.copy()
    rows[row, positions[row, slot]] = arrays["masked_lm_ids"][row, slot]
    b_lengths = arrays["input_type_ids"].sum(1) - 1
    return Examples(
        rows,
        shown,
        arrays["lengths"],
        arrays["lengths"] - b_lengths - 3,
        b_lengths,
        arrays["next_sentence_labels"],
        num_masked,
        positions,
    )


def examples_by_fault(
    examples: Examples, locations: tuple, tokenizer, masked_lm_prob: float, max_predictions_per_seq: int
) -> dict[str, int]:
    """Counts the examples that have each fault. A correct builder has none.

    Args:
        examples: Examples.
        locations: pair of Locations, of segments A and B.
        tokenizer: BertTokenizer.
        masked_lm_prob: float. Share of pieces to predict.
        max_predictions_per_seq: int. P.

    Returns:
        dict. Fault -> number of examples that have this fault.
    """
    rows, lengths, num_masked = examples.rows, examples.lengths, examples.num_masked
    row_numbers = np.arange(len(rows))
    row, _, position = _masked(examples)
    is_masked = np.zeros(rows.shape, bool)
    is_masked[row, position] = True
    columns = np.arange(rows.shape[1])
    expected = [min(max_predictions_per_seq, max(1, round(length * masked_lm_prob))) for length in lengths.tolist()]
    is_step = np.arange(1, max_predictions_per_seq) < num_masked[:, None]
    is_wrong_step = (np.diff(examples.positions, axis=1) <= 0) & is_step
    has_wrong_specials = (
        (rows[row_numbers, 0] != tokenizer.cls_id)
        | (rows[row_numbers, lengths - 1] != tokenizer.sep_id)
        | (rows[row_numbers, examples.a_lengths + 1] != tokenizer.sep_id)
    )
    is_wrong_padding = (rows != tokenizer.pad_id) & (columns >= lengths[:, None])
    is_special = np.isin(rows, (tokenizer.cls_id, tokenizer.sep_id))
    has_fault = {
        "the special pieces are not those of [CLS] A [SEP] B [SEP]": has_wrong_specials,
        "a position after the last [SEP] is not padding": is_wrong_padding.any(1),
        "segment A is not a run of pieces of one document": locations[0].is_wrong,
        "segment B is not a run of pieces of one document": locations[1].is_wrong,
        "the number of predictions is not min(max_predictions_per_seq, max(1, round(masked_lm_prob * length)))": (
            num_masked != expected
        ),
        "the positions of the predictions do not ascend": is_wrong_step.any(1),
        "[CLS] or [SEP] is to be predicted": (is_special & is_masked).any(1),
        "[MASK] is at a position without a prediction": ((examples.shown == tokenizer.mask_id) & ~is_masked).any(1),
    }
    return {fault: int(examples_with_fault.sum()) for fault, examples_with_fault in has_fault.items()}


def locate_segments(corpus: segment_locations.Corpus, examples: Examples) -> tuple:
    """Locations of segment A and of segment B.

    Args:
        corpus: Corpus.
        examples: Examples.

    Returns:
        (Locations of segment A, Locations of segment B).
    """
    return (
        segment_locations.locate(corpus, examples.rows, np.ones_like(examples.a_lengths), examples.a_lengths),
        segment_locations.locate(corpus, examples.rows, examples.a_lengths + 2, examples.b_lengths),
    )


def statistics(
    examples: Examples,
    locations: tuple,
    corpus: segment_locations.Corpus,
    mask_id: int,
    frequency_ranks: np.ndarray,
) -> list[Statistic]:
    """All statistics of one builder's examples.

    Args:
        examples: Examples.
        locations: pair of Locations, of segments A and B.
        corpus: Corpus.
        mask_id: int. Id of [MASK].
        frequency_ranks: int array [V]. Rank of each piece in the corpus, 0 for the most frequent one.
    """
    documents = document_at(corpus, locations[0].start)
    return [
        *_of_examples(examples, documents),
        *_of_masks(examples, documents, mask_id, frequency_ranks),
        *_of_segments(examples, locations, documents, corpus),
        *_of_pairs(examples, locations, documents, corpus),
        *_of_documents(examples, locations, documents, corpus),
    ]


def _of_examples(examples, documents):
    lengths, is_random = examples.lengths, examples.is_random
    seq_length = examples.rows.shape[1]

    def statistic(name, values, chosen=slice(None), categories=()):
        return Statistic(name, values[chosen], documents[chosen], categories)

    yield statistic("sequence length", lengths)
    yield statistic("length of A", examples.a_lengths)
    yield statistic("length of B", examples.b_lengths)
    yield statistic("length of B, next", examples.b_lengths, is_random == 0)
    yield statistic("length of B, random", examples.b_lengths, is_random == 1)
    labels = ("next", "random")
    yield statistic("label", is_random, categories=labels)
    for name, chosen in (
        ("under S/2", lengths < seq_length // 2),
        ("S/2 to S - 1", (lengths >= seq_length // 2) & (lengths < seq_length)),
        ("S", lengths == seq_length),
    ):
        yield statistic(f"label, sequence length {name}", is_random, chosen, labels)


def _of_masks(examples, documents, mask_id, frequency_ranks):
    yield Statistic("predictions", examples.num_masked, documents)
    row, _, position = _masked(examples)
    label, shown = examples.rows[row, position], examples.shown[row, position]
    kind = np.where(shown == mask_id, MASKED, np.where(shown == label, KEPT, REPLACED))

    def statistic(name, values, chosen=slice(None), categories=()):
        return Statistic(name, values[chosen], documents[row[chosen]], categories)

    yield statistic("[MASK] / kept (also by chance) / replaced", kind, categories=("[MASK]", "kept", "replaced"))
    yield statistic("position of predictions", position)
    yield statistic("position in twentieths of the length", position * _TWENTIETHS // examples.lengths[row])
    yield statistic(
        "predictions in segment", (position > examples.a_lengths[row] + 1).astype(int), categories=("A", "B")
    )
    yield statistic("frequency rank of pieces to predict", frequency_ranks[label])
    yield statistic("id of replacing pieces", shown, kind == REPLACED)


def _of_segments(examples, locations, documents, corpus):
    """Statistics of the cuts of segments A and B. Entries are the examples whose segments are located."""
    segments = zip("AB", locations, (examples.a_lengths, examples.b_lengths), strict=True)
    for name, place, lengths in segments:
        yield Statistic(f"{name} located", place.is_located.astype(int), documents, ("no", "yes"))
        chosen = place.is_located
        first, last = place.start[chosen], place.start[chosen] + lengths[chosen] - 1
        front = first - corpus.sentence_starts[sentence_at(corpus, first)]
        back = corpus.sentence_starts[sentence_at(corpus, last) + 1] - 1 - last
        owners = documents[chosen]
        sides = ("neither", "front", "back", "both")
        yield Statistic(f"{name} cut at", (front > 0) + 2 * (back > 0), owners, sides)
        yield Statistic(f"pieces cut from the front of {name}'s first sentence", front[front > 0], owners[front > 0])
        yield Statistic(f"pieces cut from the back of {name}'s last sentence", back[back > 0], owners[back > 0])


def _located_pairs(examples, locations, documents, corpus):
    """(examples whose two segments are located, first pieces of A, of B, documents of A, of B, whether B is random)."""
    both = locations[0].is_located & locations[1].is_located
    a_place, b_place = (place.start[both] for place in locations)
    return both, a_place, b_place, documents[both], document_at(corpus, b_place), examples.is_random[both] == 1


def _of_pairs(examples, locations, documents, corpus):
    """Statistics of the document and shard of B, compared with those of A."""
    both, a_place, b_place, a_document, b_document, is_random = _located_pairs(examples, locations, documents, corpus)
    yes = ("no", "yes")
    follows = (a_document == b_document) & (b_place >= a_place + examples.a_lengths[both])
    yield Statistic(
        "next B stands after A in its document", follows[~is_random].astype(int), a_document[~is_random], yes
    )
    yield Statistic(
        "random B is from A's document", (a_document == b_document)[is_random].astype(int), a_document[is_random], yes
    )
    if corpus.shards[-1] > 0:
        # This statistic is not compared. Our builder chooses among the documents of one shard, Google's among all.
        same_shard = corpus.shards[a_document] == corpus.shards[b_document]
        yield Statistic(
            "random B is from A's shard",
            same_shard[is_random].astype(int),
            a_document[is_random],
            yes,
            is_compared=False,
        )


def _of_documents(examples, locations, documents, corpus):
    """Statistics of the documents of A and of random B."""
    num_documents = len(corpus.shards)
    everywhere = np.arange(num_documents)
    sentences = np.diff(np.searchsorted(corpus.sentence_starts, corpus.document_starts))  # of each document
    _, _, b_place, a_document, b_document, is_random = _located_pairs(examples, locations, documents, corpus)
    random_document = b_document[is_random]
    in_document = sentence_at(corpus, b_place[is_random]) - np.searchsorted(
        corpus.sentence_starts, corpus.document_starts[random_document]
    )
    # One long document with a short target length makes thousands of examples, and this effect of chance can hide a
    # wrong share of short targets. Short documents show a wrong share more clearly.
    is_short = sentences[documents] <= _SHORT_DOCUMENT
    yield Statistic(
        f"sequence length in documents of at most {_SHORT_DOCUMENT} sentences",
        examples.lengths[is_short],
        documents[is_short],
    )
    yield Statistic("sentences of A's document", sentences[documents], documents)
    yield Statistic("sentences of a random B's document", sentences[random_document], a_document[is_random])
    yield Statistic(
        "place of a random B's first sentence, twentieths of its document",
        in_document * _TWENTIETHS // sentences[random_document],
        a_document[is_random],
    )
    yield Statistic("examples of a document (A)", np.bincount(documents, minlength=num_documents), everywhere)
    yield Statistic(
        f"number of a random B's document, modulo {_DOCUMENT_CLASSES}",
        random_document % _DOCUMENT_CLASSES,
        a_document[is_random],
    )
    # This statistic is not compared. The counts of two documents are not independent, because both change with the
    # total number of examples.
    yield Statistic(
        "random Bs of a document", np.bincount(random_document, minlength=num_documents), everywhere, is_compared=False
    )


def _masked(examples):
    """(row, slot, position) of every prediction, each [n]."""
    row, slot = np.nonzero(np.arange(examples.positions.shape[1]) < examples.num_masked[:, None])
    return row, slot, examples.positions[row, slot]
