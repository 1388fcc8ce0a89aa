"""Proves keras_bert_app.interop.model_garden.model_garden_layout against TensorFlow Model Garden's own objects, both ways.

python -m benchmarks.interop.interop_model_garden --model_garden_python=oracle-mg/bin/python \
    --model=../shared/weights/rxnfp-bert_pretrained

The interpreter is one with benchmarks/requirements-model-garden.txt. --model is a pre-trained BERT in any layout that
convert reads; without it, random weights of three shapes. For each of Model Garden's two encoders, and for each way of
naming what a checkpoint holds, shown are:
  1. our checkpoint, restored by its objects with assert_existing_objects_matched: the outputs of both;
  2. the checkpoint that those objects then save, read by us: every tensor bit for bit.
Outputs must be within the limits of keras_bert_app.interop.parity; exits 1 if anything is not as expected.
"""

import os
import tempfile

import numpy as np
from absl import flags

from benchmarks.common.peer_process import PeerProcess
from benchmarks.interop.interop_checks import are_same, check, finish
from keras_bert_app.cli.common import app

with app.quiet_start():
    from keras_bert_app.interop import load, parity
    from keras_bert_app.interop.model_garden import model_garden_layout
    from keras_bert_app.interop.weights import part_of
    from tests.interop.conftest import CONFIGS, make_weights

_PYTHON = flags.DEFINE_string("model_garden_python", "", "Interpreter with benchmarks/requirements-model-garden.txt.")
_MODEL = flags.DEFINE_string("model", "", "A pre-trained model; none: random weights.")
_VERSIONS = {"tf-models-official": "2.20.0", "tensorflow": "2.21.0", "tf-keras": "2.21.0"}
# Items -> the parts that they hold. Without its projection the next-sentence head still has its pooler.
_ITEMS = {
    "model": ("encoder", "pooler", "masked_lm", "next_sentence"),
    "checkpoint_items": ("encoder", "pooler", "masked_lm"),
    "encoder": ("encoder", "pooler"),
}


def main(arguments):
    del arguments
    app.required("model_garden_python")
    sources = [load.load_weights(_MODEL.value)[0]] if _MODEL.value else map(make_weights, CONFIGS.values())
    peer = PeerProcess(_PYTHON.value, "oracle_model_garden.py", "model_garden_python", _VERSIONS)
    for source in sources:
        with tempfile.TemporaryDirectory() as directory:
            compare(peer, source, directory)
    finish()


def compare(peer, source, directory):
    """Has a source written by us, restored and saved by Model Garden, and read by us."""
    config = source.config
    print(f"\nsource: {source.origin}, {config.num_hidden_layers} layers of {config.hidden_size}, {config.hidden_act}")
    written = os.path.join(directory, "written")
    for line in model_garden_layout.write(source, written):
        print(f"  said: {line}")
    again = model_garden_layout.read(written)
    check(f"all {len(source.tensors)} tensors read back by us bit for bit", are_same(again.tensors, source.tensors))
    batch = parity.probe_batch(config)
    inputs_file, outputs_file = (os.path.join(directory, name) for name in ("inputs.npz", "outputs.npz"))
    np.savez(inputs_file, **{f"inputs/{name}": values for name, values in batch.items()})
    ours = parity.our_outputs(again, batch)
    if again.config != config:
        exact = parity.our_outputs(source, batch)
        print(
            f"  with the source's own configuration ({config.hidden_act}, layer_norm_eps {config.layer_norm_eps:g}) "
            "our outputs differ from those by up to "
            + ", ".join(f"{np.abs(exact[name] - ours[name]).max():.1e} ({name})" for name in ours)
        )
    for encoder in ("BertEncoder", "BertEncoderV2"):
        for items, parts in _ITEMS.items():
            saved = os.path.join(directory, f"{encoder}-{items}")
            answer = peer.ask(
                directory=written,
                encoder=encoder,
                items=items,
                inputs_file=inputs_file,
                outputs_file=outputs_file,
                save_to=saved,
            )
            with np.load(outputs_file) as arrays:
                theirs = {name.removeprefix("outputs/"): arrays[name] for name in arrays.files}
            if "head_pooled_output" in theirs:
                check(
                    "the head's pooler gives what the encoder's does",
                    np.array_equal(theirs.pop("head_pooled_output"), theirs["pooled_output"]),
                )
            lines, is_same = parity.compare({name: ours[name] for name in theirs}, theirs)
            print(f"  {encoder}, restored as {items}: {answer['restored']} variables, {len(answer['lost'])} not there")
            print("    " + "\n    ".join(lines))
            check(f"{encoder} as {items}: outputs of {len(theirs)} kinds within their limits", is_same)
            found = model_garden_layout.read(saved)
            expected = {path: tensor for path, tensor in source.tensors.items() if part_of(path) in parts}
            check(
                f"{encoder} as {items}: saved by Model Garden, all {len(expected)} tensors read by us bit for bit, "
                "none unexpected",
                are_same(found.tensors, expected) and not found.unexpected,
            )


if __name__ == "__main__":
    app.run(main, __doc__)
