"""Golden values of google-research/bert: a tiny checkpoint and the outputs of its model.

Reference: bert-tensorflow 1.0.4 (BertModel, the heads of run_pretraining, create_optimizer, tf.compat.v1's Saver) on
TensorFlow 2.15.1, CPU. See README.md beside this file for the environment.

    python tests/golden/generate_google_tf1.py

Writes google_tf1_tiny/:
  bert_config.json, vocab.txt             inputs of Google's scripts; the vocabulary is lower-cased
  model.ckpt-3.{index,data-00000-of-00001}  a checkpoint of run_pretraining's Saver at step 3: random values of each
                                          variable and of its slots adam_m and adam_v, and global_step
  parity.npz                              arrays under these keys:
    metadata, made_by                     versions and seed, as JSON and as a line
    variables/NAME                        float32, all saved variables except the slots
    inputs/...                            int32, this project's batch names
    outputs/...                           float32: embedding_output, layer_0, layer_1 [B, S, H], pooled_output [B, H],
                                          mlm_logits [B, P, V], nsp_logits [B, 2]
"""

import json
import os
import string
import sys
from importlib.metadata import version

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")

import numpy as np
import tensorflow.compat.v1 as tf

GOLDEN_DIR = os.path.dirname(os.path.abspath(__file__))
OUTPUT_DIR = os.path.join(GOLDEN_DIR, "google_tf1_tiny")
# google_reference runs Google's code. It also provides the contrib layer that TensorFlow 2 lacks.
sys.path.insert(0, os.path.join(GOLDEN_DIR, "..", "..", "keras_bert_app", "interop", "google_tf1"))
import google_reference as reference  # noqa: E402  (the line above adds its folder)
from bert import modeling, optimization, run_pretraining  # noqa: E402  (needs the contrib layer)

SEED = 20181011
VERSIONS = {"bert-tensorflow": "1.0.4", "tensorflow": "2.15.1"}
STEPS = 3
# B batch, S sequence, P predictions. These sizes, vocabulary, inner size and positions are different primes.
BATCH_SIZE, SEQ_LENGTH, MAX_PREDICTIONS = 3, 13, 5
LENGTHS = (13, 11, 2)
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *string.ascii_lowercase]
CONFIG = {
    "attention_probs_dropout_prob": 0.1,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1,
    "hidden_size": 10,
    "initializer_range": 0.02,
    "intermediate_size": 7,
    "max_position_embeddings": 17,
    "num_attention_heads": 2,
    "num_hidden_layers": 2,
    "type_vocab_size": 2,
    "vocab_size": len(VOCABULARY),
}


def make_inputs(rng):
    """Returns the batch as int32 arrays [B, S], positions [B, P]."""
    steps = np.arange(SEQ_LENGTH)[None, :]
    mask = steps < np.array(LENGTHS)[:, None]
    ids = rng.randint(1, CONFIG["vocab_size"], mask.shape)
    # Row 1 has non-zero ids at its padding, because the mask, and not the id, marks padding.
    ids = np.where(mask | (np.arange(BATCH_SIZE)[:, None] == 1), ids, 0)
    positions = np.zeros((BATCH_SIZE, MAX_PREDICTIONS), np.int32)
    for row, length in enumerate(LENGTHS):
        chosen = rng.permutation(length)[:MAX_PREDICTIONS]
        positions[row, : len(chosen)] = np.sort(chosen)
    batch = {
        "input_word_ids": ids,
        "input_mask": mask,
        "input_type_ids": mask & (steps >= 6),
        "masked_lm_positions": positions,
    }
    return {name: values.astype(np.int32) for name, values in batch.items()}


def make_value(rng, name, shape):
    """A random value. It is larger than BERT's own initial values, so that an error in any part is visible."""
    noise = rng.standard_normal(shape)
    if name.endswith("LayerNorm/gamma"):
        return 1.0 + 0.2 * noise
    if name.startswith("cls/predictions/transform/dense"):
        return 0.05 * noise  # the variance in the next LayerNorm is then so small that its epsilon has an effect
    return np.abs(0.3 * noise) if name.endswith("adam_v") else 0.3 * noise


def write_checkpoint(batch, rng):
    """Builds run_pretraining's graph, fills its variables and saves them. Returns dict name -> value, without slots."""
    config = modeling.BertConfig.from_dict(CONFIG)
    with tf.Graph().as_default():
        model = modeling.BertModel(
            config, True, *(tf.constant(batch[name]) for name in ("input_word_ids", "input_mask", "input_type_ids"))
        )
        positions = tf.constant(batch["masked_lm_positions"])
        masked_lm_loss, *_ = run_pretraining.get_masked_lm_output(
            config,
            model.get_sequence_output(),
            model.get_embedding_table(),
            positions,
            tf.ones_like(positions),
            tf.ones_like(positions, tf.float32),
        )
        next_sentence_loss, *_ = run_pretraining.get_next_sentence_output(
            config, model.get_pooled_output(), tf.zeros([BATCH_SIZE], tf.int32)
        )
        optimization.create_optimizer(masked_lm_loss + next_sentence_loss, 1e-4, 10, 1, use_tpu=False)
        saved = {}
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            for variable in sorted(tf.global_variables(), key=lambda variable: variable.op.name):
                name = variable.op.name
                if name == "global_step":
                    variable.load(STEPS, session)
                    continue
                value = make_value(rng, name, variable.shape.as_list()).astype(np.float32)
                variable.load(value, session)
                if not name.endswith(("adam_m", "adam_v")):
                    saved[name] = value
            tf.train.Saver().save(
                session,
                os.path.join(OUTPUT_DIR, "model.ckpt"),
                global_step=STEPS,
                write_meta_graph=False,
                write_state=False,
            )
    return saved


def main():
    installed = {name: version(name) for name in VERSIONS}
    if installed != VERSIONS:
        raise SystemExit(f"reference versions are {installed}, expected {VERSIONS}")
    os.makedirs(OUTPUT_DIR, exist_ok=True)
    with open(os.path.join(OUTPUT_DIR, "bert_config.json"), "w", encoding="utf-8") as file:
        file.write(json.dumps(CONFIG, indent=2) + "\n")
    with open(os.path.join(OUTPUT_DIR, "vocab.txt"), "w", encoding="utf-8") as file:
        file.write("".join(f"{piece}\n" for piece in VOCABULARY))
    rng = np.random.RandomState(SEED)
    batch = make_inputs(rng)
    variables = write_checkpoint(batch, rng)
    outputs = reference.compute(OUTPUT_DIR, batch)
    made_by = "bert-tensorflow {bert-tensorflow} on tensorflow {tensorflow}".format(**VERSIONS)
    metadata = {
        "reference": "bert/modeling.py, run_pretraining.py, optimization.py",
        "versions": VERSIONS,
        "seed": SEED,
    }
    np.savez_compressed(
        os.path.join(OUTPUT_DIR, "parity.npz"),
        metadata=np.array(json.dumps(metadata)),
        made_by=np.array(made_by),
        **{f"variables/{name}": value for name, value in variables.items()},
        **{f"inputs/{name}": value for name, value in batch.items()},
        **{f"outputs/{name}": value for name, value in outputs.items()},
    )
    for name in sorted(os.listdir(OUTPUT_DIR)):
        print(name, os.path.getsize(os.path.join(OUTPUT_DIR, name)), "bytes")


if __name__ == "__main__":
    main()
