"""Proves keras_bert_app.interop.google_tf1.google_layout against google-research/bert's own code, in both directions.

python -m benchmarks.interop.interop_google --google_python=GOOGLE_ENV/bin/python \\
    --model=RXNFP

The interpreter belongs to an environment with benchmarks/requirements-google.txt. --model is a pre-trained BERT in any
layout that convert reads. Without --model the weights are random. The benchmark shows:

1. Our writer writes the model. We read it back, and Google's code initializes from it and restores it.
2. Google's run_pretraining trains three steps from these weights. Its Saver saves all variables and slots, and we read
   the variables.
3. Google's run_classifier and run_squad do the same. We also write their checkpoints again, and Google's code reads
   them.

Tensors must be equal bit for bit, and outputs must be within the limits of keras_bert_app.interop.parity. The exit code
is 1 if any check fails.
"""

import os
import tempfile

import numpy as np
from absl import flags

from benchmarks.common.peer_process import PeerProcess
from benchmarks.interop import interop_checks
from keras_bert_app.cli.common import app

with app.quiet_start():
    from keras_bert_app.config.bert_config import BertConfig
    from keras_bert_app.interop import load, parity, parity_files
    from keras_bert_app.interop.google_tf1 import google_layout
    from keras_bert_app.interop.google_tf1.google_names import google_name, is_transposed
    from keras_bert_app.interop.weights import split_attention
    from tests.interop.conftest import make_weights

_GOOGLE_PYTHON = flags.DEFINE_string("google_python", "", "Interpreter with benchmarks/requirements-google.txt.")
_MODEL = flags.DEFINE_string("model", "", "A pre-trained model; by default random weights.")
_VERSIONS = {"bert-tensorflow": "1.0.4", "tensorflow": "2.15.1"}
_STEPS, _NUM_LABELS = 3, 5
_FINE_TUNED = {"run_classifier": ("sequence_classification", ""), "run_squad": ("question_answering", "cls/squad/")}


def main(arguments):
    del arguments
    app.required("google_python")
    source = load.load_weights(_MODEL.value)[0] if _MODEL.value else _random_weights()
    print(f"source: {source.origin}, {len(source.tensors)} tensors")
    google = PeerProcess(_GOOGLE_PYTHON.value, "interop/peer_google_checkpoint.py", "google_python", _VERSIONS)
    with tempfile.TemporaryDirectory() as directory:
        batch = parity.probe_batch(source.config)
        parity_files.write(os.path.join(directory, "inputs.npz"), batch)
        written = os.path.join(directory, "written")
        compare_written(google, source, batch, directory, written)
        for script in ("run_pretraining", *_FINE_TUNED):
            compare_run(google, script, batch, directory, written)
    interop_checks.finish()


def _random_weights():
    return make_weights(
        BertConfig(
            vocab_size=101,
            hidden_size=22,
            num_hidden_layers=3,
            num_attention_heads=2,
            intermediate_size=37,
            max_position_embeddings=41,
        )
    )


def compare_written(google, source, batch: dict, directory: str, written: str) -> None:
    """Writes a source in Google's layout, and lets both sides read it.

    Args:
        google: PeerProcess of peer_google_checkpoint.
        source: Weights.
        batch: dict of int32 arrays, as parity.probe_batch returns it.
        directory: str. Directory for temporary files, with inputs.npz.
        written: str. Directory for the checkpoint.
    """
    print("\nour checkpoint, read by Google's run_pretraining")
    for line in google_layout.write(source, written):
        print(f"  our writer: {line}")
    again = google_layout.read(written)
    interop_checks.check(
        f"we read back all {len(source.tensors)} tensors, the casing and the vocabulary bit for bit",
        interop_checks.are_same(source.tensors, again.tensors)
        and again.config.do_lower_case == source.config.do_lower_case
        and again.vocabulary == source.vocabulary,
    )
    answer, _, _ = _ask(google, "run_pretraining", directory, written)
    interop_checks.check("our checkpoint has all variables of run_pretraining", not answer["fresh"])
    expected = vars(again.config) | {
        "hidden_act": "gelu" if again.config.hidden_act == "gelu_tanh" else again.config.hidden_act
    }
    interop_checks.check(
        f"BertConfig.from_json_file holds our values: {answer['config']}",
        answer["config"] == {key: expected[key] for key in answer["config"]},
    )
    interop_checks.check_outputs(parity.our_outputs(again, batch), _outputs(again, written, batch), "")
    interop_checks.show_change_of_configuration(source, again, batch)


