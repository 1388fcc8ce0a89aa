"""The examples shown equal lines written by hand, and their statistics equal those of a plain loop."""

import collections
import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest

from keras_bert_app.config.pretraining_config import PretrainingConfig
from keras_bert_app.drawing.examples_picture import draw_example_statistics
from keras_bert_app.inspection import inspection_report, reading, source
from keras_bert_app.inspection.statistics import Counter, distribution, rows_by_corpus

VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "cat", "sat", "##s", "dog", "שלום", "中", "文"]
ID = {piece: i for i, piece in enumerate(VOCABULARY)}
TOKENIZER = SimpleNamespace(vocabulary=VOCABULARY, vocab_size=len(VOCABULARY), unk_id=1, cls_id=2, sep_id=3, mask_id=4)
PLAIN = reading.Look(color=False, width=200)


def batch_of(shown, predictions, type_ids, seq_length=13, slots=5, label=0):
    """Makes a batch of one row with the pieces `shown`. `predictions` maps each position to its label piece."""

    def padded(values, size):
        return np.array([list(values) + [0] * (size - len(values))], np.int32)

    return {
        "input_word_ids": padded([ID[piece] for piece in shown], seq_length),
        "input_mask": padded([1] * len(shown), seq_length),
        "input_type_ids": padded(type_ids, seq_length),
        "masked_lm_positions": padded(predictions, slots),
        "masked_lm_ids": padded([ID[piece] for piece in predictions.values()], slots),
        "masked_lm_weights": padded([1] * len(predictions), slots).astype(np.float32),
        "next_sentence_labels": np.array([label], np.int32),
    }


PAIR = batch_of(
    "[CLS] cat [MASK] dog [UNK] [SEP] [MASK] ##s 中 sat [SEP]".split(),
    {2: "sat", 3: "cat", 6: "dog", 7: "##s"},
    [0] * 6 + [1] * 5,
    label=1,
)


def shown_lines(batch, objective, look=PLAIN):
    return reading.example_lines(batch, 0, TOKENIZER, objective, "step 1", look)


def test_a_pair_is_shown_as_pieces_with_the_label_at_each_predicted_position():
    head, a, b = shown_lines(PAIR, "nsp")
    assert head == (
        "step 1; B is random text; 11 tokens: [CLS] 4 [SEP] 4 [SEP]; 4 predictions: 2 hidden, 1 kept, 1 random"
    )
    assert a == "  A  [CLS] cat [MASK→sat] [dog→cat] [UNK] [SEP]"
    assert b == "  B  [MASK→dog] [=##s] 中 sat [SEP]"
    assert "A and B swapped" in shown_lines(PAIR, "sop")[0]


def test_a_row_of_one_segment_keeps_its_inner_separators():
    row = batch_of("[CLS] cat [SEP] [MASK] 文 [SEP]".split(), {3: "שלום"}, [])
    head, a = shown_lines(row, "none")
    assert "one segment; 6 tokens: [CLS] 4 [SEP]" in head
    assert a == "  A  [CLS] cat [SEP] [MASK→\u2068שלום\u2069] 文 [SEP]"


def test_special_pieces_segments_and_kinds_of_predictions_have_different_colours():
    _, a, b = shown_lines(PAIR, "nsp", reading.Look(color=True, width=200))
    styles = {text: a.split(text)[0].rsplit("\x1b[", 1)[1] for text in ("[CLS]", "cat\x1b", "[MASK→sat]", "[dog→cat]")}
    styles.update({text: b.split(text)[0].rsplit("\x1b[", 1)[1] for text in ("[=##s]", "中")})
    assert len(set(styles.values())) == len(styles)


