"""Proves keras_bert_app.interop.keras_hub.keras_hub_layout against KerasHub itself, both ways.

python -m benchmarks.interop.interop_keras_hub --model=../shared/weights/rxnfp-bert_pretrained

KerasHub runs in a process that imports nothing of this project. --model is a pre-trained BERT in any layout that
convert reads; without it, random weights of three shapes. For each, as a masked LM, as a classifier and as an encoder
alone, shown are:
  1. our preset, loaded by from_preset: the outputs of both, and the ids that its tokenizer gives for some words;
  2. the preset that KerasHub then saves, the encoder's in shards, read by us: every tensor bit for bit.
The masked-LM logits are compared with the head computed in numpy under KerasHub's constants, and then with our model's
own, whose difference is told. Outputs must be within the limits of keras_bert_app.interop.parity; exits 1 if anything
is not as expected.
"""

import dataclasses
import math
import os
import sys
import tempfile

import numpy as np
from absl import flags

from benchmarks.common.peer_process import PeerProcess
from benchmarks.interop.interop_checks import are_same, check, finish
from keras_bert_app.cli.common import app

with app.quiet_start():
    from keras_bert_app.interop import load, parity
    from keras_bert_app.interop.keras_hub import keras_hub_layout
    from keras_bert_app.interop.keras_hub.keras_hub_objects import HEAD_COMPUTES
    from keras_bert_app.interop.weights import part_of
    from pipelines.wordpiece.vocabulary import parse_vocabulary
    from tests.interop.conftest import CONFIGS, make_weights

_PYTHON = flags.DEFINE_string("keras_hub_python", sys.executable, "Interpreter with requirements.txt.")
_MODEL = flags.DEFINE_string("model", "", "A pre-trained model; none: random weights.")
_VERSIONS = {"keras-hub": "0.32.0", "keras": "3.15.1"}
_NUM_LABELS = 5
_ONE_FILE = 10  # GB


def main(arguments):
    del arguments
    sources = [load.load_weights(_MODEL.value)[0]] if _MODEL.value else map(make_weights, CONFIGS.values())
    peer = PeerProcess(_PYTHON.value, "oracle_keras_hub.py", "keras_hub_python", _VERSIONS)
    for source in sources:
        encoder = {path: tensor for path, tensor in source.tensors.items() if part_of(path) in ("encoder", "pooler")}
        classifier = {
            "classifier/kernel": np.random.RandomState(1)
            .normal(size=(source.config.hidden_size, _NUM_LABELS))
            .astype(np.float32),
            "classifier/bias": np.arange(_NUM_LABELS, dtype=np.float32),
        }
        variants = {
            "BertMaskedLM": source,
            "": dataclasses.replace(source, tensors=encoder),
            "BertTextClassifier": dataclasses.replace(
                source, tensors={**encoder, **classifier}, task="sequence_classification"
            ),
        }
        for task, weights in variants.items():
            largest = max(tensor.nbytes for tensor in weights.tensors.values()) / 2**30
            with tempfile.TemporaryDirectory() as directory:
                compare(peer, weights, task, _ONE_FILE if task else 1.5 * largest, directory)
    finish()


def compare(peer, source, task, max_shard_size, directory):
    """Has weights written by us, loaded and saved by KerasHub, and read by us."""
    config = source.config
    name = f"{task or 'BertBackbone'}, {config.num_hidden_layers} layers of {config.hidden_size}, {config.hidden_act}"
    print(f"\n{source.origin} as {name}")
    written, saved, inputs_file, outputs_file = (
        os.path.join(directory, name) for name in ("written", "saved", "inputs.npz", "outputs.npz")
    )
    for line in keras_hub_layout.write(source, written):
        print(f"  said: {line}")
    again = keras_hub_layout.read(written)
    batch = parity.probe_batch(config)
    np.savez(inputs_file, **{f"inputs/{name}": values for name, values in batch.items()})
    pieces = parse_vocabulary(source.vocabulary)[0]
    words = {piece: i for i, piece in enumerate(pieces) if piece.isascii() and piece.isalnum()}
    answer = peer.ask(
        directory=written,
        task=task,
        inputs_file=inputs_file,
        outputs_file=outputs_file,
        save_to=saved,
        max_shard_size=max_shard_size,
        texts=[" ".join(words)],
    )
    check("KerasHub's process imported nothing of this project", not answer["foreign"])
    check(
        f"its tokenizer gives the ids of {len(words):,} whole words of the vocabulary",
        answer["ids"] == [[*words.values()]],
    )
    with np.load(outputs_file) as arrays:
        theirs = {name.removeprefix("outputs/"): arrays[name] for name in arrays.files}
    ours = parity.our_outputs(again, batch)
    plain = dict(ours)
    if task == "BertMaskedLM":
        states = ours[f"layer_{config.num_hidden_layers - 1}"]
        ours["mlm_logits"] = _mlm_logits(again.tensors, states, batch["masked_lm_positions"])
    lines, is_same = parity.compare({name: ours[name] for name in theirs}, theirs)
    print("  " + "\n  ".join(lines))
    check(f"outputs of {len(theirs)} kinds within their limits", is_same)
    if task == "BertMaskedLM":
        difference = np.abs(plain["mlm_logits"] - theirs["mlm_logits"]).max()
        print(
            f"  with our own head ({again.config.hidden_act}, {again.config.layer_norm_eps:g}) mlm_logits differ "
            f"from KerasHub's by up to {difference:.1e}"
        )
    if again.config != config:
        exact = parity.our_outputs(source, batch)
        print(
            f"  with the source's own configuration ({config.hidden_act}, layer_norm_eps {config.layer_norm_eps:g}) "
            "our outputs differ from KerasHub's by up to "
            + ", ".join(f"{np.abs(exact[name] - theirs[name]).max():.1e} ({name})" for name in theirs)
        )
    found = keras_hub_layout.read(saved)
    expected = {path: tensor for path, tensor in source.tensors.items() if part_of(path) != "next_sentence"}
    files = [name for name in os.listdir(saved) if name.startswith("model") and name.endswith(".h5")]
    check(
        f"saved by KerasHub as {len(files)} file(s), all {len(expected)} tensors and the vocabulary read by us bit "
        "for bit, none unexpected",
        are_same(found.tensors, expected)
        and not found.unexpected
        and found.vocabulary == source.vocabulary
        and found.config == again.config,
    )


def _mlm_logits(tensors, states, positions):
    """KerasHub's masked-LM head in numpy: logits [B, P, V] of states [B, S, H]."""
    x = np.take_along_axis(states, positions[..., None], axis=1).astype(np.float64)
    x = x @ tensors["masked_lm/transform/kernel"] + tensors["masked_lm/transform/bias"]
    x = x * 0.5 * (1.0 + np.vectorize(math.erf)(x / math.sqrt(2.0)))
    x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + HEAD_COMPUTES["layer_norm_eps"])
    x = x * tensors["masked_lm/layer_norm/gamma"] + tensors["masked_lm/layer_norm/beta"]
    return x @ tensors["encoder/embeddings/word_embeddings"].T + tensors["masked_lm/output_bias"]


if __name__ == "__main__":
    app.run(main, __doc__)
