"""Proves keras_bert_app.interop.model_garden.model_garden_layout against TensorFlow Model Garden's own objects.

python -m benchmarks.interop.interop_model_garden --model_garden_python=GARDEN_ENV/bin/python \\
    --model=RXNFP

The interpreter belongs to an environment with benchmarks/requirements-model-garden.txt. --model is a pre-trained BERT
in any layout that convert reads. Without --model the weights are random, of three shapes. The benchmark shows for each
model:

1. Model Garden loads our checkpoint, and its outputs agree with ours.
2. Model Garden has two encoder classes and three ways to name the parts of a checkpoint. In each combination it
   restores our checkpoint with assert_existing_objects_matched and saves it again. We read every tensor bit for bit
   and compare the outputs.

Outputs must be within the limits of keras_bert_app.interop.parity. The exit code is 1 if any check fails.
"""

import os
import tempfile

from absl import flags

from benchmarks.common.peer_process import PeerProcess
from benchmarks.interop.interop_checks import are_same, check, check_outputs, finish, show_change_of_configuration
from keras_bert_app.cli.common import app

with app.quiet_start():
    from keras_bert_app.config.weight_shapes import part_of
    from keras_bert_app.interop import load, parity
    from keras_bert_app.interop.model_garden import model_garden_layout
    from tests.interop.conftest import CONFIGS, make_weights

_PYTHON = flags.DEFINE_string("model_garden_python", "", "Interpreter with benchmarks/requirements-model-garden.txt.")
_MODEL = flags.DEFINE_string("model", "", "A pre-trained model; by default random weights.")
_VERSIONS = {"tf-models-official": "2.20.0", "tensorflow": "2.21.0", "tf-keras": "2.21.0"}
# Items -> the parts that they hold. checkpoint_items has the pooler of the next-sentence head, not its output layer.
_ITEMS = {
    "model": ("encoder", "pooler", "masked_lm", "next_sentence"),
    "checkpoint_items": ("encoder", "pooler", "masked_lm"),
    "encoder": ("encoder", "pooler"),
}


def main(arguments):
    del arguments
    app.required("model_garden_python")
    sources = [load.load_weights(_MODEL.value)[0]] if _MODEL.value else map(make_weights, CONFIGS.values())
    peer = PeerProcess(_PYTHON.value, "interop/peer_model_garden.py", "model_garden_python", _VERSIONS)
    for source in sources:
        with tempfile.TemporaryDirectory() as directory:
            compare(peer, source, directory)
    finish()


def compare(peer, source, directory: str) -> None:
    """Writes a source, lets Model Garden restore and save it, and reads it again.

    Args:
        peer: PeerProcess of peer_model_garden.
        source: Weights.
        directory: str. Directory for temporary files.
    """
    config = source.config
    print(f"\nsource: {source.origin}, {config.num_hidden_layers} layers of {config.hidden_size}, {config.hidden_act}")
    written = os.path.join(directory, "written")
    for line in model_garden_layout.write(source, written):
        print(f"  our writer: {line}")
    again = model_garden_layout.read(written)
    check(f"we read back all {len(source.tensors)} tensors bit for bit", are_same(again.tensors, source.tensors))
    batch = parity.probe_batch(config)
    ours = parity.our_outputs(again, batch)
    check_outputs(ours, _outputs(again, written, batch), "our checkpoint: ")
    show_change_of_configuration(source, again, batch)
    for encoder in ("BertEncoder", "BertEncoderV2"):
        for items, parts in _ITEMS.items():
            name, saved = f"{encoder} as {items}", os.path.join(directory, f"{encoder}-{items}")
            answer = peer.ask(directory=written, encoder=encoder, items=items, save_to=saved)
            print(f"  {name}: {answer['restored']} variables restored, {len(answer['lost'])} not in the items")
            weights = model_garden_layout.read(saved)
            expected = {path: tensor for path, tensor in source.tensors.items() if part_of(path) in parts}
            check(
                f"{name}: Model Garden saves; we read all {len(expected)} tensors bit for bit, and none is unexpected",
                are_same(weights.tensors, expected) and not weights.unexpected,
            )
            check_outputs(ours, _outputs(weights, saved, batch), f"{name}: ")


def _outputs(weights, path, batch):
    """Outputs that Model Garden computes from a checkpoint."""
    return parity.reference_outputs(weights.config, "model_garden", path, batch, _PYTHON.value)[0]


if __name__ == "__main__":
    app.run(main, __doc__)
