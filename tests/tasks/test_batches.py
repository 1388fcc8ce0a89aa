"""Batches have every unit once in an epoch, depend only on the position, and are padded to few lengths."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from keras_bert_app.config.finetuning_config import FinetuningConfig
from keras_bert_app.modeling.execution import PARTS, PLAIN
from keras_bert_app.tasks import batch_plans, batches, scheduled_sampling, scoring
from keras_bert_app.tasks.features import Features
from pipelines import processors
from tests.tasks.conftest import CONFIG
from tests.training.conftest import two_replicas

BATCH = 7


def random_features(count=53, group_sizes=None, seed=3, token_labels=False):
    """Features of random rows. The label of a unit is its number; the first token of row n is 1000 + n."""
    generator = np.random.default_rng(seed)
    sizes = np.ones(count, int) if group_sizes is None else np.array(group_sizes)
    lengths = generator.integers(2, 61, sizes.sum())
    splits = np.concatenate([[0], np.cumsum(lengths)])
    ids = generator.integers(1, 1000, splits[-1]).astype(np.int32)
    ids[splits[:-1]] = 1000 + np.arange(len(lengths))
    return Features(
        ids,
        splits,
        (lengths // 2).astype(np.int32),
        np.arange(len(sizes), dtype=np.int32),
        None if group_sizes is None else np.concatenate([[0], np.cumsum(sizes)]),
        {"labels": np.arange(len(sizes), dtype=np.int32)},
        {"token_labels": (ids % 5).astype(np.int32)} if token_labels else {},
    )


def run(**settings):
    return FinetuningConfig(**{"global_batch_size": BATCH, "max_seq_length": 61, "seed": 5, **settings})


def take_batches(features, settings, count, position=None):
    return [
        ({name: value.numpy() for name, value in batch.items()}, after)
        for batch, after in itertools.islice(batches.training_batches(features, settings, position), count)
    ]


def labels_of(taken):
    return [
        int(label)
        for batch, _ in taken
        for label, weight in zip(batch["labels"], batch["example_weights"], strict=True)
        if weight
    ]


@pytest.mark.parametrize("length_buckets", [True, False])
def test_every_example_comes_once_an_epoch_in_a_new_order_each_time(length_buckets):
    features, steps = random_features(), batch_plans.num_batches(random_features(), run())
    taken = take_batches(features, run(length_buckets=length_buckets), 2 * steps)
    first, second = labels_of(taken[:steps]), labels_of(taken[steps:])
    assert sorted(first) == sorted(second) == list(range(53)) and first != second
    assert [after for _, after in taken] == [(0, at) for at in range(1, steps)] + [(1, at) for at in range(steps)] + [
        (2, 0)
    ]


def test_the_plan_follows_from_seed_and_epoch_alone():
    def plan(seed, epoch):
        return [batch.units.tolist() for batch in batch_plans.epoch_plan(random_features(), run(seed=seed), epoch)]

    assert plan(5, 0) == plan(5, 0)
    assert plan(5, 0) != plan(6, 0) and plan(5, 0) != plan(5, 1) and plan(5, 1) != plan(6, 0)


def test_a_run_continues_from_any_position_with_the_same_batches():
    features, settings = random_features(), run()
    whole = take_batches(features, settings, 20)
    for cut in range(1, 19):
        rest = take_batches(features, settings, 2, position=whole[cut - 1][1])
        for (batch, after), (expected, expected_after) in zip(rest, whole[cut : cut + 2], strict=True):
            assert after == expected_after
            assert all(np.array_equal(batch[name], value) for name, value in expected.items())


def test_a_row_of_a_batch_has_its_tokens_its_segments_and_padding():
    features = random_features(token_labels=True)
    batch = batches.make_batch(features, np.array([4, 9]), BATCH, 61)
    for row, unit in enumerate((4, 9)):
        start, end = features.row_splits[unit : unit + 2]
        length, b_start = end - start, features.b_starts[unit]
        assert batch["input_word_ids"][row, :length].tolist() == features.token_ids[start:end].tolist()
        assert batch["token_labels"][row, :length].tolist() == features.token_labels["token_labels"][start:end].tolist()
        assert batch["input_mask"][row].tolist() == [1] * length + [0] * (61 - length)
        assert batch["input_type_ids"][row].tolist() == [0] * b_start + [1] * (length - b_start) + [0] * (61 - length)
        assert not batch["input_word_ids"][row, length:].any() and (batch["token_labels"][row, length:] == -1).all()


def test_rows_that_fill_up_a_batch_have_no_weight_no_mask_and_no_token_label():
    batch = batches.make_batch(random_features(token_labels=True), np.array([4, 9]), BATCH, 61)
    assert batch["example_weights"].tolist() == [1.0, 1.0] + [0.0] * (BATCH - 2)
    assert not batch["input_mask"][2:].any() and not batch["input_word_ids"][2:].any() and not batch["labels"][2:].any()
    assert (batch["token_labels"][2:] == -1).all()


def test_groups_of_rows_have_their_own_axis_and_missing_rows_are_empty():
    features = random_features(group_sizes=[3, 1, 4, 2])
    batch = batches.make_batch(features, np.array([1, 0, 3]), 5, 61)
    assert batch["input_word_ids"].shape == batch["input_mask"].shape == (5, 3, 61)
    assert batch["input_word_ids"][:, :, 0].tolist() == [
        [1003, 0, 0],
        [1000, 1001, 1002],
        [1008, 1009, 0],
        [0] * 3,
        [0] * 3,
    ]
    assert batch["input_mask"].any(axis=2).tolist() == [
        [True, False, False],
        [True] * 3,
        [True, True, False],
        [False] * 3,
        [False] * 3,
    ]
    assert batch["labels"].tolist() == [1, 0, 3, 0, 0]


@pytest.mark.parametrize("mined", [0, 2])
def test_short_first_rows_have_a_length_of_their_own_for_each_length_of_batches(mined):
    features = random_features(400, group_sizes=[2, 3] * 200)
    features.row_splits = np.cumsum([0, *np.where(np.isin(np.arange(1000), features.unit_splits), 9, 53)])
    features.row_splits[1:] -= features.row_splits[1:] % 5  # rows of different lengths
    features.token_ids = np.ones(features.row_splits[-1], np.int32)
    features.has_first_apart = True
    settings = run(mine_negatives=mined)
    lengths = {}
    for batch, _ in take_batches(features, settings, 3 * batch_plans.num_batches(features, settings)):
        (_, _, first_length), length = batch["input_first_places"].shape, batch["input_mask"].shape[2]
        assert batch["input_mask"][:, 0].sum(axis=1).max() <= first_length <= 0.75 * length
        lengths.setdefault(length, set()).add(first_length)
    assert all(len(each) == 1 for each in lengths.values())
    features.has_first_apart = False
    assert all("input_first_places" not in batch for batch, _ in take_batches(features, settings, 5))


def test_first_rows_that_are_not_shorter_are_not_read_apart():
    features = random_features(400, group_sizes=[2, 3] * 200)
    features.has_first_apart = True
    assert all("input_first_places" not in batch for batch, _ in take_batches(features, run(), 20))


def test_a_higher_length_cost_gives_fewer_lengths_and_no_buckets_give_one_shape():
    features = random_features(400, group_sizes=[1, 2, 3, 4] * 100)
    settings = run(num_train_steps=58)

    def shapes(settings, **options):
        return {
            batch["input_mask"].shape
            for batch, _ in itertools.islice(batches.training_batches(features, settings, **options), 58)
        }

    lengths_of = {cost: {shape[2] for shape in shapes(settings, length_cost=cost)} for cost in (0, 500, 10**6)}
    assert all(length % 4 == 0 for length in lengths_of[0] - {61})
    assert len(lengths_of[0]) > len(lengths_of[500]) > len(lengths_of[10**6]) == 1
    assert shapes(run(length_buckets=False)) == {(BATCH, 4, 61)}


def test_a_longer_run_has_more_lengths_and_each_epoch_has_the_same_ones():
    features = random_features(400)
    steps = batch_plans.num_batches(features, run())

    def lengths_of(epochs, taken_epochs):
        stream = batches.training_batches(features, run(num_train_steps=epochs * steps), length_cost=1000)
        taken = [batch["input_mask"].shape[1] for batch, _ in itertools.islice(stream, taken_epochs * steps)]
        return [set(taken[at : at + steps]) for at in range(0, len(taken), steps)]

    (few,), several = lengths_of(1, 1), lengths_of(20, 4)
    assert len(few) < len(several[0]) and len(set.union(*several)) == len(several[0])


def test_texts_of_similar_lengths_are_in_the_same_batch():
    features = random_features(400)

    def padding(settings):
        taken = take_batches(features, settings, batch_plans.num_batches(features, run()))
        return sum(batch["input_mask"].size for batch, _ in taken) / sum(
            batch["input_mask"].sum() for batch, _ in taken
        )

    assert padding(run(length_buckets=False)) > 1.9
    assert padding(run()) < 1.35


def test_short_and_long_batches_come_in_random_order():
    features = random_features(400)
    taken = take_batches(features, run(), batch_plans.num_batches(features, run()))
    lengths = np.array([batch["input_mask"].shape[1] for batch, _ in taken], float)
    assert abs(np.corrcoef(lengths[:-1], lengths[1:])[0, 1]) < 0.4


@pytest.mark.parametrize("sizes", [None, [1, 5, 2, 3, 4] * 5])
def test_an_evaluation_takes_every_unit_once_and_begins_with_the_least_work(sizes):
    features = random_features(25, group_sizes=sizes)
    taken = list(batches.evaluation_batches(features, run(), 4))
    units = np.concatenate([units for _, units in taken])
    assert sorted(units) == list(range(25)) and len(taken) == 7
    work = (features.longest_rows() * features.group_sizes())[units]
    assert (np.diff(work) >= 0).all()
    for batch, units in taken:
        assert batch["labels"].numpy()[: len(units)].tolist() == units.tolist()
        assert batch["example_weights"].numpy().sum() == len(units)


@pytest.mark.parametrize("sizes", [None, [1, 5, 2, 3, 4] * 5])
def test_batches_of_any_shape_fit_their_longest_row_and_the_last_one_is_not_filled_up(sizes):
    features = random_features(25, group_sizes=sizes)
    filled = list(batches.evaluation_batches(features, run(), 4))
    taken = list(batches.evaluation_batches(features, run(), 4, is_any_shape=True))
    for (batch, units), (filled_batch, expected) in zip(taken, filled, strict=True):
        np.testing.assert_array_equal(units, expected)
        shape = batch["input_mask"].shape
        assert (shape[0], shape[-1]) == (len(units), features.longest_rows()[units].max())
        for name, values in batch.items():
            part = tuple(map(slice, values.shape))
            np.testing.assert_array_equal(values, filled_batch[name].numpy()[part])
    assert len(taken[-1][1]) == 1
    # Without length buckets, all batches still have one length. A high cost still leads to one length, too.
    for settings, options in ((run(length_buckets=False), {}), (run(), {"length_cost": 10**6})):
        shapes = {
            batch["input_mask"].shape[-1]
            for batch, _ in batches.evaluation_batches(features, settings, 4, is_any_shape=True, **options)
        }
        assert shapes == {61 if not settings.length_buckets else features.longest_rows().max()}


def test_many_tokens_are_worth_compiling_for():
    features, cost = random_features(64), 4000
    by_rounds = [batches.is_worth_compiling(features, run(), 8, cost, rounds) for rounds in (1, 2, 3, 5, 10, 100)]
    assert not by_rounds[0] and by_rounds[-1] and by_rounds == sorted(by_rounds)
    # A round has 64 rows of 61 places. Compilation pays if 0.8 times the places of all rounds exceed the cost.
    one_shape, enough = run(length_buckets=False), int(cost / (0.8 * 64 * 61)) + 1
    assert batches.is_worth_compiling(features, one_shape, 8, cost, enough)
    assert not batches.is_worth_compiling(features, one_shape, 8, cost, enough - 1)


@pytest.mark.parametrize(
    "task, strategy, precision, expected",
    [
        ("classification", tf.distribute.OneDeviceStrategy("CPU:0"), "float32", (PLAIN, True, 1)),
        ("translation", tf.distribute.OneDeviceStrategy("CPU:0"), "float32", (PLAIN, True, 3)),
        ("translation", tf.distribute.OneDeviceStrategy("CPU:0"), "bfloat16", (PARTS, False, 1)),
        ("translation", two_replicas(), "float32", (PLAIN, False, 1)),
    ],
)
def test_one_cpu_without_compilation_takes_batches_of_any_shape_and_writes_texts_on_each_core(
    monkeypatch, task, strategy, precision, expected
):
    monkeypatch.setattr(processors, "num_cores", lambda: 3)
    execution, shapes = scoring.compilation(
        strategy, run(task=task, precision=precision), CONFIG, random_features(64), times=10**6
    )
    assert (execution, shapes["is_any_shape"], shapes["num_calls"]) == expected


def test_batches_by_tokens_have_every_unit_once_and_one_number_of_rows_for_each_length():
    features, settings = random_features(count=997), run(batch_tokens=700)
    steps = batch_plans.num_batches(features, settings)
    taken = take_batches(features, settings, steps)
    assert sorted(labels_of(taken)) == list(range(997))
    shapes = {batch["input_word_ids"].shape for batch, _ in taken}
    assert len(shapes) == len({length for _, length in shapes}) > 4
    for rows, length in shapes:
        assert rows % 8 == 0 and 700 - 8 * length < rows * length <= 700
    # The rest of each pool fills up one batch.
    share = sum(len(labels_of([each])) for each in taken) / sum(len(batch["labels"]) for batch, _ in taken)
    assert share > 0.9
    assert labels_of(take_batches(features, settings, 3, position=(0, 5))) == labels_of(taken[5:8])


def test_the_share_of_right_pieces_falls_over_the_run_and_the_position_decides_the_draws():
    linear, constant = (
        run(decoder="rnn_feedback", teacher_forcing=0.4, teacher_forcing_schedule=name)
        for name in ("linear", "constant")
    )
    shares = [scheduled_sampling.share_of_right_pieces(linear, progress) for progress in (0.0, 0.5, 1.0, 1.2)]
    np.testing.assert_allclose(shares, [1.0, 0.7, 0.4, 0.4])
    assert scheduled_sampling.share_of_right_pieces(constant, 0.0) == 0.4
    draws = scheduled_sampling.reads_target((200, 51), linear, (1, 7), 0.5)
    assert draws.dtype == np.int32 and draws[:, 0].all() and abs(draws[:, 1:].mean() - 0.7) < 0.02
    np.testing.assert_array_equal(draws, scheduled_sampling.reads_target((200, 51), linear, (1, 7), 0.5))
    for other in ((1, 8), (2, 7)):
        assert np.any(draws != scheduled_sampling.reads_target((200, 51), linear, other, 0.5))
