"""Initializes, trains and saves models with google-research/bert's own code, for interop_google.

reference_answers runs this script in an environment with benchmarks/requirements-google.txt.

A request has:

- model: directory with bert_config.json and vocab.txt. checkpoint: name of the checkpoint in that directory.
- script: run_pretraining, run_classifier or run_squad. num_labels: number of classes of run_classifier.
- inputs_file: .npz with inputs/NAME as in parity.npz. arrays_file: .npz to write.
- steps: number of training steps. save_to: directory of the new checkpoint.

This program builds the graph of Google's script. It initializes the variables as Google's script does, with
get_assignment_map_from_checkpoint and init_from_checkpoint. It trains for `steps` steps with create_optimizer, without
dropout. Saver then writes save_to/model.ckpt-STEPS and save_to/checkpoint, and the program copies bert_config.json and
vocab.txt. If steps is 0, the program neither trains nor saves.

The answer has config (the values that BertConfig.from_json_file reads), fresh (variables that the checkpoint lacks) and
num_saved (number of all variables, with the optimizer's slots). The program writes each variable to arrays_file under
its name, without the optimizer's slots.
"""

import importlib
import os
import shutil
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "keras_bert_app", "interop", "google_tf1"))

import numpy as np
import tensorflow.compat.v1 as tf
from absl import flags
from google_reference import modeling  # it also supplies the layer of tf.contrib that TensorFlow 2 lacks

PACKAGES = ("bert-tensorflow", "tensorflow")
tf.disable_v2_tensorshape()  # run_classifier reads .value of a dimension
_SLOTS = ("/adam_m", "/adam_v")


def _script(name):
    """Imports one of Google's scripts. First removes the flags of the other scripts, which have the same names."""
    for module, defined in list(flags.FLAGS.flags_by_module_dict().items()):
        if module.startswith("bert.run_"):
            for flag in list(defined):
                delattr(flags.FLAGS, flag.name)
    return importlib.import_module(f"bert.{name}")


def _build_loss(script, config, batch, num_labels):
    """The loss of a script's graph, a scalar tensor."""
    ids, mask, types, positions = (
        tf.constant(batch[name]) for name in ("input_word_ids", "input_mask", "input_type_ids", "masked_lm_positions")
    )
    rows = len(batch["input_word_ids"])
    if script == "run_pretraining":
        run_pretraining = _script(script)
        model = modeling.BertModel(config, False, ids, mask, types)
        masked_lm_loss, *_ = run_pretraining.get_masked_lm_output(
            config,
            model.get_sequence_output(),
            model.get_embedding_table(),
            positions,
            tf.ones_like(positions),
            tf.ones_like(positions, tf.float32),
        )
        next_sentence_loss, *_ = run_pretraining.get_next_sentence_output(
            config, model.get_pooled_output(), tf.zeros([rows], tf.int32)
        )
        return masked_lm_loss + next_sentence_loss
    if script == "run_classifier":
        loss, *_ = _script(script).create_model(
            config, False, ids, mask, types, tf.zeros([rows], tf.int32), num_labels, False
        )
        return loss
    logits = tf.stack(_script(script).create_model(config, False, ids, mask, types, False), axis=-1)
    return -tf.reduce_mean(tf.nn.log_softmax(logits, axis=1)[:, 0])


def answer(request):
    """The answer to a request; see the module's docstring."""
    from bert import optimization

    model, save_to = request["model"], request["save_to"]
    config = modeling.BertConfig.from_json_file(os.path.join(model, "bert_config.json"))
    checkpoint = os.path.join(model, request["checkpoint"])
    with np.load(request["inputs_file"]) as arrays:
        batch = {name.removeprefix("inputs/"): arrays[name] for name in arrays.files}
    with tf.Graph().as_default():
        loss = _build_loss(request["script"], config, batch, request["num_labels"])
        names, initialized = modeling.get_assignment_map_from_checkpoint(tf.trainable_variables(), checkpoint)
        fresh = [variable.op.name for variable in tf.trainable_variables() if variable.op.name not in initialized]
        tf.train.init_from_checkpoint(checkpoint, names)
        train = optimization.create_optimizer(loss, 1e-3, 10, 1, use_tpu=False) if request["steps"] else None
        variables = tf.global_variables()
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            for _ in range(request["steps"]):
                session.run(train)
            if request["steps"]:
                os.makedirs(save_to)
                for name in ("bert_config.json", "vocab.txt"):
                    shutil.copy(os.path.join(model, name), save_to)
                tf.train.Saver().save(
                    session, os.path.join(save_to, "model.ckpt"), global_step=request["steps"], write_meta_graph=False
                )
            kept = [variable for variable in variables if not variable.op.name.endswith(_SLOTS)]
            np.savez(request["arrays_file"], **{variable.op.name: session.run(variable) for variable in kept})
    return {"config": config.to_dict(), "fresh": fresh, "num_saved": len(variables)}
