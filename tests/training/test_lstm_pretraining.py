"""Pre-training of LSTMs: the losses, streams of rows with carried states, exact resume, parts and replicas."""

import dataclasses
import itertools
import shutil

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert_app.config.lstm_config import LstmConfig
from keras_bert_app.config.pretraining_config import PretrainingConfig
from keras_bert_app.errors import UserError
from keras_bert_app.interop import load
from keras_bert_app.modeling import carried_states
from keras_bert_app.modeling.architectures import make_pretrainer
from keras_bert_app.training import initialization, pretraining_data
from keras_bert_app.training.language_model_objective import BidirectionalObjective, LstmObjective
from pipelines import BertTokenizer
from tests.training.conftest import CONFIG, RUN, VOCABULARY, train, two_replicas
from tests.training.test_reliability import EVERY_STEP, STEPS, assert_same, checkpoint_of, rows_of

SIZES = {"vocab_size": len(VOCABULARY), "num_hidden_layers": 2, "max_position_embeddings": 41}
AWD = LstmConfig.of_size("awd_lstm_tiny", hidden_size=11, intermediate_size=13, **SIZES)
ELMO = LstmConfig.of_size(
    "elmo_tiny", hidden_size=14, intermediate_size=13, character_filters=((1, 3), (2, 5)), character_size=4, **SIZES
)
PLAIN_AWD = AWD.replace(
    **dict.fromkeys(
        [f"{name}_dropout_prob" for name in ("embedding", "input", "hidden", "output", "recurrent")]
        + ["activation_penalty", "temporal_penalty"],
        0.0,
    )
)


def run_of(config, run=EVERY_STEP, **changes):
    return dataclasses.replace(run, language_model=config.language_model, **changes).resolved()


ROWS = np.array([[2, 7, 9, 7, 9, 3], [2, 9, 7, 0, 0, 0]], np.int32)
BATCH = {"input_word_ids": tf.constant(ROWS), "input_mask": tf.constant((ROWS > 0).astype(np.int32))}


def test_the_loss_of_both_directions_is_the_mean_of_theirs_by_hand():
    model, objective = make_pretrainer(ELMO, seed=3), BidirectionalObjective()
    sums = objective.loss_sums(objective.outputs(model, BATCH), BATCH)
    outputs = model(BATCH)
    forward, backward = (tf.nn.log_softmax(outputs[name]).numpy() for name in ("lm_logits", "backward_logits"))
    lengths = [6, 3]
    next_ones = [forward[row, place, ROWS[row, place + 1]] for row in range(2) for place in range(lengths[row] - 1)]
    earlier = [backward[row, place, ROWS[row, place - 1]] for row in range(2) for place in range(2, lengths[row])]
    expected = -0.5 * (np.mean(next_ones) + np.mean(earlier))
    assert [float(count) for count in objective.counts(BATCH)] == [7.0, 5.0]
    np.testing.assert_allclose(objective.mean_loss(sums, *objective.counts(BATCH)), expected, rtol=1e-5)
    figures = objective.metrics({name: float(value) for name, value in sums.items()})
    np.testing.assert_allclose(figures["loss"], expected, rtol=1e-5)
    np.testing.assert_allclose(figures["backward_perplexity"], np.exp(-np.mean(earlier)), rtol=1e-5)


def test_the_penalties_are_those_of_the_paper_by_hand():
    model, objective = make_pretrainer(PLAIN_AWD.replace(activation_penalty=2.0, temporal_penalty=3.0)), LstmObjective()
    outputs = np.asarray(model(BATCH)["sequence_output"])
    places = [(0, place) for place in range(5)] + [(1, 0), (1, 1)]
    expected = np.mean(
        [
            2.0 * np.mean(outputs[row, place] ** 2)
            + 3.0 * np.mean((outputs[row, place + 1] - outputs[row, place]) ** 2)
            for row, place in places
        ]
    )
    sums = objective.loss_sums(objective.outputs(model, BATCH), BATCH)
    np.testing.assert_allclose(sums["penalty_sum"] / 7, expected, rtol=1e-5)


