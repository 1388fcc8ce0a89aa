"""The counts agree with the weights of the built model, and with its training step as TensorFlow traces it."""

import math

import pytest
import tensorflow as tf

from keras_bert_app.config.bert_config import PARTS, SIZES, BertConfig
from keras_bert_app.config.pretraining_config import PretrainingConfig
from keras_bert_app.estimation import memory
from keras_bert_app.estimation.counts import flop_per_token, optimizer_flop, parameters, weight_shapes
from keras_bert_app.modeling.pretrainer import BertPretrainer
from keras_bert_app.training.optimizers.choice import make_optimizer
from tests.estimation.traced_step import kept_bytes, product_flop, traced_step, traced_update

PRUNED = BertConfig(
    vocab_size=101,
    hidden_size=14,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=53,
    max_position_embeddings=17,
    type_vocab_size=3,
    num_heads_by_layer=(1, 2),
)
RUN = PretrainingConfig(
    max_seq_length=11, max_predictions_per_seq=5, global_batch_size=7, precision="float32", jit_compile="none"
)


@pytest.mark.parametrize(
    "changes, parts",
    [
        ({}, PARTS),
        ({"tie_word_embeddings": False}, PARTS),
        ({"num_heads_by_layer": ()}, ("encoder", "masked_lm")),
        ({"num_hidden_layers": 0, "num_heads_by_layer": ()}, ("encoder",)),
    ],
)
def test_every_weight_is_counted_with_its_path_and_shape(changes, parts):
    config = PRUNED.replace(**changes)
    model = BertPretrainer(config, parts=parts)
    counted = {path: shape for shapes in weight_shapes(config, parts).values() for path, shape in shapes.items()}
    assert counted == {variable.path: tuple(variable.shape) for variable in model.weights}
    assert sum(parameters(config, parts).values()) == model.count_params()


def test_bert_base_has_as_many_parameters_as_the_published_checkpoint():
    # bert-base-uncased as BertForPreTraining has 110,106,428 parameters. The bias of its tied decoder counts once.
    assert sum(parameters(BertConfig.of_size("base")).values()) == 110_106_428


@pytest.mark.parametrize("size", SIZES)
def test_published_sizes_follow_the_formula_of_the_model_s_flop(size):
    layers, hidden, _ = SIZES[size]
    config, length, predictions = BertConfig.of_size(size), 128, 20
    # A full step takes 3(24LH^2 + 4SHL + (P/S)2(H^2 + HV)). The last layer works at P + 1 positions only.
    spared = (1 - (predictions + 1) / length) * (20 * hidden**2 + 4 * length * hidden)
    expected = 3 * (
        24 * layers * hidden**2
        + 4 * length * hidden * layers
        - spared
        + predictions / length * 2 * (hidden**2 + hidden * config.vocab_size)
    )
    assert flop_per_token(config, length, predictions) == pytest.approx(expected, rel=1e-12)


@pytest.fixture(scope="module")
def pruned_step():
    return traced_step(PRUNED, RUN)


def test_flop_are_those_of_all_matrix_products_of_a_traced_step(pruned_step):
    rows, length, hidden = RUN.global_batch_size, RUN.max_seq_length, PRUNED.hidden_size
    # The formula leaves out the pooler and the next-sentence head of each row, and the segments of each token.
    left_out = 3 * 2 * rows * hidden * (hidden + 2) + 2 * 2 * rows * length * PRUNED.type_vocab_size * hidden
    # The formula also leaves out products with ones: the gradients of biases and of the weights of LayerNorm.
    places_by_part = {"masked_lm": rows * RUN.max_predictions_per_seq, "pooler": rows, "next_sentence": rows}
    for part, shapes in weight_shapes(PRUNED).items():
        for path, shape in shapes.items():
            places = places_by_part.get(part, rows * length)
            if path.startswith("encoder/layer_1/"):  # only key and value of the last layer have all positions
                attending = rows * (RUN.max_predictions_per_seq + 1)
                places = (attending + 2 * places) / 3 if "query_key_value" in path else attending
            left_out += 2 * places * shape[0] if len(shape) == 1 else 0
    counted = rows * length * flop_per_token(PRUNED, length, RUN.max_predictions_per_seq)
    assert counted + left_out == pytest.approx(product_flop(pruned_step), rel=1e-12)


def test_activations_are_what_the_traced_backward_pass_reads(pruned_step):
    counted = memory.activations(PRUNED, RUN, PARTS, RUN.global_batch_size)
    assert counted == pytest.approx(kept_bytes(pruned_step), rel=0.01)


