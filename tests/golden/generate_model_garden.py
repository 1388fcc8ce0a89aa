"""Golden values of TensorFlow Model Garden: two tiny checkpoints and the outputs of their models.

Reference: tf-models-official 2.20.0 (BertPretrainerV2 over BertEncoderV2 and over BertEncoder) on tensorflow and
tf-keras 2.21.0, CPU. See README.md beside this file for the environment.

    python tests/golden/generate_model_garden.py

Writes two directories, each with a checkpoint and parity.npz:
  model_garden_run/        a run after 3 steps, as the trainer writes it: model.ckpt-3 of model, optimizer, global_step
                           and checkpoint_items. Attributes name the layers of its encoder. Also params.yaml, and a
                           cased vocab.txt
  model_garden_released/   BERT as Model Garden publishes it: bert_model.ckpt of checkpoint_items only. Numbers name the
                           layers of its encoder. It has no next-sentence projection. Also bert_config.json, and a
                           lower-cased vocab.txt
parity.npz holds:
    metadata, made_by      versions and seed, as JSON and as a line
    inputs/...             int32, this project's batch names
    outputs/...            float32: embedding_output, layer_0, layer_1 [B, S, H], pooled_output [B, H], mlm_logits
                           [B, P, V]; nsp_logits [B, 2] of the run
"""

import json
import os
import shutil
import string
import tempfile
from importlib.metadata import version

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
os.environ["TF_USE_LEGACY_KERAS"] = "1"

import numpy as np
import tensorflow as tf
import tf_keras
import yaml
from official.modeling import tf_utils
from official.nlp import optimization
from official.nlp.configs import bert, encoders
from official.nlp.modeling import layers, models, networks

GOLDEN_DIR = os.path.dirname(os.path.abspath(__file__))
SEED = 20181011
VERSIONS = {"tf-models-official": "2.20.0", "tensorflow": "2.21.0", "tf-keras": "2.21.0"}
STEPS = 3
# B batch, S sequence, P predictions. These sizes, inner size and positions are different primes.
BATCH_SIZE, SEQ_LENGTH, MAX_PREDICTIONS = 3, 13, 5
LENGTHS = (13, 11, 2)
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
HIDDEN_SIZE = 10
SIZES = {
    "hidden_size": HIDDEN_SIZE,
    "num_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 7,
    "max_position_embeddings": 17,
    "type_vocab_size": 2,
}


def make_inputs(rng, vocab_size):
    """Returns the batch as int32 arrays [B, S], positions [B, P]."""
    steps = np.arange(SEQ_LENGTH)[None, :]
    mask = steps < np.array(LENGTHS)[:, None]
    ids = rng.randint(1, vocab_size, mask.shape)
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


def make_pretrainer(encoder_class, vocab_size):
    """A BertPretrainerV2 as official/nlp/tasks/masked_lm.py builds it."""
    gelu = tf_utils.get_activation("gelu")
    encoder = encoder_class(
        vocab_size=vocab_size,
        hidden_size=HIDDEN_SIZE,
        num_layers=SIZES["num_layers"],
        num_attention_heads=SIZES["num_attention_heads"],
        intermediate_size=SIZES["intermediate_size"],
        activation=gelu,
        max_sequence_length=SIZES["max_position_embeddings"],
        type_vocab_size=SIZES["type_vocab_size"],
        return_word_embeddings=True,
        dict_outputs=True,
    )
    head = layers.ClassificationHead(inner_dim=HIDDEN_SIZE, num_classes=2, dropout_rate=0.1, name="next_sentence")
    return models.BertPretrainerV2(encoder, mlm_activation=gelu, classification_heads=[head])


def randomize(rng, variables):
    """Gives every variable a random value larger than BERT's own, so that an error in any part is visible."""
    for variable in variables:
        noise = rng.standard_normal(variable.shape)
        variable.assign(1.0 + 0.2 * noise if variable.name.endswith("gamma:0") else 0.3 * noise)


def train(pretrainer, batch):
    """Takes STEPS steps. Returns the optimizer, which then has its slots."""
    optimizer = optimization.create_optimizer(0.01, 10, 2)
    for _ in range(STEPS):
        with tf.GradientTape() as tape:
            outputs = pretrainer(batch, training=False)
            loss = tf.reduce_mean(outputs["mlm_logits"] ** 2) + tf.reduce_mean(outputs["next_sentence"] ** 2)
        pairs = zip(tape.gradient(loss, pretrainer.trainable_variables), pretrainer.trainable_variables, strict=True)
        optimizer.apply_gradients([(gradient, variable) for gradient, variable in pairs if gradient is not None])
    return optimizer