def test_states_that_are_carried_from_row_to_row_give_the_logits_of_one_long_row():
    model = make_pretrainer(PLAIN_AWD, seed=3)
    ids = np.random.RandomState(0).randint(5, len(VOCABULARY), (2, 13)).astype(np.int32)
    whole = np.asarray(model({"input_word_ids": ids, "input_mask": np.ones_like(ids)})["lm_logits"])
    table, found = tf.zeros([3, carried_states.width(PLAIN_AWD)]), []
    places = np.array([2, 0], np.int32)
    for start in (0, 4, 8):
        part = ids[:, start : start + 5]
        batch = {"input_word_ids": part, "input_mask": np.ones_like(part), "stream_places": places}
        batch["continues"] = np.full(2, start > 0, np.int32)
        states = carried_states.states_of(table, batch, PLAIN_AWD)
        outputs = model(batch, heads_only=True, states=states)
        table = carried_states.new_table(outputs["forward_states"], batch, table.shape)
        found.append(np.asarray(outputs["lm_logits"]))
    np.testing.assert_allclose(np.concatenate(found, axis=1), whole[:, :12], atol=1e-5)
    assert not np.asarray(table)[1].any()


def test_carried_cells_stay_float32_in_bfloat16():
    model = make_pretrainer(PLAIN_AWD, seed=3, dtype="mixed_bfloat16")
    ids = np.random.RandomState(0).randint(5, len(VOCABULARY), (2, 5)).astype(np.int32)
    batch = {"input_word_ids": ids, "input_mask": np.ones_like(ids), "stream_places": np.array([1, 0], np.int32)}
    batch["continues"] = np.ones(2, np.int32)
    cells = []
    for cell in (1.0, 1.0 + 2**-12):  # bfloat16 has eight bits
        model.carried_states = tf.fill([2, carried_states.width(PLAIN_AWD)], cell)
        cells.append(LstmObjective().outputs(model, batch)["forward_states"][0][1])
    assert cells[0].dtype == tf.float32 and np.abs(cells[0] - cells[1]).max() > 0


@pytest.mark.parametrize(
    "config, objective",
    [
        (PLAIN_AWD.replace(num_hidden_layers=1), LstmObjective()),
        pytest.param(ELMO.replace(num_hidden_layers=1), BidirectionalObjective(), marks=pytest.mark.slow),
    ],
    ids=["awd", "elmo"],
)
def test_a_piece_that_follows_from_its_neighbours_is_learned_in_every_direction(config, objective):
    """Each piece decides the next one and the one before, but unigrams say nothing."""
    model, cycle = make_pretrainer(config, seed=3), np.random.RandomState(0).permutation(np.arange(5, 17))
    tokenizer = BertTokenizer("".join(f"{piece}\n" for piece in VOCABULARY).encode(), True)
    initialization.begin_with_characters(model, tokenizer)
    ids = np.stack([np.roll(np.tile(cycle, 2), shift) for shift in range(12)]).astype(np.int32)
    batch, optimizer = {"input_word_ids": ids, "input_mask": np.ones_like(ids)}, keras.optimizers.Adam(2e-2)

    @tf.function(autograph=False)
    def step():
        with tf.GradientTape() as tape:
            sums = objective.loss_sums(objective.outputs(model, batch), batch)
            loss = objective.mean_loss(sums, *objective.counts(batch))
        optimizer.apply_gradients(
            zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables, strict=True)
        )
        return sums

    for _ in range(200):
        sums = step()
    figures = objective.metrics({name: float(value) for name, value in sums.items()})
    assert figures["perplexity"] < 4.0 and figures.get("backward_perplexity", 1.0) < 4.0, figures  # unigrams have 12


def test_a_row_that_continues_none_begins_with_zeros():
    batch = {"stream_places": np.array([1]), "continues": np.array([0])}
    states = carried_states.states_of(tf.ones([2, carried_states.width(AWD)]), batch, AWD)
    assert not any(np.asarray(part).any() for state in states for part in state)


# The rows of AWD's batches change at steps 2 and 4, so its run goes on where the states begin anew.
@pytest.mark.parametrize(
    "config, changes, step",
    [
        pytest.param(AWD, {"length_ramp_steps": 4, "max_seq_length": 32}, 4, marks=pytest.mark.slow),
        (ELMO, {}, 3),
    ],
    ids=["awd with a ramp", "elmo"],
)
def test_a_run_resumes_bit_for_bit_with_its_states(config, changes, step, training_shards, make_workdir):
    whole = make_workdir("whole", config, run_of(config, **changes))
    train(whole, training_shards)
    states = tf.train.load_checkpoint(f"{checkpoint_of(whole, STEPS)}/checkpoint").get_tensor(
        "carried_states/.ATTRIBUTES/VARIABLE_VALUE"
    )
    # A ramp has up to four times the rows. Padding ends a block, so the states after its last row are zeros.
    assert states.shape == (4 * 8, carried_states.width(config)) and 6 <= states.any(axis=1).sum() <= 8
    part = f"{whole}-resumed"
    shutil.copytree(whole, part)
    for later in range(step + 1, STEPS + 1):
        shutil.rmtree(checkpoint_of(part, later))
    train(part, training_shards)
    assert_same(part, whole)


