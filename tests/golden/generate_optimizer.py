"""Golden values of google-research/bert's AdamW, schedule and clipping.

Reference: PyPI bert-tensorflow 1.0.4, bert/optimization.py, create_optimizer,
on tensorflow 2.15.1 (tf.compat.v1). See README.md for the environment.

    python tests/golden/generate_optimizer.py

Writes optimizer_google.npz beside this file. T steps, for each variable NAME:
  metadata                   a JSON string: versions, hyperparameters, names
  learning_rate              [T], the rate that step t used
  gradient_global_norm       [T], before the clip at 1.0
  initial/NAME               the variable before the first step
  gradients/NAME             [T, ...], before clipping
  variables/NAME             [T, ...], after each step
  adam_m/NAME, adam_v/NAME   [T, ...], the slots after each step

The last two steps are after num_train_steps. Their rate is 0, but the slots change.
"""

import json
import os
from importlib.metadata import version
from unittest import mock

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")

import numpy as np
import tensorflow.compat.v1 as tf
from bert import optimization

OUTPUT_DIR = os.path.dirname(os.path.abspath(__file__))
SEED = 20181011
VERSIONS = {"bert-tensorflow": "1.0.4", "tensorflow": "2.15.1"}
STEPS = 12
INIT_LR, NUM_TRAIN_STEPS, NUM_WARMUP_STEPS = 1e-2, 10, 4
SHAPES = {"layer/kernel": (3, 5), "layer/LayerNorm/gamma": (7,), "layer/bias": (5,)}
# One scale for each step. The norm of 27 draws is about five times the scale, so
# the step clips gradients whose scale is above 0.2.
GRADIENT_SCALES = (0.1, 3.0, 0.05, 40.0, 0.02, 1.0, 1e-3, 0.3, 1e-6, 7.0, 0.1, 2.0)
# With this gradient sqrt(v) is near epsilon, so the value and the place of epsilon matter.
TINY_GRADIENT = 3e-5


def make_inputs():
    """Returns (initial values, gradients [T, ...]), dicts of float32 by name."""
    rng = np.random.default_rng(SEED)
    initial, gradients = {}, {}
    for name, shape in SHAPES.items():
        initial[name] = rng.normal(0.0, 2.0, shape).astype(np.float32)
        draws = rng.normal(size=(STEPS,) + shape)
        draws *= np.reshape(GRADIENT_SCALES, (STEPS,) + (1,) * len(shape))
        columns = draws.reshape(STEPS, -1)  # a view
        columns[:, 0] = 0.0
        columns[:, 1] = TINY_GRADIENT * rng.normal(size=STEPS)
        gradients[name] = draws.astype(np.float32)
    return initial, gradients


def build(initial):
    """Builds the graph. Returns placeholders, variables, rate tensor, train op."""
    variables, placeholders = {}, {}
    for name, value in initial.items():
        variables[name] = tf.get_variable(name, initializer=value)
        placeholders[name] = tf.placeholder(tf.float32, value.shape)
    # The gradient of sum(g * v) with respect to v is g.
    loss = tf.add_n([tf.reduce_sum(placeholders[name] * variables[name]) for name in initial])

    # create_optimizer does not return its learning rate, so record it here.
    optimizer_class = optimization.AdamWeightDecayOptimizer
    original_init = optimizer_class.__init__
    rates = []

    def recording_init(self, learning_rate, **kwargs):
        rates.append(learning_rate)
        original_init(self, learning_rate, **kwargs)

    with mock.patch.object(optimizer_class, "__init__", recording_init):
        train_op = optimization.create_optimizer(loss, INIT_LR, NUM_TRAIN_STEPS, NUM_WARMUP_STEPS, use_tpu=False)
    return placeholders, variables, rates[0], train_op


