"""Proves keras_bert_app.interop.keras_hub.keras_hub_layout against KerasHub itself, in both directions.

python -m benchmarks.interop.interop_keras_hub --model=RXNFP

KerasHub runs in a process that imports nothing of this project. --model is a pre-trained BERT in any layout that
convert reads. Without --model the weights are random, of three shapes. The benchmark takes each model as a masked LM,
as a classifier and as an encoder alone, and shows:

1. KerasHub loads our preset. Its outputs agree with ours, and its tokenizer gives our ids for all ASCII words of the
   vocabulary.
2. from_preset loads our preset and save_to_preset saves it again, the encoder in shards. We read every tensor bit for
   bit.

The comparison of the masked-LM head uses KerasHub's constants. The benchmark prints how far our own constants change
the outputs. Outputs must be within the limits of keras_bert_app.interop.parity. The exit code is 1 if any check fails.
"""

import dataclasses
import os
import sys
import tempfile

import numpy as np
from absl import flags

from benchmarks.common.peer_process import PeerProcess
from benchmarks.interop.interop_checks import are_same, check, finish, show_change_of_configuration
from keras_bert_app.cli.common import app

with app.quiet_start():
    from keras_bert_app.config.weight_shapes import part_of
    from keras_bert_app.interop import load, parity
    from keras_bert_app.interop.keras_hub import keras_hub_layout
    from pipelines.wordpiece.vocabulary import parse_vocabulary
    from tests.interop.conftest import CONFIGS, make_weights

_PYTHON = flags.DEFINE_string("keras_hub_python", sys.executable, "Interpreter with requirements.txt.")
_MODEL = flags.DEFINE_string("model", "", "A pre-trained model; by default random weights.")
_VERSIONS = {"keras-hub": "0.32.0", "keras": "3.15.1"}
_NUM_LABELS = 5
_ONE_FILE = 10  # GB


def main(arguments):
    del arguments
    sources = [load.load_weights(_MODEL.value)[0]] if _MODEL.value else map(make_weights, CONFIGS.values())
    peer = PeerProcess(_PYTHON.value, "interop/peer_keras_hub.py", "keras_hub_python", _VERSIONS)
    for source in sources:
        for task, weights in _variants(source).items():
            largest = max(tensor.nbytes for tensor in weights.tensors.values()) / 2**30
            with tempfile.TemporaryDirectory() as directory:
                compare(peer, weights, task, _ONE_FILE if task else 1.5 * largest, directory)
    finish()


def _variants(source):
    """KerasHub's task -> the weights that its class holds."""
    encoder = {path: tensor for path, tensor in source.tensors.items() if part_of(path) in ("encoder", "pooler")}
    kernel = np.random.RandomState(1).normal(size=(source.config.hidden_size, _NUM_LABELS))
    classifier = {
        "classifier/kernel": kernel.astype(np.float32),
        "classifier/bias": np.arange(_NUM_LABELS, dtype=np.float32),
    }
    return {
        "BertMaskedLM": source,
        "": dataclasses.replace(source, tensors=encoder),
        "BertTextClassifier": dataclasses.replace(
            source, tensors={**encoder, **classifier}, task="sequence_classification"
        ),
    }


def compare(peer, source, task: str, max_shard_size: float, directory: str) -> None:
    """Writes weights, lets KerasHub load and save them, and reads them again.

    Args:
        peer: PeerProcess of peer_keras_hub.
        source: Weights.
        task: str. KerasHub's class of the task, "" for the backbone.
        max_shard_size: float. Largest file of the backbone's weights, in GB.
        directory: str. Directory for temporary files.
    """
    config = source.config
    name = f"{task or 'BertBackbone'}, {config.num_hidden_layers} layers of {config.hidden_size}, {config.hidden_act}"
    print(f"\n{source.origin} as {name}")
    written, saved = (os.path.join(directory, name) for name in ("written", "saved"))
    for line in keras_hub_layout.write(source, written):
        print(f"  our writer: {line}")
    again = keras_hub_layout.read(written)
    lines, is_same = parity.check(again, "keras_hub", written, _PYTHON.value)
    print("  " + "\n  ".join(lines))
    check("the outputs are within their limits", is_same)
    show_change_of_configuration(source, again, parity.probe_batch(config))
    pieces = parse_vocabulary(source.vocabulary)[0]
    words = {piece: i for i, piece in enumerate(pieces) if piece.isascii() and piece.isalnum()}
    answer = peer.ask(
        directory=written, task=task, save_to=saved, max_shard_size=max_shard_size, texts=[" ".join(words)]
    )
    check("KerasHub's process imported nothing of this project", not answer["foreign"])
    check(
        f"KerasHub's tokenizer gives the ids of {len(words):,} whole words of the vocabulary",
        answer["ids"] == [[*words.values()]],
    )
    _check_saved(saved, source, again.config)


def _check_saved(saved, source, config):
    """Checks the preset that KerasHub saved."""
    weights = keras_hub_layout.read(saved)
    expected = {path: tensor for path, tensor in source.tensors.items() if part_of(path) != "next_sentence"}
    files = [name for name in os.listdir(saved) if name.startswith("model") and name.endswith(".h5")]
    check(
        f"KerasHub saves {len(files)} file(s) of weights; we read all {len(expected)} tensors and the vocabulary bit "
        "for bit, and no tensor is unexpected",
        are_same(weights.tensors, expected)
        and not weights.unexpected
        and weights.vocabulary == source.vocabulary
        and weights.config == config,
    )


if __name__ == "__main__":
    app.run(main, __doc__)