@pytest.mark.parametrize("compiled", ["none", "parts"])
@pytest.mark.parametrize(
    "precision, changes",
    [
        ("bfloat16", {}),
        ("bfloat16", {"hidden_act": "gelu_exact", "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}),
        ("float32", {"hidden_act": "silu", "attention_probs_dropout_prob": 0.0}),
        ("float32", {"hidden_act": "relu", "hidden_dropout_prob": 0.0}),
        ("float32", {"hidden_act": "tanh"}),
    ],
)
def test_activations_follow_compilation_precision_activation_and_dropout(precision, changes, compiled):
    config = PRUNED.replace(num_hidden_layers=1, num_heads_by_layer=(), **changes)
    run = PretrainingConfig(
        max_seq_length=13, max_predictions_per_seq=3, global_batch_size=5, precision=precision, jit_compile=compiled
    )
    assert memory.activations(config, run, PARTS, 5) == pytest.approx(kept_bytes(traced_step(config, run)), rel=0.01)


@pytest.mark.parametrize(
    "size, rows, length, megabytes",
    [("base", 32, 128, 2285), ("base", 544, 128, 14_938), ("base", 136, 512, 14_895), ("tiny", 7208, 128, 13_254)],
)
def test_memory_on_a_tpu_is_near_the_figure_of_its_compiler(size, rows, length, megabytes):
    # HBM of pretrain/SIZE/S/bfloat16/B/1 on v5e without code and batches: libtpu 0.0.42.1 (benchmarks.tpu.compile_tpu).
    run = PretrainingConfig(max_seq_length=length, precision="bfloat16", jit_compile="step").resolved()
    needed = memory.training_memory(BertConfig.of_size(size), run, PARTS, rows, device="TPU")
    assert needed.peak == pytest.approx(1e6 * megabytes, rel=0.05)


@pytest.mark.parametrize("optimizer", ["adamw", "lamb", "muon", "adafactor"])
def test_flop_of_an_optimizer_are_those_of_all_matrix_products_of_its_traced_update(optimizer):
    run = PretrainingConfig(optimizer=optimizer, precision="float32").resolved()
    counted = optimizer_flop(PRUNED, optimizer)
    assert counted == product_flop(traced_update(run, made_variables(), PRUNED.num_hidden_layers))
    assert bool(counted) == (optimizer == "muon")


def test_the_flop_of_muon_for_base_follow_from_the_sizes_of_its_matrices():
    # 12 layers have 4 matrices of 768 x 768 (6 x 768^3 per iteration) and 2 of 768 x 3,072 (18 x 768^3); 5 iterations.
    assert optimizer_flop(BertConfig.of_size("base"), "muon") == 12 * 5 * (4 * 6 + 2 * 18) * 768**3


def made_variables():
    return {
        path: tf.Variable(tf.zeros(shape))
        for shapes in weight_shapes(PRUNED).values()
        for path, shape in shapes.items()
    }


@pytest.mark.parametrize("optimizer", ["adamw", "lamb", "muon", "adafactor"])
def test_slots_are_those_that_the_optimizer_makes(optimizer):
    run = PretrainingConfig(optimizer=optimizer, precision="float32").resolved()
    slots = make_optimizer(run, made_variables(), PRUNED.num_hidden_layers).slots
    made = sum(math.prod(slot.shape) for by_path in slots.values() for slot in by_path.values())
    assert memory.slot_numbers(PRUNED, optimizer, PARTS) == made


@pytest.mark.parametrize(
    "size, rows, length, precision, gibibytes",
    (
        ("base", 128, 128, "bfloat16", 6.68),
        ("base", 512, 128, "bfloat16", 21.44),
        ("base", 32, 512, "bfloat16", 6.71),
        ("large", 64, 128, "bfloat16", 11.13),
        ("base", 128, 128, "float32", 11.46),
        ("small", 256, 128, "bfloat16", 2.94),
    ),
)
def test_memory_of_a_compiled_gpu_step_is_near_the_peak_of_its_allocator(size, rows, length, precision, gibibytes):
    """The figures are peaks of TensorFlow's allocator, measured on an H200 on 2026-11-26."""
    run = PretrainingConfig(max_seq_length=length, precision=precision, jit_compile="step").resolved()
    needed = memory.training_memory(BertConfig.of_size(size), run, PARTS, rows, device="GPU")
    assert needed.peak / 2**30 == pytest.approx(gibibytes, rel=0.14)
