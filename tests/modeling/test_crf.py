"""The conditional random field against sums over all sequences of tags."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from keras_bert_app.modeling.crf import EXCLUDED, Crf, log_partition, places_of_chain
from keras_bert_app.modeling.execution import Execution

TAGS = 3
# A whole row, a row with gaps, a chain of one place, and a row without a chain.
CHAIN = np.array([[1, 1, 1, 1, 1], [0, 1, 0, 1, 1], [0, 0, 1, 0, 0], [0, 0, 0, 0, 0]], np.float32)


@pytest.fixture(scope="module")
def scores():
    generator = np.random.default_rng(0)
    shapes = {
        "emissions": (*CHAIN.shape, TAGS),
        "transitions": (TAGS, TAGS),
        "first_tags": (TAGS,),
        "last_tags": (TAGS,),
    }
    values = {name: generator.normal(0.0, 2.0, shape).astype(np.float32) for name, shape in shapes.items()}
    return {"emissions": values.pop("emissions"), "chain": CHAIN, **values}


def sequences(scores, row):
    """dict sequence of tags -> score, in float64."""
    emissions = scores["emissions"][row][CHAIN[row] > 0].astype(np.float64)
    found = {}
    for tags in itertools.product(range(TAGS), repeat=len(emissions)):
        score = scores["first_tags"][tags[0]] + scores["last_tags"][tags[-1]]
        score += sum(emission[tag] for emission, tag in zip(emissions, tags, strict=True))
        found[tags] = score + sum(scores["transitions"][pair] for pair in itertools.pairwise(tags))
    return found


def expected(scores, row):
    """(log of the sum over all sequences, dict name -> expected number of uses) of a row, by enumeration."""
    found = sequences(scores, row)
    total = np.log(sum(np.exp(score) for score in found.values()))
    places = np.flatnonzero(CHAIN[row])
    uses = {name: np.zeros_like(values, np.float64) for name, values in scores.items() if name != "chain"}
    for tags, score in found.items():
        share = np.exp(score - total)
        uses["first_tags"][tags[0]] += share
        uses["last_tags"][tags[-1]] += share
        uses["emissions"][row, places, list(tags)] += share
        for pair in itertools.pairwise(tags):
            uses["transitions"][pair] += share
    return total, uses


@pytest.mark.parametrize("mode", ["plain", "none", "parts", "step"])  # "plain" has the gradient of TensorFlow
def test_the_sum_over_all_sequences_and_its_gradient_equal_an_enumeration(scores, mode):
    tensors = {name: tf.constant(values) for name, values in scores.items()}
    upstream = tf.constant([1.0, -0.5, 2.0, 3.0])

    @tf.function(jit_compile=mode == "step", autograph=False)
    def sums():
        with tf.GradientTape() as tape:
            tape.watch(tensors)
            total = log_partition(**tensors, execution=Execution(mode))
        return total, tape.gradient(total, tensors, upstream)

    total, gradients = sums()
    rows = [expected(scores, row) for row in range(3)]
    np.testing.assert_allclose(total, [*(total for total, _ in rows), 0.0], rtol=1e-5)
    for name in set(scores) - {"chain"}:
        wanted = sum(weight * uses[name] for weight, (_, uses) in zip(upstream.numpy(), rows, strict=False))
        np.testing.assert_allclose(gradients[name], wanted, atol=2e-5, err_msg=name)


def test_tags_that_are_excluded_leave_the_score_of_the_one_sequence_that_remains(scores):
    tags = (2, 0, 1, 1, 0)
    is_other = np.arange(TAGS) != np.array(tags)[:, None]
    emissions = scores["emissions"] + EXCLUDED * is_other.astype(np.float32)
    total = log_partition(**{**scores, "emissions": emissions})
    assert float(total[0]) == pytest.approx(sequences(scores, 0)[tags], abs=1e-4)


def test_the_largest_logits_are_those_of_the_best_sequence(scores):
    layer = Crf(TAGS)
    layer.build()
    for name in ("transitions", "first_tags", "last_tags"):
        getattr(layer, name).assign(scores[name])
    # [CLS], the places of the chain, [SEP] and padding.
    emissions = np.pad(scores["emissions"][:1], [[0, 0], [1, 2], [0, 0]])
    mask = np.array([[1] * 7 + [0]], np.int32)
    outputs = layer(tf.constant(emissions), mask)
    assert outputs["chain"].numpy().tolist() == [[0, 1, 1, 1, 1, 1, 0, 0]]
    found = sequences(scores, 0)
    best = max(found, key=found.get)
    logits = outputs["logits"].numpy()[0]
    assert tuple(logits[1:6].argmax(axis=1)) == best
    # The best tags of the places one by one are another sequence, so the transitions have an effect.
    assert tuple(scores["emissions"][0].argmax(axis=1)) != best
    for place in range(5):
        for tag in range(TAGS):
            alike = max(score for tags, score in found.items() if tags[place] == tag)
            assert logits[1 + place, tag] == pytest.approx(alike - found[best], abs=1e-4)
    np.testing.assert_array_equal(logits[[0, 6, 7]], emissions[0, [0, 6, 7]])


def test_the_chain_of_short_rows_is_empty():
    assert places_of_chain(np.array([[1, 1, 0], [1, 0, 0], [0, 0, 0], [1, 1, 1]])).numpy().tolist() == [
        [0, 0, 0],
        [0, 0, 0],
        [0, 0, 0],
        [0, 1, 0],
    ]
