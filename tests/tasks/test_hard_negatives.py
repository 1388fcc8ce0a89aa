"""Hard negatives: a full sort finds the same ones, and no text of the anchor's own pairs is ever a negative."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_bert_app.tasks import sampling
from keras_bert_app.tasks.hard_negatives import NONE, MiningOptions, mine, pair_texts


def test_negatives_by_hand():
    # Vectors on a circle, by their angle in degrees. The anchor stands at 0, its positive at 30.
    angles = {"p": 30, "a": 0, "b": 20, "c": 35, "d": 50, "e": 60, "f": 90}
    pairs = pair_texts([("A", "p"), *((name.upper() + name, name) for name in "bcdef")])
    assert pairs.candidates == ["p", *"bcdef"] and pairs.anchor_texts == ["A", "Bb", "Cc", "Dd", "Ee", "Ff"]

    def on_circle(texts):
        places = [np.radians(angles[text[-1].lower()]) for text in texts]
        return np.stack([np.cos(places), np.sin(places)], axis=1).astype(np.float32)

    vectors = on_circle(pairs.anchor_texts), on_circle(pairs.candidates)

    def found(**options):
        mined = mine(pairs, *vectors, MiningOptions(**{"num_negatives": 9, "range_min": 0, "margin": -2.0, **options}))
        return [pairs.candidates[number] for number in mined.numbers[0] if number != NONE]

    assert found() == [*"bcdef"]
    assert found(range_min=1, range_max=4) == [*"cde"]
    assert found(margin=0.0) == [*"cdef"]  # b is nearer than the positive
    # cos 30 - cos 35 = 0.047, and cos 30 - cos 50 = 0.223
    assert found(margin=0.05) == [*"def"] and found(margin=0.04) == [*"cdef"]
    assert found(num_negatives=2, margin=0.0) == [*"cd"]
    mined = mine(pairs, *vectors, MiningOptions(2, 0, 9, 0.05))
    assert mined.positive_cosines[0] == pytest.approx(np.cos(np.radians(30)), abs=1e-6)
    np.testing.assert_allclose(mined.cosines[0], np.cos(np.radians([50, 60])), atol=1e-6)


def test_known_pairs_on_either_side_and_texts_that_differ_in_case_alone_are_no_negatives():
    rows = [("q", "x"), ("Q ", "y"), ("z", "q"), ("u", "v", "w"), ("k", "z"), ("l", "W"), ("m", "  V")]
    pairs = pair_texts(rows, further=["far", "x", " ", "Far"])
    assert pairs.candidates == ["x", "y", "q", "v", "z", "W", "far"]
    assert pairs.anchor_texts == ["q", "z", "u", "k", "l", "m"]
    vectors = np.ones((6, 3), np.float32), np.ones((7, 3), np.float32)
    mined = mine(pairs, *vectors, MiningOptions(9, 0, 50, 0.0))
    negatives = [[pairs.candidates[number] for number in row if number != NONE] for row in mined.numbers]
    assert negatives[0] == negatives[1] == ["v", "W", "far"]  # q is the anchor, and z stands in a pair with it
    assert negatives[3] == ["x", "y", "q", "z", "far"]  # W is a negative of the pair already


@st.composite
def tables(draw):
    """(rows of pairs, vectors of numbers, MiningOptions)"""
    word = st.sampled_from([f"t{number}" for number in range(25)])
    rows = draw(st.lists(st.lists(word, min_size=2, max_size=4).map(tuple), min_size=1, max_size=40))
    low = draw(st.integers(0, 6))
    options = MiningOptions(
        draw(st.integers(1, 5)),
        low,
        low + draw(st.integers(1, 9)),
        draw(st.sampled_from([-2.0, -0.1, 0.0, 0.05, 0.3])),
        draw(st.sampled_from(["top", "random"])),
        draw(st.integers(0, 3)),
    )
    return rows, draw(st.integers(0, 1000)), options


@settings(max_examples=80, deadline=None)
@given(tables())
def test_every_negative_is_in_the_range_below_the_margin_and_in_no_pair_with_the_anchor(table):
    rows, seed, options = table
    pairs = pair_texts(rows, further=["t1", "s1", "s2"])
    generator = np.random.default_rng(seed)
    sizes = len(pairs.anchor_texts), len(pairs.candidates)
    vectors = [generator.normal(size=(size, 5)).astype(np.float32) for size in sizes]
    mined = mine(pairs, *vectors, options)
    anchors, units = (each / np.linalg.norm(each, axis=1, keepdims=True) for each in vectors)
    both = {(a, b) for pair in rows for a, b in (pair[:2], pair[1::-1])}
    for number, row in enumerate(rows):
        cosines = units @ anchors[pairs.anchors[number]]
        known = {row[0]} | {b for a, b in both if a == row[0]}
        order = [place for place in np.argsort(-cosines, kind="stable") if pairs.candidates[place] not in known]
        least = float(cosines[pairs.positives[number]]) - options.margin
        allowed = [
            place
            for place in order[options.range_min : options.range_max]
            if cosines[place] <= least and pairs.candidates[place] not in row[2:]
        ]
        found = [place for place in mined.numbers[number].tolist() if place != NONE]
        assert len(found) == len(set(found)) == min(options.num_negatives, len(allowed))
        assert found == (allowed[: len(found)] if options.sampling == "top" else [p for p in allowed if p in found])
        assert not {sampling.content(pairs.candidates[place]) for place in found} & {sampling.content(t) for t in known}
    again = mine(pairs, *vectors, options)
    assert all(np.array_equal(one, other) for one, other in zip(mined, again, strict=True))


def test_blocks_of_anchors_and_the_seed_of_random_draws(monkeypatch):
    rows = [(f"q{number}", f"a{number}") for number in range(60)]
    pairs = pair_texts(rows)
    vectors = np.random.default_rng(2).normal(size=(2, 60, 4)).astype(np.float32)
    options = MiningOptions(3, 2, 40, -2.0, "random", 7)
    whole = mine(pairs, *vectors, options).numbers
    assert (whole != mine(pairs, *vectors, dataclasses.replace(options, seed=8)).numbers).any()
    monkeypatch.setattr("keras_bert_app.tasks.hard_negatives._ANCHORS_AT_A_TIME", 7)
    counted = []
    np.testing.assert_array_equal(
        mine(pairs, *vectors, options, lambda count, work: counted.append(count)).numbers, whole
    )
    assert counted == [7] * 8 + [4]