def compare_run(google, script: str, batch: dict, directory: str, written: str) -> None:
    """Trains with Google's script from our checkpoint and reads the saved model.

    The function also writes a fine-tuned model again and lets Google's code read it.

    Args:
        google: PeerProcess of peer_google_checkpoint.
        script: str. run_pretraining, run_classifier or run_squad.
        batch: dict of int32 arrays, as parity.probe_batch returns it.
        directory: str. Directory for temporary files, with inputs.npz.
        written: str. Directory of our checkpoint.
    """
    print(f"\nGoogle's {script} trains {_STEPS} steps from our checkpoint and saves the model; we read it")
    answer, variables, saved = _ask(google, script, directory, written, _STEPS)
    weights = google_layout.read(saved)
    print(f"  {weights.origin.replace(directory, 'DIRECTORY')}; left out: {weights.unused}")
    variables.pop("global_step")
    interop_checks.check(
        f"{answer['num_saved']} variables are saved; we read the {len(variables)} that are no slots bit for bit",
        interop_checks.are_same(_in_google_layout(weights), variables) and not weights.unexpected,
    )
    theirs = _outputs(weights, saved, batch)
    interop_checks.check_outputs(parity.our_outputs(weights, batch), theirs, "")
    if script in _FINE_TUNED:
        interop_checks.check(
            f"the task is {weights.task}; our checkpoint lacked only {', '.join(answer['fresh'])}",
            weights.task == _FINE_TUNED[script][0] and len(answer["fresh"]) == 2,
        )
        rewritten = os.path.join(directory, f"{script}-rewritten")
        for line in google_layout.write(weights, rewritten):
            print(f"  our writer: {line}")
        answer, _, _ = _ask(google, script, directory, rewritten)
        interop_checks.check(
            "we write the model again; Google's code finds all its variables and gives the same logits bit for bit",
            not answer["fresh"] and interop_checks.are_same(theirs, _outputs(weights, rewritten, batch)),
        )


def _ask(google, script, directory, model, steps=0):
    """(answer, variables, directory of the saved checkpoint) of peer_google_checkpoint."""
    save_to, arrays_file = os.path.join(directory, f"{script}-saved"), os.path.join(directory, "arrays.npz")
    answer = google.ask(
        script=script,
        model=model,
        checkpoint="bert_model.ckpt",
        num_labels=_NUM_LABELS,
        steps=steps,
        inputs_file=os.path.join(directory, "inputs.npz"),
        arrays_file=arrays_file,
        save_to=save_to,
    )
    with np.load(arrays_file) as arrays:
        return answer, dict(arrays), save_to


def _outputs(weights, path, batch):
    """Outputs that Google's own code computes from a checkpoint."""
    return parity.reference_outputs(weights.config, "google_tf1", path, batch, _GOOGLE_PYTHON.value)[0]


def _in_google_layout(weights):
    tensors = split_attention(weights.tensors)
    scope = _FINE_TUNED["run_squad"][1] if weights.task == "question_answering" else ""
    named = {
        f"{scope}output_{name}": tensors.pop(f"classifier/{part}")
        for name, part in (("weights", "kernel"), ("bias", "bias"))
        if weights.task
    }
    named |= {google_name(path): tensor for path, tensor in tensors.items()}
    return {name: tensor.T if is_transposed(name) else tensor for name, tensor in named.items()}


if __name__ == "__main__":
    app.run(main, __doc__)
