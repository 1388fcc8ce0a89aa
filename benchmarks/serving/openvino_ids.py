"""Compares the float outputs of an export over ids in TensorFlow and in OpenVINO, which has no code of TensorFlow.

python -m benchmarks.serving.openvino_ids --saved_model=saved_models/NAME_ids --peer_python=OPENVINO_ENV/bin/python

This line makes OPENVINO_ENV:

python3.11 -m venv OPENVINO_ENV && OPENVINO_ENV/bin/pip install -r benchmarks/requirements-openvino.txt
"""

import os

import numpy as np
from absl import flags

from benchmarks.common.peer_process import PeerProcess
from keras_bert_app.cli.common import app

flags.DEFINE_string("saved_model", "", "An export over ids: NAME_ids, with or without its version.")
flags.DEFINE_string("peer_python", "", "Interpreter of an environment with benchmarks/requirements-openvino.txt.")
_TOLERANCE = flags.DEFINE_float("tolerance", 1e-3, "Largest difference of an output that is allowed.")


def main(arguments):
    del arguments
    saved_model, peer_python = app.required("saved_model", "peer_python")
    with app.quiet_start():
        import tensorflow as tf

        from keras_bert_app.config.bert_config import BertConfig
        from keras_bert_app.export import saved_models
    directory = os.path.abspath(saved_models.find(saved_model))
    config = BertConfig.from_json_file(os.path.join(directory, "config.json"))
    generator = np.random.default_rng(0)
    lengths = np.array([23, 31, 7, 2])[:, None]
    mask = (np.arange(31) < lengths).astype(np.int32)
    inputs = {
        "input_word_ids": generator.integers(1, config.vocab_size, mask.shape).astype(np.int32) * mask,
        "input_mask": mask,
        "input_type_ids": (np.arange(31) >= lengths // 2).astype(np.int32) * mask,
    }
    serve = saved_models.load(directory).signatures["serving_default"]
    ours = serve(**{name: tf.constant(values) for name, values in inputs.items()})
    peer = PeerProcess(peer_python, "serving/peer_openvino.py", "peer_python", {"openvino": "2026.4.0"})
    theirs = peer.ask(saved_model=directory, inputs={name: values.tolist() for name, values in inputs.items()})
    worst = 0.0
    for name, values in sorted(ours.items()):
        if values.dtype == tf.float32:
            # States at padding are not compared, since nothing reads them.
            where = mask.astype(bool) if values.shape.rank == 3 and values.shape[1] == 31 else slice(None)
            difference = float(np.abs(np.array(theirs[name]) - values.numpy())[where].max())
            worst = np.maximum(worst, difference)  # np.maximum keeps nan; max may lose it
            print(f"{name} {list(values.shape)}: largest difference {difference:.1e}")
    if not worst <= _TOLERANCE.value:
        raise SystemExit(f"the outputs differ by {worst:.1e}; expected at most --tolerance={_TOLERANCE.value:g}")


if __name__ == "__main__":
    app.run(main, __doc__)
