"""Proves keras_bert_app.interop.google_tf1.google_layout against google-research/bert's own code, both ways.

python -m benchmarks.interop.interop_google --google_python=oracle-google/bin/python \
    --model=../shared/weights/rxnfp-bert_pretrained

The interpreter is one with benchmarks/requirements-google.txt. --model is a pre-trained BERT in any layout that convert
reads; without it, random weights. Shown are:
  1. what our writer makes of it, read back by us, and initialized and restored by Google's code: the outputs of both;
  2. Google's run of three steps from there, saved by its Saver with all slots, and read by us;
  3. the same with run_classifier and run_squad, their checkpoints written again by us and read by Google's code.
Tensors must be equal bit for bit, outputs within the limits of keras_bert_app.interop.parity; exits 1 if any is not.
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
    from keras_bert_app.interop import load, parity
    from keras_bert_app.interop.google_tf1 import google_layout
    from keras_bert_app.interop.google_tf1.google_names import google_name, is_transposed
    from keras_bert_app.interop.weights import split_attention
    from tests.interop.conftest import make_weights

_GOOGLE_PYTHON = flags.DEFINE_string("google_python", "", "Interpreter with benchmarks/requirements-google.txt.")
_MODEL = flags.DEFINE_string("model", "", "A pre-trained model; none: random weights.")
_VERSIONS = {"bert-tensorflow": "1.0.4", "tensorflow": "2.15.1"}
_STEPS, _NUM_LABELS = 3, 5
_FINE_TUNED = {"run_classifier": ("sequence_classification", ""), "run_squad": ("question_answering", "cls/squad/")}


def main(arguments):
    del arguments
    app.required("google_python")
    source = (
        load.load_weights(_MODEL.value)[0]
        if _MODEL.value
        else make_weights(
            BertConfig(
                vocab_size=101,
                hidden_size=22,
                num_hidden_layers=3,
                num_attention_heads=2,
                intermediate_size=37,
                max_position_embeddings=41,
            )
        )
    )
    print(f"source: {source.origin}, {len(source.tensors)} tensors")
    google = PeerProcess(_GOOGLE_PYTHON.value, "oracle_google_checkpoint.py", "google_python", _VERSIONS)
    with tempfile.TemporaryDirectory() as directory:
        batch = parity.probe_batch(source.config)
        np.savez(os.path.join(directory, "inputs.npz"), **{f"inputs/{name}": values for name, values in batch.items()})
        written = os.path.join(directory, "written")
        compare_written(google, source, batch, directory, written)
        for script in ("run_pretraining", *_FINE_TUNED):
            compare_run(google, script, batch, directory, written)
    interop_checks.finish()


def compare_written(google, source, batch, directory, written):
    """Writes a source in Google's layout and has it read by both sides."""
    print("\nour checkpoint, read by Google's run_pretraining")
    for line in google_layout.write(source, written):
        print(f"  said: {line}")
    again = google_layout.read(written)
    interop_checks.check(
        f"all {len(source.tensors)} tensors, casing and vocabulary read back by us bit for bit",
        interop_checks.are_same(source.tensors, again.tensors)
        and again.config.do_lower_case == source.config.do_lower_case
        and again.vocabulary == source.vocabulary,
    )
    answer, _, outputs, _ = _ask(google, "run_pretraining", directory, written)
    interop_checks.check("all of its variables are in it", not answer["fresh"])
    expected = vars(again.config) | {
        "hidden_act": "gelu" if again.config.hidden_act == "gelu_tanh" else again.config.hidden_act
    }
    interop_checks.check(
        f"BertConfig.from_json_file holds our values: {answer['config']}",
        answer["config"] == {key: expected[key] for key in answer["config"]},
    )
    ours = _compare(again, batch, outputs)
    if source.config != again.config:
        exact = parity.our_outputs(source, batch)
        print(
            f"  with the source's own configuration ({source.config.hidden_act}, layer_norm_eps "
            f"{source.config.layer_norm_eps:g}) our outputs differ from these by up to "
            f"{max(float(np.abs(ours[name] - exact[name]).max()) for name in ours):.1e}"
        )


def compare_run(google, script, batch, directory, written):
    """Has a script of Google's train from our checkpoint and save, reads that, and gives a fine-tuned model back."""
    print(f"\nGoogle's {script}: {_STEPS} steps from our checkpoint, saved by it, read by us")
    answer, variables, outputs, saved = _ask(google, script, directory, written, _STEPS)
    weights = google_layout.read(saved)
    print(f"  {weights.origin.replace(directory, 'DIRECTORY')}; left out: {weights.unused}")
    variables.pop("global_step")
    interop_checks.check(
        f"{len(variables)} of the {answer['num_saved']} variables saved are no slots; all are read bit for bit",
        interop_checks.are_same(_in_google_layout(weights), variables) and not weights.unexpected,
    )
    _compare(weights, batch, outputs)
    if script in _FINE_TUNED:
        interop_checks.check(
            f"task is {weights.task}, only {', '.join(answer['fresh'])} began anew",
            weights.task == _FINE_TUNED[script][0] and len(answer["fresh"]) == 2,
        )
        rewritten = os.path.join(directory, f"{script}-rewritten")
        for line in google_layout.write(weights, rewritten):
            print(f"  said: {line}")
        answer, _, outputs_again, _ = _ask(google, script, directory, rewritten)
        interop_checks.check(
            "written again by us, Google's code finds all of its variables and gives the same logits bit for bit",
            not answer["fresh"] and interop_checks.are_same(outputs, outputs_again),
        )


def _ask(google, script, directory, model, steps=0):
    """(answer, variables, outputs, directory saved to) of oracle_google_checkpoint.py."""
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
        variables, outputs = (
            {name.removeprefix(side): arrays[name] for name in arrays.files if name.startswith(side)}
            for side in ("variables/", "outputs/")
        )
    return answer, variables, outputs, save_to


def _compare(weights, batch, theirs):
    ours = parity.our_outputs(weights, batch)
    lines, is_same = parity.compare({name: ours[name] for name in theirs if name in ours}, theirs)
    print("  " + "\n  ".join(lines))
    interop_checks.check("outputs within their limits", is_same)
    return ours


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
