"""google-research/bert's checkpoints, loaded and written by its own code: run by interop_google, not by hand.

    GOOGLE_ENV/bin/python benchmarks/interop/oracle_google_checkpoint.py

The interpreter is one with benchmarks/requirements-google.txt. A line of JSON on stdin is a request, a line of JSON
on stdout its answer; the end of stdin ends it. First of all comes one line with the versions.

A request has model (a directory with bert_config.json and vocab.txt), checkpoint (its name there), script
(run_pretraining, run_classifier or run_squad), num_labels, inputs_file (.npz: inputs/NAME as in parity.npz), steps,
save_to and arrays_file. The script's graph is initialized as the script does it, by get_assignment_map_from_checkpoint
and init_from_checkpoint, and trained for `steps` steps with create_optimizer, dropout off. Saver then writes
save_to/model.ckpt-STEPS and `checkpoint`, beside copies of bert_config.json and vocab.txt; none of this if steps is 0.
Answered are config (what BertConfig.from_json_file makes of the file), fresh (variables that were not in the
checkpoint) and num_saved; arrays_file gets variables/NAME, all but slots, and outputs/NAME as
keras_bert_app.interop.parity names them; those of run_pretraining are computed from a checkpoint that Saver restored.
"""

import importlib
import importlib.metadata
import json
import os
import shutil
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # what an import prints is no answer

import numpy as np
import tensorflow.compat.v1 as tf
from absl import flags

_HERE = os.path.dirname(os.path.abspath(__file__))
# It runs the pre-trained model, and gives Google's code the contrib layer that TensorFlow 2 lacks.
sys.path.insert(0, os.path.join(_HERE, "..", "keras_bert_app", "interop", "references"))
import google_tf1 as reference
from bert import modeling, optimization

tf.disable_v2_tensorshape()  # run_classifier takes .value of a dimension
_SLOTS = ("/adam_m", "/adam_v")


def _script(name):
    """A script of Google's as a module. The flags of another, which have the same names, make room for its own."""
    for module, defined in list(flags.FLAGS.flags_by_module_dict().items()):
        if module.startswith("bert.run_"):
            for flag in list(defined):
                delattr(flags.FLAGS, flag.name)
    return importlib.import_module(f"bert.{name}")


def _build(script, config, batch, num_labels):
    """(loss, logits) of a script's graph; logits of run_pretraining are None."""
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
        return masked_lm_loss + next_sentence_loss, None
    if script == "run_classifier":
        loss, _, logits, _ = _script(script).create_model(
            config, False, ids, mask, types, tf.zeros([rows], tf.int32), num_labels, False
        )
        return loss, logits
    logits = tf.stack(_script(script).create_model(config, False, ids, mask, types, False), axis=-1)
    return -tf.reduce_mean(tf.nn.log_softmax(logits, axis=1)[:, 0]), logits


def answer(request):
    """The answer to a request; see the module's docstring."""
    model, save_to = request["model"], request["save_to"]
    config = modeling.BertConfig.from_json_file(os.path.join(model, "bert_config.json"))
    checkpoint = os.path.join(model, request["checkpoint"])
    with np.load(request["inputs_file"]) as arrays:
        batch = {name.removeprefix("inputs/"): arrays[name] for name in arrays.files}
    with tf.Graph().as_default():
        loss, logits = _build(request["script"], config, batch, request["num_labels"])
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
                checkpoint = tf.train.Saver().save(
                    session, os.path.join(save_to, "model.ckpt"), global_step=request["steps"], write_meta_graph=False
                )
            arrays = {
                f"variables/{variable.op.name}": session.run(variable)
                for variable in variables
                if not variable.op.name.endswith(_SLOTS)
            }
            if logits is not None:
                arrays["outputs/classifier_logits"] = session.run(logits)
    if logits is None:
        arrays |= {f"outputs/{name}": values for name, values in reference.compute(checkpoint, batch).items()}
    np.savez(request["arrays_file"], **arrays)
    return {"config": config.to_dict(), "fresh": fresh, "num_saved": len(variables)}


def main():
    versions = {name: importlib.metadata.version(name) for name in ("bert-tensorflow", "tensorflow")}
    print(json.dumps(versions), file=answers, flush=True)
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), file=answers, flush=True)


if __name__ == "__main__":
    main()
