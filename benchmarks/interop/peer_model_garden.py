"""Restores a checkpoint with TensorFlow Model Garden's own objects and saves it again, for interop_model_garden.

reference_answers runs this script in an environment with benchmarks/requirements-model-garden.txt.

A request has directory (with bert_config.json and bert_model.ckpt), encoder (BertEncoder or BertEncoderV2), items (how
to restore: model, checkpoint_items or encoder) and save_to. The script sets all variables to nan, restores them with
tf.train.Checkpoint, and calls assert_existing_objects_matched. It then saves the same items in save_to, and copies
bert_config.json.

The answer has restored (number of restored variables) and lost (names of the variables that are still nan, because the
items do not hold them).
"""

import os
import shutil

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["TF_USE_LEGACY_KERAS"] = "1"

import numpy as np
import tensorflow as tf
from official.legacy.bert import configs
from official.modeling import tf_utils
from official.nlp.modeling import layers, models, networks

PACKAGES = ("tf-models-official", "tensorflow", "tf-keras")


def _pretrainer(config, encoder_class):
    """A BertPretrainerV2 as tools/tf2_bert_encoder_checkpoint_converter.py builds it, with a next-sentence head."""
    activation = tf_utils.get_activation(config.hidden_act)
    encoder = encoder_class(
        vocab_size=config.vocab_size,
        hidden_size=config.hidden_size,
        num_layers=config.num_hidden_layers,
        num_attention_heads=config.num_attention_heads,
        intermediate_size=config.intermediate_size,
        activation=activation,
        dropout_rate=config.hidden_dropout_prob,
        attention_dropout_rate=config.attention_probs_dropout_prob,
        max_sequence_length=config.max_position_embeddings,
        type_vocab_size=config.type_vocab_size,
        embedding_width=config.embedding_size,
        return_word_embeddings=True,
        dict_outputs=True,
    )
    head = layers.ClassificationHead(inner_dim=config.hidden_size, num_classes=2, name="next_sentence")
    pretrainer = models.BertPretrainerV2(encoder, mlm_activation=activation, classification_heads=[head])
    ids = np.zeros([1, 1], np.int32)
    names = ("input_word_ids", "input_mask", "input_type_ids", "masked_lm_positions")
    pretrainer(dict.fromkeys(names, ids))  # creates the variables
    for variable in pretrainer.variables:
        variable.assign(tf.fill(variable.shape, np.nan))
    return pretrainer


def answer(request):
    """The answer to a request; see the module's docstring."""
    config_file = os.path.join(request["directory"], "bert_config.json")
    pretrainer = _pretrainer(configs.BertConfig.from_json_file(config_file), getattr(networks, request["encoder"]))
    items = {
        "model": {"model": pretrainer},
        "checkpoint_items": pretrainer.checkpoint_items,
        "encoder": {"encoder": pretrainer.encoder_network},
    }[request["items"]]
    prefix = os.path.join(request["directory"], "bert_model.ckpt")
    tf.train.Checkpoint(**items).restore(prefix).assert_existing_objects_matched()
    lost = [variable.name for variable in pretrainer.variables if np.isnan(variable.numpy()).any()]
    os.makedirs(request["save_to"])
    shutil.copy(config_file, request["save_to"])
    tf.train.Checkpoint(**items).save(os.path.join(request["save_to"], "ckpt"))
    return {"restored": len(pretrainer.variables) - len(lost), "lost": lost}
