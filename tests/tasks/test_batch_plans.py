"""Plans of epochs: no text meets itself in a batch of sentence vectors, and every unit comes once an epoch."""

import contextlib
import types

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_bert_app.config.finetuning_config import FinetuningConfig
from keras_bert_app.runs.shared_tokenizer import tokenizer_of
from keras_bert_app.tasks import batch_plans, registry
from keras_bert_app.tasks.families import text_vectors
from keras_bert_app.tasks.families.text_vectors import Example
from keras_bert_app.tasks.mined_epochs import MinedEpochs
from tests.tasks.conftest import CONFIG, FILLERS, GOOD, VOCABULARY

TASK, TOKENIZER = registry.find("similarity"), tokenizer_of(VOCABULARY, CONFIG)
# All spellings of a word are the same word.
SPELLINGS = [*((word, word.upper(), word.title()) for word in (*GOOD, *FILLERS)), ("maß", "MASS", "Maß")]
SPACES = (" ", "  ", "\t", "\u00a0 ")


@st.composite
def texts(draw, num_words):
    """(numbers of the words, a text with these words)"""
    numbers = tuple(draw(st.lists(st.integers(1, num_words), min_size=1, max_size=2)))
    words = [draw(st.sampled_from(SPELLINGS[-number])) for number in numbers]
    ends = draw(st.sampled_from(("", " ", "\n"))), draw(st.sampled_from(("", "  ")))
    return numbers, draw(st.sampled_from(SPACES)).join(words).join(ends)


@st.composite
def tables(draw):
    """(rows of texts, what they are: "alone", "pairs", "negatives" or "mined")"""
    kind = draw(st.sampled_from(["alone", "pairs", "negatives", "mined"]))
    least, most = {"alone": (1, 1), "negatives": (2, 4)}.get(kind, (2, 2))
    text = texts(draw(st.integers(1, len(SPELLINGS))))
    return draw(st.lists(st.lists(text, min_size=least, max_size=most), min_size=1, max_size=40)), kind


def with_mined_negatives(features, examples, run, seed):
    """The Features of an epoch with negatives that a model of random vectors mines."""
    reporter = types.SimpleNamespace(busy=lambda *_: contextlib.nullcontext(), say=lambda line: None)
    data = types.SimpleNamespace(task=TASK, train=features, train_examples=examples, labels=())
    start = types.SimpleNamespace(
        run=run, data=types.SimpleNamespace(data=data), tokenizer=TOKENIZER, is_chief=False, workdir=""
    )
    epochs = MinedEpochs(start, types.SimpleNamespace(reporter=reporter))
    pairs = epochs.pairs
    size = len(pairs.anchor_texts) + len(pairs.candidates)
    epochs._vectors = lambda: np.random.default_rng(seed).normal(size=(size, 5)).astype(np.float32)
    mined = epochs.features(1, 0, 0)
    assert (mined.group_sizes().max() > 2) == any(len(each) < len(pairs.candidates) for each in pairs.excluded)
    return mined


@settings(max_examples=40, deadline=None)
@given(
    table=tables(),
    size=st.integers(1, 9),
    length_buckets=st.booleans(),
    most_open=st.sampled_from([1, 2, 5, 64]),
    seed=st.integers(0, 1000),
)
def test_every_unit_comes_once_an_epoch_and_no_text_meets_itself(table, size, length_buckets, most_open, seed):
    rows, kind = table
    is_mined = kind == "mined"
    run = FinetuningConfig(
        task="similarity",
        vector_loss="simcse" if kind == "alone" else "contrastive",
        global_batch_size=size,
        max_seq_length=8,
        length_buckets=length_buckets or is_mined,
        seed=seed,
        **({"mine_negatives": 2, "mine_range": ("0", "99"), "mine_margin": -2.0} if is_mined else {}),
    )
    examples = [Example("", tuple(text for _, text in row), None, "") for row in rows]
    features = text_vectors.featurize(TASK, examples, TOKENIZER, run, ())
    if is_mined:
        features = with_mined_negatives(features, examples, run, seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batch_plans, "_MOST_OPEN", most_open)
        patch.setattr(batch_plans, "_POOL", 2)
        plans = [batch_plans.epoch_plan(features, run, epoch) for epoch in range(3)]
    for plan in plans:
        assert sorted(np.concatenate([batch.units for batch in plan]).tolist()) == list(range(len(rows)))
        for batch in plan:
            assert 1 <= len(batch.units) <= batch.num_rows == size
            if len(batch.units) == 1:  # it shares a text with each unit that could come to it
                (alone,) = features.text_numbers[batch.units]
                others = [other for bigger in plan if len(bigger.units) > 2 for other in bigger.units]
                assert all(np.isin(features.text_numbers[other], alone).any() for other in others)
            # A text may be a negative of another unit. The loss then leaves it out.
            words = [numbers for unit in batch.units for numbers in {numbers for numbers, _ in rows[unit][:2]}]
            assert len(set(words)) == len(words)