def random_batch(generator, rows=53, seq_length=29, slots=7):
    batch = collections.defaultdict(list)
    for _ in range(rows):
        a, b = generator.randint(1, 13), generator.randint(1, 13)
        ids = [2, *generator.choice([1, 5, 6, 7, 8], a), 3, *generator.choice([1, 5, 6, 7, 8], b), 3]
        places = sorted(
            generator.choice(
                [i for i, piece in enumerate(ids) if piece > 3 or piece == 1],
                min(a + b, generator.randint(1, slots + 1)),
                replace=False,
            ).tolist()
        )
        labels = [ids[place] for place in places]
        for place in places:
            ids[place] = generator.choice([4, 4, 5, ids[place]])
        batch["input_word_ids"].append(ids + [0] * (seq_length - len(ids)))
        batch["input_mask"].append([1] * len(ids) + [0] * (seq_length - len(ids)))
        batch["input_type_ids"].append([0] * (a + 2) + [1] * (b + 1) + [0] * (seq_length - len(ids)))
        batch["masked_lm_positions"].append(places + [0] * (slots - len(places)))
        batch["masked_lm_ids"].append(labels + [0] * (slots - len(labels)))
        batch["masked_lm_weights"].append([1.0] * len(places) + [0.0] * (slots - len(places)))
        batch["next_sentence_labels"].append(generator.randint(2))
    return {
        name: np.array(values, np.float32 if name == "masked_lm_weights" else np.int32)
        for name, values in batch.items()
    }


@pytest.fixture(scope="module")
def counted():
    """Returns (batches, their statistics)."""
    generator = np.random.RandomState(5)
    batches = [random_batch(generator) for _ in range(100)]  # more rows than the counter collects before it counts them
    run = PretrainingConfig(max_seq_length=29, max_predictions_per_seq=7)
    counter = Counter(TOKENIZER, run, ["corpus"], (0, 0, 0))
    for number, batch in enumerate(batches, start=1):
        counter.add(batch, (0, 0, 53 * number))
    return batches, counter.result()


def test_counts_are_those_of_a_plain_loop(counted):
    batches, statistics = counted
    lengths, a_lengths, runs, kinds, labels = (collections.Counter() for _ in range(5))
    words = cut_words = unknown = text_pieces = 0
    for batch in batches:
        for row in range(53):
            length = int(batch["input_mask"][row].sum())
            ids, used = batch["input_word_ids"][row].tolist(), batch["masked_lm_weights"][row] > 0
            places = batch["masked_lm_positions"][row][used].tolist()
            truth = list(ids)
            for place, label in zip(places, batch["masked_lm_ids"][row][used].tolist(), strict=True):
                kinds["hidden" if ids[place] == 4 else "kept" if ids[place] == label else "random"] += 1
                labels[VOCABULARY[label]] += 1
                truth[place] = label
            lengths[length] += 1
            a_lengths[truth.index(3) - 1] += 1
            runs.update(len(run) for run in "".join("x" if i in places else " " for i in range(29)).split())
            word = []
            for place in range(length + 1):
                piece = truth[place] if place < length else 3
                if piece == 3 or not (VOCABULARY[piece].startswith("##") and word):
                    hits = sum(i in places for i in word)
                    words, cut_words = words + (hits > 0), cut_words + (0 < hits < len(word))
                    word = []
                if piece not in (2, 3):
                    word.append(place)
                    text_pieces, unknown = text_pieces + 1, unknown + (piece == 1)

    def by_name(counts):
        return {str(value): counts[value] for value in sorted(counts)}

    assert statistics["examples"] == 5300 and statistics["tokens"] == sum(k * v for k, v in lengths.items())
    assert statistics["tokens_per_row"]["counts"] == by_name(lengths)
    assert statistics["a_length"]["counts"] == by_name(a_lengths)
    assert statistics["masked_run_length"]["counts"] == by_name(runs)
    assert {kind: round(share * kinds.total()) for kind, share in statistics["label_shares"].items()} == kinds
    assert {entry["piece"]: entry["count"] for entry in statistics["most_frequent_labels"]} == labels
    assert statistics["predicted_words"] == words and statistics["predicted_words_cut_share"] == cut_words / words
    assert statistics["unknown_share"] == unknown / text_pieces
    assert statistics["masks_without_label"] == 0
    assert statistics["random_or_swapped_share"] == np.mean([batch["next_sentence_labels"] for batch in batches])


