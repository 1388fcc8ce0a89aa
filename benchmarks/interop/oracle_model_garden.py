"""Model Garden's own objects, restored from a checkpoint and saved again: run by interop_model_garden, not by hand.

    MODEL_GARDEN_ENV/bin/python benchmarks/interop/oracle_model_garden.py

The interpreter is one with benchmarks/requirements-model-garden.txt. A line of JSON on stdin is a request, a line of
JSON on stdout its answer; the end of stdin ends it. First of all comes one line with the versions.

A request has directory (with bert_config.json and bert_model.ckpt), encoder (BertEncoder or BertEncoderV2), items (how
to restore: model, checkpoint_items or encoder), inputs_file (.npz: inputs/NAME as in parity.npz), outputs_file (gets
outputs/NAME as keras_bert_app.interop.parity names them) and save_to. All variables are nan before
tf.train.Checkpoint.restore and assert_existing_objects_matched; outputs that are nan afterwards are not answered. The
same objects are then saved, by the same items, below save_to, beside a copy of bert_config.json.
Answered are restored (number of variables) and lost (names of the pretrainer's that the items do not reach).
"""

import importlib.metadata
import json
import os
import shutil
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["TF_USE_LEGACY_KERAS"] = "1"
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # what an import prints is no answer

import numpy as np
import tensorflow as tf
from official.legacy.bert import configs
from official.modeling import tf_utils
from official.nlp.modeling import layers, models, networks


def _pretrainer(config, encoder_class, batch):
    """A BertPretrainerV2 as tools/tf2_bert_encoder_checkpoint_converter.py builds it, and a next-sentence head."""
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
    pretrainer(batch)
    for variable in pretrainer.variables:
        variable.assign(tf.fill(variable.shape, np.nan))
    return pretrainer


def _items(pretrainer, items):
    return {
        "model": {"model": pretrainer},
        "checkpoint_items": pretrainer.checkpoint_items,
        "encoder": {"encoder": pretrainer.encoder_network},
    }[items]


def answer(request):
    """The answer to a request; see the module's docstring."""
    config = configs.BertConfig.from_json_file(os.path.join(request["directory"], "bert_config.json"))
    with np.load(request["inputs_file"]) as arrays:
        batch = {name.removeprefix("inputs/"): arrays[name] for name in arrays.files}
    pretrainer = _pretrainer(config, getattr(networks, request["encoder"]), batch)
    checkpoint = tf.train.Checkpoint(**_items(pretrainer, request["items"]))
    checkpoint.restore(os.path.join(request["directory"], "bert_model.ckpt")).assert_existing_objects_matched()
    lost = [variable.name for variable in pretrainer.variables if np.isnan(variable.numpy()).any()]
    found = pretrainer(batch, training=False)
    head = pretrainer.classification_heads[0]
    outputs = {
        "embedding_output": found["word_embeddings"],
        **{f"layer_{i}": state for i, state in enumerate(found["encoder_outputs"])},
        "pooled_output": found["pooled_output"],
        "mlm_logits": found["mlm_logits"],
        "nsp_logits": found["next_sentence"],
        "head_pooled_output": head(found["sequence_output"], only_project=True),
    }
    outputs = {f"outputs/{name}": values.numpy() for name, values in outputs.items()}
    outputs = {name: values for name, values in outputs.items() if not np.isnan(values).any()}
    np.savez(request["outputs_file"], **outputs)
    os.makedirs(request["save_to"])
    shutil.copy(os.path.join(request["directory"], "bert_config.json"), request["save_to"])
    tf.train.Checkpoint(**_items(pretrainer, request["items"])).save(os.path.join(request["save_to"], "ckpt"))
    return {"restored": len(pretrainer.variables) - len(lost), "lost": lost}


def main():
    versions = {name: importlib.metadata.version(name) for name in ("tf-models-official", "tensorflow", "tf-keras")}
    print(json.dumps(versions), file=answers, flush=True)
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), file=answers, flush=True)


if __name__ == "__main__":
    main()
