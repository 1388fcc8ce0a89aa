"""Computes the outputs of a checkpoint with google-research/bert.

reference_answers runs this script in an environment of bert-tensorflow. The script imports nothing of this project. The
model is a prefix, such as uncased_L-12_H-768_A-12/bert_model.ckpt. The file bert_config.json lies beside it. The script
needs bert-tensorflow 1.0.4 on tensorflow 2.15.1.
"""

import os
import sys
import types

import numpy as np
import tensorflow.compat.v1 as tf

PACKAGES = ("bert-tensorflow", "tensorflow")


def layer_norm(inputs, begin_norm_axis, begin_params_axis, scope=None):
    """Replaces tf.contrib.layers.layer_norm of TensorFlow 1.15, which TensorFlow 2 lacks.

    Args:
        inputs: tensor [..., H]. The last axis is normalized.
        begin_norm_axis: int. Must be -1.
        begin_params_axis: int. Must be -1.
        scope: str or None. Scope of the variables.

    Returns:
        tensor [..., H].
    """
    assert begin_norm_axis == begin_params_axis == -1
    with tf.variable_scope(scope, default_name="LayerNorm"):
        shape = [inputs.shape[-1]]
        beta = tf.get_variable("beta", shape, initializer=tf.zeros_initializer())
        gamma = tf.get_variable("gamma", shape, initializer=tf.ones_initializer())
        mean, variance = tf.nn.moments(inputs, [-1], keep_dims=True)
        return tf.nn.batch_normalization(inputs, mean, variance, beta, gamma, 1e-12)


contrib = types.ModuleType("tensorflow.contrib")
contrib.layers = types.ModuleType("tensorflow.contrib.layers")
contrib.layers.layer_norm = layer_norm
sys.modules.update({"tensorflow.contrib": contrib, "tensorflow.contrib.layers": contrib.layers})

from bert import modeling, run_pretraining  # noqa: E402, because bert imports the contrib modules above


def compute(prefix: str, batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Computes the outputs of the parts whose tensors are in the checkpoint.

    Args:
        prefix: str. Prefix of the checkpoint.
        batch: dict of int32 arrays. The inputs by name.

    Returns:
        dict name -> float32 array.
    """
    config = modeling.BertConfig.from_json_file(os.path.join(os.path.dirname(prefix), "bert_config.json"))
    with tf.Graph().as_default(), tf.Session() as session:
        ids, mask, types_, positions = (
            tf.constant(batch[name])
            for name in ("input_word_ids", "input_mask", "input_type_ids", "masked_lm_positions")
        )
        model = modeling.BertModel(config, is_training=False, input_ids=ids, input_mask=mask, token_type_ids=types_)
        *_, mlm_log_probabilities = run_pretraining.get_masked_lm_output(
            config,
            model.get_sequence_output(),
            model.get_embedding_table(),
            positions,
            tf.zeros_like(positions),
            tf.ones_like(positions, tf.float32),
        )
        *_, nsp_log_probabilities = run_pretraining.get_next_sentence_output(
            config, model.get_pooled_output(), tf.zeros(len(batch["input_word_ids"]), tf.int32)
        )
        # Both functions return log-softmax. The logits are its operand.
        mlm_logits, nsp_logits = (values.op.inputs[0] for values in (mlm_log_probabilities, nsp_log_probabilities))
        outputs = {
            "embedding_output": model.get_embedding_output(),
            **{f"layer_{i}": state for i, state in enumerate(model.get_all_encoder_layers())},
        }
        # Scope of variables -> the outputs that need them. A checkpoint may lack these variables.
        optional_outputs = {
            "bert/pooler/": {"pooled_output": model.get_pooled_output(), "nsp_logits": nsp_logits},
            "cls/seq_relationship/": {"nsp_logits": nsp_logits},
            "cls/predictions/": {"mlm_logits": tf.reshape(mlm_logits, [*batch["masked_lm_positions"].shape, -1])},
        }
        outputs |= {name: values for part in optional_outputs.values() for name, values in part.items()}
        stored_shapes = dict(tf.train.list_variables(prefix))
        for scope, features in (("", model.get_pooled_output()), ("cls/squad/", model.get_sequence_output())):
            if f"{scope}output_weights" in stored_shapes:
                outputs["classifier_logits"] = output_layer(scope, features, stored_shapes[f"{scope}output_weights"])
        missing = [variable.op.name for variable in tf.global_variables() if variable.op.name not in stored_shapes]
        for name in missing:
            owner = next((owner for owner in optional_outputs if name.startswith(owner)), None)
            if owner is None:
                sys.exit(f"the checkpoint has no {name}")
            for output in optional_outputs[owner]:
                outputs.pop(output, None)
        restored = [variable for variable in tf.global_variables() if variable.op.name in stored_shapes]
        tf.train.Saver(restored).restore(session, prefix)
        return session.run(outputs)


def output_layer(scope: str, features, shape: list[int]):
    """Computes the logits of a fine-tuned model like create_model of run_classifier.py and run_squad.py.

    Args:
        scope: str. Prefix of the variables' names.
        features: tensor [B, H] or [B, S, H].
        shape: list of int. Shape [n, H] of the kernel.

    Returns:
        tensor [B, n] or [B, S, n].
    """
    weights, bias = tf.get_variable(f"{scope}output_weights", shape), tf.get_variable(f"{scope}output_bias", shape[:1])
    logits = tf.nn.bias_add(tf.matmul(tf.reshape(features, [-1, shape[1]]), weights, transpose_b=True), bias)
    return tf.reshape(logits, [*features.shape[:-1], shape[0]])