def write(name, encoder_class, is_run):
    """Writes the checkpoint and parity.npz of one directory."""
    directory = os.path.join(GOLDEN_DIR, name)
    shutil.rmtree(directory, ignore_errors=True)
    os.makedirs(directory)
    rng = np.random.RandomState(SEED)
    letters = string.ascii_letters[13:39] if is_run else string.ascii_lowercase
    vocabulary = [*SPECIAL, *letters]
    with open(os.path.join(directory, "vocab.txt"), "w", encoding="utf-8") as file:
        file.writelines(f"{piece}\n" for piece in vocabulary)
    batch = make_inputs(rng, len(vocabulary))
    pretrainer = make_pretrainer(encoder_class, len(vocabulary))
    pretrainer(batch)
    randomize(rng, pretrainer.variables)
    items = pretrainer.checkpoint_items
    if is_run:
        optimizer = train(pretrainer, batch)
        items |= {"model": pretrainer, "optimizer": optimizer, "global_step": optimizer.iterations}
        model = bert.PretrainerConfig(
            encoder=encoders.EncoderConfig(
                type="bert_v2",
                bert_v2=encoders.BertEncoderConfig(vocab_size=len(vocabulary), hidden_activation="gelu", **SIZES),
            ),
            cls_heads=[bert.ClsHeadConfig(inner_dim=HIDDEN_SIZE, dropout_rate=0.1, name="next_sentence")],
        )
        with open(os.path.join(directory, "params.yaml"), "w", encoding="utf-8") as file:
            yaml.dump({"task": {"model": model.as_dict()}}, file)
    else:
        config = {
            "attention_probs_dropout_prob": 0.1,
            "hidden_act": "gelu",
            "hidden_dropout_prob": 0.1,
            "initializer_range": 0.02,
            "vocab_size": len(vocabulary),
            **{key.replace("num_layers", "num_hidden_layers"): value for key, value in SIZES.items()},
        }
        with open(os.path.join(directory, "bert_config.json"), "w", encoding="utf-8") as file:
            file.write(json.dumps(config, indent=2, sort_keys=True) + "\n")
    with tempfile.TemporaryDirectory() as temporary:
        tf.train.Checkpoint(**items).save(os.path.join(temporary, "ckpt"))  # save() adds its own number
        for suffix in ("index", "data-00000-of-00001"):
            stem = f"model.ckpt-{STEPS}" if is_run else "bert_model.ckpt"
            shutil.copyfile(os.path.join(temporary, f"ckpt-1.{suffix}"), os.path.join(directory, f"{stem}.{suffix}"))

    predictions = pretrainer(batch, training=False)
    head = pretrainer.classification_heads[0]
    outputs = {
        "embedding_output": predictions["word_embeddings"],
        **{f"layer_{i}": state for i, state in enumerate(predictions["encoder_outputs"])},
        "pooled_output": head(predictions["sequence_output"], only_project=True),
        "mlm_logits": predictions["mlm_logits"],
    }
    if is_run:
        outputs["nsp_logits"] = predictions["next_sentence"]
    arrays = {f"inputs/{key}": values for key, values in batch.items()}
    arrays |= {f"outputs/{key}": values.numpy() for key, values in outputs.items()}
    metadata = json.dumps({"reference": encoder_class.__name__, "versions": VERSIONS, "seed": SEED})
    made_by = f"tf-models-official {VERSIONS['tf-models-official']} on tensorflow {VERSIONS['tensorflow']}"
    np.savez(os.path.join(directory, "parity.npz"), metadata=metadata, made_by=made_by, **arrays)
    sizes = sum(os.path.getsize(os.path.join(directory, file)) for file in os.listdir(directory))
    print(f"{name}: {sizes:,} bytes")


def main():
    installed = {package: version(package) for package in VERSIONS}
    if installed != VERSIONS:
        raise SystemExit(f"reference versions are {installed}, expected {VERSIONS}")
    tf_keras.utils.set_random_seed(SEED)
    write("model_garden_run", networks.BertEncoderV2, is_run=True)
    write("model_garden_released", networks.BertEncoder, is_run=False)


if __name__ == "__main__":
    main()