def test_the_shorter_rows_of_a_length_ramp_have_the_statistics_of_a_run_with_their_length():
    generator = np.random.RandomState(9)
    batches = [random_batch(generator) for _ in range(4)]
    run = PretrainingConfig(max_seq_length=4 * batches[0]["input_mask"].shape[1], max_predictions_per_seq=29)
    counters = [
        Counter(TOKENIZER, each, ["corpus"], (0, 0, 0))
        for each in (run, dataclasses.replace(run, max_seq_length=run.max_seq_length // 4))
    ]
    for number, batch in enumerate(batches, start=1):
        for counter in counters:
            counter.add(batch, (0, 0, number))
    ramp, plain = (counter.result() for counter in counters)
    for name in ("tokens", "padding_share", "full_row_share", "tokens_per_row"):
        assert ramp[name] == plain[name], name


def test_a_ramp_by_the_clock_has_the_share_of_the_last_checkpoint_before_the_step(monkeypatch):
    shares = []
    monkeypatch.setattr(source.pretraining_data, "training_batches", lambda *args: shares.append(args[-1]()) or [])
    run = source.Source(None, None, {}, {}, {}, {10: 0.05, 20: 0.3})
    for step in (5, 10, 19, 20, 100):
        assert list(source.batches(run, (0, 0, 0), step)) == []
    assert shares == [0.0, 0.05, 0.05, 0.3, 0.3]


def test_a_mask_without_a_label_is_counted():
    counter = Counter(TOKENIZER, PretrainingConfig(max_seq_length=13, max_predictions_per_seq=5), ["corpus"], (0, 0, 0))
    batch = batch_of("[CLS] [MASK] [MASK] [SEP] dog [SEP]".split(), {2: "sat"}, [0] * 4 + [1] * 2)
    counter.add(batch, (0, 0, 1))
    assert counter.result()["masks_without_label"] == 1


def test_quantiles_are_those_of_the_sorted_values():
    values = np.random.RandomState(1).randint(0, 41, 1009)
    quantiles = distribution(np.bincount(values, minlength=50))["quantiles"]
    assert quantiles == {
        str(q): int(np.quantile(values, q, method="inverted_cdf")) for q in (0.05, 0.25, 0.5, 0.75, 0.95)
    }


@pytest.mark.parametrize(
    "before, after, rows, blocks",
    [
        ((0, 3, 40), (0, 3, 72), [32], 0),
        ((0, 3, 40), (0, 4, 5), [32], 1),
        ((64, 0, 0, 7, 2, 1, 90), (96, 0, 0, 27, 2, 1, 102), [20, 12], 0),
        ((64, 0, 0, 7, 2, 1, 90), (96, 0, 0, 27, 3, 0, 12), [20, 12], 1),
        ((64, 0, 0, 7, 2, 1, 90), (96, 1, 0, 4, 3, 0, 12), [0, 0], 2),
    ],
)
def test_positions_tell_how_many_rows_each_corpus_gave(before, after, rows, blocks):
    actual, actual_blocks = rows_by_corpus(before, after, 32)
    assert actual.tolist() == rows and actual_blocks == blocks


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("objective", ["nsp", "none"])
def test_the_table_and_the_picture_are_made_without_a_warning(counted, objective):
    statistics = {**counted[1], "sentence_objective": objective, "corpora": {"one": 0.25, "two": 0.75}}
    if objective == "none":
        del statistics["b_length"], statistics["random_or_swapped_share"]
    lines = list(inspection_report.report_lines(statistics, 80))
    assert any("75.00% two" in line for line in lines) and all(len(line) <= 100 for line in lines)
    picture = draw_example_statistics(statistics, "run \ue000 中")
    assert picture.startswith(b"\x89PNG") and len(picture) > 20_000