def run(initial, gradients):
    """Runs T steps. Returns a dict of arrays stacked over the steps."""
    recorded = {"learning_rate": []}
    with tf.Graph().as_default():
        placeholders, variables, rate, train_op = build(initial)
        slots = {v.op.name: v for v in tf.global_variables()}
        watched = {f"variables/{name}": variables[name] for name in initial}
        for slot in ("adam_m", "adam_v"):
            watched.update({f"{slot}/{name}": slots[f"{name}/{slot}"] for name in initial})
        threads = tf.ConfigProto(inter_op_parallelism_threads=1, intra_op_parallelism_threads=1)
        with tf.Session(config=threads) as session:
            session.run(tf.global_variables_initializer())
            for step in range(STEPS):
                feed = {placeholders[n]: gradients[n][step] for n in initial}
                # Read the rate before the update, because the graph may read
                # global_step before or after its increment. See check().
                recorded["learning_rate"].append(session.run(rate))
                session.run(train_op, feed)
                for key, value in session.run(watched).items():
                    recorded.setdefault(key, []).append(value)
    return {key: np.stack(values) for key, values in recorded.items()}


def check(initial, gradients, norms, recorded):
    """Raises SystemExit if float64 arithmetic does not lead to the same values.

    The check finds a reference that uses another step's learning rate.
    """
    for name, start in initial.items():
        decay = 0.01 if name == "layer/kernel" else 0.0
        value, m, v = start.astype(np.float64), 0.0, 0.0
        for step in range(STEPS):
            decayed = INIT_LR * (1 - min(step, NUM_TRAIN_STEPS) / NUM_TRAIN_STEPS)
            warming = INIT_LR * step / NUM_WARMUP_STEPS
            rate = warming if step < NUM_WARMUP_STEPS else decayed
            gradient = gradients[name][step] / max(1.0, norms[step])
            m = 0.9 * m + 0.1 * gradient
            v = 0.999 * v + 0.001 * gradient**2
            value = value - rate * (m / (np.sqrt(v) + 1e-6) + decay * value)
            actual = recorded[f"variables/{name}"][step]
            if not (
                np.allclose(actual, value, rtol=1e-6, atol=1e-6)
                and np.isclose(recorded["learning_rate"][step], rate, rtol=1e-6)
            ):
                raise SystemExit(f"{name}, step {step}: {actual}, expected {value}")


def main():
    installed = {name: version(name) for name in VERSIONS}
    if installed != VERSIONS:
        raise SystemExit(f"reference versions are {installed}, expected {VERSIONS}")
    initial, gradients = make_inputs()
    flat = np.concatenate([g.reshape(STEPS, -1) for g in gradients.values()], axis=1)
    norms = np.linalg.norm(flat.astype(np.float64), axis=1)
    recorded = run(initial, gradients)
    check(initial, gradients, norms, recorded)

    metadata = {
        "reference": "bert/optimization.py create_optimizer",
        "versions": VERSIONS,
        "seed": SEED,
        "names": list(SHAPES),
        "init_lr": INIT_LR,
        "num_train_steps": NUM_TRAIN_STEPS,
        "num_warmup_steps": NUM_WARMUP_STEPS,
        "fixed_by_reference": "weight_decay_rate 0.01 but for names matching "
        "LayerNorm, layer_norm or bias; beta_1 0.9; beta_2 0.999; epsilon 1e-6; "
        "clip by global norm 1.0; no bias correction",
    }
    arrays = {
        "metadata": np.array(json.dumps(metadata)),
        "gradient_global_norm": norms.astype(np.float32),
    }
    arrays.update({f"initial/{name}": value for name, value in initial.items()})
    arrays.update({f"gradients/{name}": value for name, value in gradients.items()})
    arrays.update(recorded)
    path = os.path.join(OUTPUT_DIR, "optimizer_google.npz")
    np.savez_compressed(path, **arrays)
    print(f"{path} {os.path.getsize(path)} bytes; rates {recorded['learning_rate']}")


if __name__ == "__main__":
    main()
