"""KerasHub's training step, for training_step. reference_answers runs this script in the environment of this project.

The model is KerasHub's backbone, its masked-LM head, and a dense layer on the pooled output. The step is the train
function that fit calls for each batch. In KerasHub's BertMaskedLM the head computes the exact gelu, and its
LayerNorm has an epsilon of 1e-5. Here the head has the encoder's gelu and epsilon, as in BERT. This makes the losses
comparable.
"""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", ".."))

import keras
import keras_hub
import numpy as np
import step_answers
import tensorflow as tf

from keras_bert_app.interop import load
from keras_bert_app.interop.keras_hub.keras_hub_names import backbone_names, masked_lm_names
from keras_bert_app.interop.keras_hub.keras_hub_objects import ARGUMENTS
from keras_bert_app.interop.weights import split_attention

PACKAGES = ("keras-hub", "tensorflow", "keras")


def make(request):
    keras.utils.clear_session()  # restarts the numbers in variable names, because weights are assigned by name
    keras.config.set_dtype_policy({"float32": "float32", "bfloat16": "mixed_bfloat16"}[request["precision"]])
    weights, _ = load.load_weights(request["directory"])
    batch = dict(np.load(request["batch_file"]))
    model = build(weights, request["dropout"])
    optimizer = keras.optimizers.AdamW(
        request["learning_rate"],
        weight_decay=request["weight_decay"],
        beta_2=request["beta_2"],
        epsilon=request["epsilon"],
        global_clipnorm=1.0,
    )
    optimizer.exclude_from_weight_decay(var_names=["bias", "gamma", "beta", "layer_norm"])
    losses = {name: keras.losses.SparseCategoricalCrossentropy(from_logits=True) for name in ("mlm", "nsp")}
    model.compile(optimizer=optimizer, loss=losses, jit_compile=request["compiled"] == "step")
    inputs = {
        "token_ids": batch["input_word_ids"],
        "segment_ids": batch["input_type_ids"],
        "padding_mask": batch["input_mask"],
        "mask_positions": batch["masked_lm_positions"],
    }
    labels = {"mlm": batch["masked_lm_ids"], "nsp": batch["next_sentence_labels"]}
    batches = iter(tf.data.Dataset.from_tensors((inputs, labels)).repeat())
    model.make_train_function()
    sums = [0.0]  # the train function returns the mean of all losses so far

    def step():
        sums.append(len(sums) * float(model.train_function(batches)["loss"]))
        return sums[-1] - sums[-2]

    return step, model.count_params()


def build(weights, dropout):
    """Builds the model and assigns the weights."""
    config = weights.config
    backbone = keras_hub.models.BertBackbone(
        **{theirs: getattr(config, ours) for theirs, ours in ARGUMENTS.items()}, dropout=dropout
    )
    positions = keras.Input((None,), dtype="int32", name="mask_positions")
    states = backbone(backbone.input)
    head = keras_hub.layers.MaskedLMHead(
        vocabulary_size=config.vocab_size,
        token_embedding=backbone.token_embedding,
        intermediate_activation=lambda states: keras.activations.gelu(states, approximate=True),
        layer_norm_epsilon=config.layer_norm_eps,
        name="mlm_head",
    )
    next_sentence = keras.layers.Dense(2, name="next_sentence")
    model = keras.Model(
        {**backbone.input, "mask_positions": positions},
        {"mlm": head(states["sequence_output"], positions), "nsp": next_sentence(states["pooled_output"])},
    )
    paths = {
        variable: path
        for path, (_, variable) in {**backbone_names(config.num_hidden_layers), **masked_lm_names()}.items()
    }
    paths |= {f"next_sentence/{name}": f"next_sentence/projection/{name}" for name in ("kernel", "bias")}
    tensors = split_attention(weights.tensors)
    for variable in model.weights:
        variable.assign(tensors[paths[variable.path]].reshape(variable.shape))
    return model


answer = step_answers.answers_of_steps(make)