@pytest.mark.slow
def test_a_ramp_begins_each_shape_with_zeros(shards):
    # The batches are small, so that every shape ends within a block, where rows of the next shape could seem to go on.
    run = run_of(AWD, length_ramp_steps=4, max_seq_length=32, global_batch_size=2)
    tokenizer = BertTokenizer("".join(f"{piece}\n" for piece in VOCABULARY).encode(), True)
    examples = pretraining_data.example_arguments(run, tokenizer, None)
    arguments = ([shards[0]], tokenizer)
    batches = pretraining_data.training_batches(run, *arguments, None, examples, 0, is_stream=True)
    taken = list(itertools.islice(batches, 7))
    has_continued = [bool(tf.reduce_any(batch["continues"] > 0)) for batch, _ in taken]
    assert [len(batch["continues"]) for batch, _ in taken] == [8, 8, 4, 4, 2, 2, 2]
    assert has_continued == [False, True, False, True, False, True, True]
    # A resumed run keeps its states inside of a shape, and begins anew where the shape changes.
    for step, expected in ((3, True), (4, False), (6, True)):
        position = taken[step - 1][1]
        batch, _ = next(pretraining_data.training_batches(run, *arguments, position, examples, step, is_stream=True))
        assert bool(tf.reduce_any(batch["continues"] > 0)) == expected
        np.testing.assert_array_equal(batch["input_word_ids"], taken[step][0]["input_word_ids"])


@pytest.mark.slow
def test_parts_of_a_batch_and_two_replicas_give_the_weights_and_states_of_one(training_shards, make_workdir):
    run, found = run_of(PLAIN_AWD, save_checkpoints_steps=STEPS), []
    cases = (
        ("one", run, None),
        ("two", run, two_replicas()),
        ("parts", dataclasses.replace(run, gradient_accumulation_steps=4), None),
    )
    for name, case, strategy in cases:
        workdir = make_workdir(name, PLAIN_AWD, case)
        train(workdir, training_shards, strategy)
        reader = tf.train.load_checkpoint(f"{checkpoint_of(workdir, STEPS)}/checkpoint")
        states = reader.get_tensor("carried_states/.ATTRIBUTES/VARIABLE_VALUE")
        found.append({**load.load_weights(workdir)[0].tensors, "carried_states": states})
    for other in found[1:]:
        for path, tensor in found[0].items():
            np.testing.assert_allclose(other[path], tensor, atol=2e-6, err_msg=path)


def test_a_run_learns_and_reports_both_directions_beside_the_baselines(shards, make_workdir):
    run = run_of(ELMO, RUN, learning_rate=1e-2, num_train_steps=60, eval_steps=30, max_predictions_per_seq=0)
    workdir = make_workdir("run", ELMO, run)
    figures, output = train(workdir, shards)
    first = np.exp(rows_of(workdir)[0]["loss"])
    assert figures["eval_perplexity"] < 0.9 * first and figures["eval_backward_perplexity"] < 0.9 * first
    assert 15 < figures["eval_unigram_perplexity"] < figures["eval_bigram_perplexity"]
    assert "; from right to left " in output and "  backward perplexity " in output
    weights, _ = load.load_weights(workdir)
    characters = weights.tensors["encoder/embeddings/characters"]
    assert characters[VOCABULARY.index("cat"), :5].tolist() == [256, *b"cat", 257]
    assert len({tuple(row) for row in characters.tolist()}) == len(VOCABULARY)


@pytest.mark.parametrize(
    "config, language_model, message",
    [
        (
            AWD,
            "masked",
            "--language_model=masked: does not fit a model of architecture lstm_lm; give --language_model=causal",
        ),
        (ELMO, "causal", "architecture lstm_lm with two directions; give --language_model=bidirectional"),
        (CONFIG, "bidirectional", "does not fit a model of architecture bert; give --language_model=masked"),
    ],
)
def test_a_language_model_that_does_not_fit_is_refused(config, language_model, message):
    with pytest.raises(UserError, match=message):
        dataclasses.replace(RUN, language_model=language_model).checked_against(config)


def test_several_corpora_cannot_be_a_stream():
    run = PretrainingConfig(language_model="causal", corpus_dir=("a", "b"), max_seq_length=32).resolved()
    with pytest.raises(UserError, match="--corpus_dir=a,b: rows of several corpora are mixed, .* --nocarry_state"):
        run.checked_against(AWD)
    dataclasses.replace(run, carry_state=False).checked_against(AWD)
