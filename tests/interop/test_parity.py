"""Tests that the parity report compares every output of every layer and head, and that no fault passes."""

import ast
import dataclasses
import os
import pathlib
import shlex
import sys
import textwrap
import zipfile

import numpy as np
import pytest

from keras_bert_app import BertConfig
from keras_bert_app.errors import UserError
from keras_bert_app.interop import parity, parity_files, surgery
from keras_bert_app.interop.keras_hub import keras_hub_layout, keras_hub_reference
from tests.interop.conftest import CONFIGS, make_weights

THREE_LAYERS = CONFIGS["three_layers"]
NAMES = ["embedding_output", "layer_0", "layer_1", "layer_2", "pooled_output", "mlm_logits", "nsp_logits"]


@pytest.fixture(scope="module")
def weights():
    return make_weights(THREE_LAYERS)


@pytest.fixture(scope="module")
def outputs(weights):
    return parity.our_outputs(weights, parity.probe_batch(THREE_LAYERS))


@pytest.fixture
def not_installed(monkeypatch):
    """Pretends that no package of another implementation is installed."""
    packages = {source_format: ("no-such-package", *names) for source_format, names in parity.PACKAGES.items()}
    monkeypatch.setattr(parity, "PACKAGES", packages)


def changed(weights, path):
    """Adds a small fault to one tensor. The fault varies, because a LayerNorm could remove a constant fault."""
    tensor = weights.tensors[path]
    fault = np.linspace(0.0, 0.03, tensor.size, dtype=np.float32).reshape(tensor.shape)
    return dataclasses.replace(weights, tensors={**weights.tensors, path: tensor + fault})


def row_of(lines, name):
    return next(line for line in lines if line.split()[0] == name)


def test_the_probe_is_valid_for_any_size_and_reaches_segments_padding_and_the_last_position(config):
    batch = parity.probe_batch(config)
    ids, mask, types, positions = (batch[name] for name in parity_files.INPUTS)
    lengths = mask.sum(axis=1)
    assert all(values.dtype == np.int32 for values in batch.values())
    assert ids.shape == (3, min(config.max_position_embeddings, 48))
    assert ids.min() >= 0 and ids.max() < config.vocab_size
    assert lengths[0] == ids.shape[1] > lengths[1] > lengths[2] > 0
    for row, length in enumerate(lengths):
        assert mask[row, :length].all() and not mask[row, length:].any()
        assert set(types[row, :length]) == set(range(config.type_vocab_size)) and not types[row, length:].any()
        assert (positions[row] < length).all() and len(set(positions[row])) >= min(length, 7)
    assert ids[1, lengths[1] :].any() and not ids[2, lengths[2] :].any()


def test_the_probe_follows_from_its_seed_and_fits_the_smallest_model():
    first, same, other = (parity.probe_batch(THREE_LAYERS, seed) for seed in (3, 3, 4))
    for name, values in first.items():
        np.testing.assert_array_equal(values, same[name])
    assert (first["input_word_ids"] != other["input_word_ids"]).any()
    smallest = parity.probe_batch(BertConfig(vocab_size=1, max_position_embeddings=1, type_vocab_size=1))
    assert not any(values.any() for name, values in smallest.items() if name != "input_mask")


def test_outputs_belong_to_the_parts_that_the_weights_have(weights, outputs):
    assert list(outputs) == NAMES
    assert {name: values.shape for name, values in outputs.items()} == {
        **{name: (3, 23, 33) for name in NAMES[:4]},
        "pooled_output": (3, 33),
        "mlm_logits": (3, 7, 19),
        "nsp_logits": (3, 2),
    }
    encoder = {
        path: tensor for path, tensor in weights.tensors.items() if path.startswith("encoder/") and "pooler" not in path
    }
    bare = parity.our_outputs(dataclasses.replace(weights, tensors=encoder), parity.probe_batch(THREE_LAYERS))
    assert list(bare) == NAMES[:4]


@pytest.mark.parametrize(
    "task, features",
    [
        ("sequence_classification", "pooled_output"),
        ("multiple_choice", "pooled_output"),
        ("token_classification", "layer_2"),
        ("question_answering", "layer_2"),
    ],
)
def test_a_classifier_reads_the_pooled_output_or_every_token(weights, outputs, task, features):
    kernel, bias = np.arange(66, dtype=np.float32).reshape(33, 2), np.array([5.0, -3.0], np.float32)
    tuned = dataclasses.replace(
        weights, task=task, tensors={**weights.tensors, "classifier/kernel": kernel, "classifier/bias": bias}
    )
    logits = parity.our_outputs(tuned, parity.probe_batch(THREE_LAYERS))["classifier_logits"]
    expected = np.einsum("...h,hn->...n", outputs[features], kernel) + bias
    np.testing.assert_allclose(logits, expected, rtol=1e-4, atol=1e-4)


def test_identical_outputs_are_reported_as_the_same(outputs):
    lines, is_same = parity.compare(outputs, outputs)
    assert is_same and lines[-1] == "parity: 7 outputs are the same within their limits"
    assert [line.split()[0] for line in lines[1:-1]] == NAMES
    assert row_of(lines, "layer_1").split()[1:3] == ["0.0e+00", "1e-05"]
    assert row_of(lines, "mlm_logits").split()[1:3] == ["0.0e+00", "1e-04"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("times, is_same", [(0.9, True), (1.1, False)])
def test_one_value_just_beyond_the_limit_of_its_output_is_a_fault(outputs, name, times, is_same):
    theirs = {**outputs, name: outputs[name].astype(np.float64)}
    theirs[name].flat[-1] += times * (1e-4 if name.endswith("logits") else 1e-5)
    lines, verdict = parity.compare(outputs, theirs)
    assert verdict == is_same == ("beyond its limit" not in row_of(lines, name))
    assert is_same or lines[-1] == f"parity: 1 of 7 outputs are not the same, first {name}"


@pytest.mark.parametrize("side", ["ours", "theirs", "both"])
def test_nan_is_a_fault_even_on_both_sides(outputs, side):
    broken = {**outputs, "layer_1": np.full_like(outputs["layer_1"], np.nan)}
    ours, theirs = {"ours": (broken, outputs), "theirs": (outputs, broken), "both": (broken, broken)}[side]
    lines, is_same = parity.compare(ours, theirs)
    assert not is_same and "beyond its limit" in row_of(lines, "layer_1")


def test_another_shape_is_a_fault(outputs):
    lines, is_same = parity.compare(outputs, {**outputs, "layer_0": outputs["layer_0"][:, :1]})
    assert not is_same and "expected shape [3, 1, 33], found [3, 23, 33]" in row_of(lines, "layer_0")


def test_a_head_that_was_not_loaded_is_a_fault_and_a_head_that_the_reference_lacks_is_reported(outputs):
    without = {name: values for name, values in outputs.items() if name != "nsp_logits"}
    lines, is_same = parity.compare(without, outputs)
    assert not is_same and "the reference gives this output, the loaded weights do not" in row_of(lines, "nsp_logits")
    lines, is_same = parity.compare(outputs, without)
    assert is_same and "not compared" in row_of(lines, "nsp_logits")
    assert lines[-1] == "parity: 6 outputs are the same within their limits"


def test_a_layer_that_is_missing_on_either_side_is_a_fault(outputs):
    without = {name: values for name, values in outputs.items() if name != "layer_2"}
    assert not parity.compare(outputs, without)[1] and not parity.compare(without, outputs)[1]
    assert not parity.compare(outputs, {})[1]


@pytest.mark.parametrize(
    "path, first",
    [
        ("encoder/embeddings/position_embeddings", "embedding_output"),
        ("encoder/layer_0/intermediate/bias", "layer_0"),
        ("encoder/layer_2/attention/query_key_value/kernel", "layer_2"),
        ("encoder/pooler/bias", "pooled_output"),
        ("masked_lm/output_bias", "mlm_logits"),
        ("next_sentence/projection/bias", "nsp_logits"),
    ],
)
def test_the_result_names_the_first_output_that_a_wrong_tensor_changes(weights, tmp_path, not_installed, path, first):
    parity.write_golden(weights, tmp_path)
    lines, is_same = parity.check(changed(weights, path), "huggingface", str(tmp_path))
    assert not is_same and lines[-1].endswith(f"first {first}")


def test_stored_values_are_compared_if_the_implementation_is_not_installed(weights, tmp_path, not_installed):
    parity.write_golden(weights, tmp_path)
    assert os.listdir(tmp_path) == ["parity.npz"]
    lines, is_same = parity.check(weights, "google_tf1", str(tmp_path / "bert_model.ckpt"))
    assert is_same and lines[0].startswith("random compared with parity.npz of keras_bert_app on tensorflow ")


def test_without_a_reference_the_error_says_what_to_install(weights, tmp_path, not_installed):
    with pytest.raises(UserError, match="no no-such-package and torch and transformers here, and no parity.npz beside"):
        parity.check(weights, "huggingface", str(tmp_path))
    lines, is_same = parity.check(weights, "workdir", str(tmp_path), "any/python")
    assert is_same and "there is nothing to compare with" in lines[0]


def replace_array(path, name, shape=(3, 23), dtype="<i4", data=None):
    """Replaces an array of an .npz file, or adds one. The header may contradict the data."""
    with zipfile.ZipFile(path) as archive:
        members = {info.filename: archive.read(info) for info in archive.infolist()}
    header = str({"descr": dtype, "fortran_order": False, "shape": shape}).encode()
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    data = np.zeros(69, np.int32).tobytes() if data is None else data
    members[f"{name}.npy"] = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + data
    with zipfile.ZipFile(path, "w") as archive:
        for filename, content in members.items():
            archive.writestr(filename, content)


@pytest.mark.parametrize(
    "name, given, message",
    [
        ("inputs/input_word_ids", {"data": np.full(69, 19, np.int32).tobytes()}, "its inputs do not fit"),
        ("inputs/input_word_ids", {"data": np.full(69, -1, np.int32).tobytes()}, "its inputs do not fit"),
        ("inputs/input_type_ids", {"data": np.full(69, 2, np.int32).tobytes()}, "its inputs do not fit"),
        ("inputs/masked_lm_positions", {"data": np.full(69, 23, np.int32).tobytes()}, "its inputs do not fit"),
        ("inputs/input_mask", {"shape": (23, 3)}, "its inputs do not fit"),
        ("inputs/input_mask", {"dtype": "<f4"}, "its inputs do not fit"),
        ("inputs/surprise", {}, "its inputs do not fit"),
        ("outputs/layer_0", {"dtype": "<i4"}, "is not a valid parity.npz"),
        ("outputs/layer_0", {"dtype": "|O", "data": b"cos\nsystem\n(S'true'\ntR."}, "Object arrays cannot be loaded"),
        ("outputs/layer_0", {"shape": (1 << 40, 1 << 10), "dtype": "<f4"}, "is not a valid parity.npz"),
        ("outputs/layer_0", {"shape": (0, 3), "dtype": "<f4", "data": b""}, "an output is empty"),
    ],
)
def test_a_hostile_file_of_stored_values_is_refused(weights, tmp_path, not_installed, name, given, message):
    parity.write_golden(weights, tmp_path)
    replace_array(tmp_path / "parity.npz", name, **given)
    with pytest.raises(UserError, match=message):
        parity.check(weights, "huggingface", str(tmp_path))


def test_stored_values_of_a_model_with_more_positions_are_refused(weights, tmp_path, not_installed):
    parity.write_golden(weights, tmp_path)
    shorter, _ = surgery.grow_positions(weights, 22)
    with pytest.raises(UserError, match="its inputs do not fit this configuration"):
        parity.check(shorter, "huggingface", str(tmp_path))


def test_a_damaged_or_too_large_file_of_stored_values_is_refused(weights, tmp_path, not_installed, monkeypatch):
    parity.write_golden(weights, tmp_path)
    path = tmp_path / "parity.npz"
    whole = path.read_bytes()
    for content in (b"", whole[:-40], whole[:500] + b"\xff" + whole[501:], b"PK\x05\x06"):
        path.write_bytes(content)
        with pytest.raises(UserError, match="is not a valid parity.npz"):
            parity.check(weights, "huggingface", str(tmp_path))
    path.write_bytes(whole)
    monkeypatch.setattr(parity_files, "_MAX_BYTES", 10_000)
    with pytest.raises(UserError, match="bytes unpacked; expected at most 10,000"):
        parity.check(weights, "huggingface", str(tmp_path))


def interpreter(tmp_path, body):
    """Writes an executable that records which script the caller names, and runs the script `body` instead."""
    (tmp_path / "stand_in.py").write_text('PACKAGES = ("numpy", "not-installed")\n' + textwrap.dedent(body))
    path = tmp_path / "interpreter"
    # The path of this Python may have a space. A "#!" line cannot name such a path, so the line names /bin/sh.
    python, script, asked = (
        shlex.quote(str(name)) for name in (sys.executable, tmp_path / "stand_in.py", tmp_path / "asked")
    )
    path.write_text(f'#!/bin/sh\necho "$2" > {asked}\nexec {python} "$1" {script}\n')
    path.chmod(0o755)
    return str(path)


def test_the_implementation_runs_under_the_given_interpreter(weights, outputs, tmp_path):
    np.savez(tmp_path / "known.npz", **outputs)
    python = interpreter(
        tmp_path,
        f"""
        import numpy as np
        print("chatter of a library")

        def compute(model, batch):
            assert model == "{tmp_path}" and sorted(batch) == {sorted(parity_files.INPUTS)}, (model, sorted(batch))
            return dict(np.load("{tmp_path}/known.npz"))
    """,
    )
    lines, is_same = parity.check(weights, "huggingface", str(tmp_path), python)
    assert is_same and lines[0] == f"random compared with numpy {np.__version__}"
    assert (tmp_path / "asked").read_text().endswith("huggingface/huggingface_reference.py\n")
    _, is_same = parity.check(changed(weights, "masked_lm/output_bias"), "huggingface", str(tmp_path), python)
    assert not is_same


def test_an_implementation_that_fails_is_an_error_with_its_last_line(weights, tmp_path):
    failing = "import sys\ndef compute(*_):\n    print('chatter')\n    sys.exit('the checkpoint has no bert/x')\n"
    python = interpreter(tmp_path, failing)
    with pytest.raises(UserError, match=r"under .*interpreter ended \(the checkpoint has no bert/x\); expected an"):
        parity.check(weights, "huggingface", str(tmp_path), python)
    with pytest.raises(UserError, match=r"cannot be run \(No such file or directory\); expected an interpreter"):
        parity.check(weights, "huggingface", str(tmp_path), str(tmp_path / "nowhere"))
    with pytest.raises(UserError, match=r"printed '.*' as an answer; expected an interpreter with torch"):
        parity.check(weights, "huggingface", str(tmp_path), "/bin/echo")


def test_kerashub_computes_the_same_from_a_preset_with_the_constants_of_its_own_head(tmp_path, monkeypatch):
    weights = make_weights(CONFIGS["one_layer"])
    # These small values give a small variance, so the epsilon of the head also changes the logits.
    weights.tensors["masked_lm/transform/kernel"] *= np.float32(0.02)
    weights.tensors["masked_lm/transform/bias"] *= np.float32(0.02)
    preset = str(tmp_path / "preset")
    keras_hub_layout.write(weights, preset)
    read = keras_hub_layout.read(preset)

    def in_process(config, source_format, path, batch, reference_python):
        return keras_hub_reference.compute(path, batch), "keras_hub in this process"

    monkeypatch.setattr(parity, "reference_outputs", in_process)
    lines, is_same = parity.check(read, "keras_hub", preset)
    assert is_same, lines
    difference_as_configured = float(lines[-1].rsplit(" ", 1)[1])
    assert difference_as_configured > 10 * parity.LOGITS_LIMIT
    assert float(row_of(lines, "mlm_logits").split()[1]) < parity.LOGITS_LIMIT / 10
    for path in ("encoder/layer_0/output/kernel", "masked_lm/transform/kernel"):
        assert not parity.check(changed(read, path), "keras_hub", preset)[1]


def test_a_kerashub_classifier_is_compared_and_a_missing_pooler_is_not(tmp_path):
    weights = make_weights(CONFIGS["one_layer"])
    kernel = np.linspace(-1.0, 1.0, 66, dtype=np.float32).reshape(22, 3)
    tuned = dataclasses.replace(
        weights,
        task="sequence_classification",
        tensors={**weights.tensors, "classifier/kernel": kernel, "classifier/bias": kernel[0]},
    )
    encoder = dataclasses.replace(
        weights,
        tensors={
            path: tensor
            for path, tensor in weights.tensors.items()
            if path.startswith("encoder/") and "pooler" not in path
        },
    )
    batch = parity.probe_batch(weights.config)
    for name, given, heads in (("tuned", tuned, ["pooled_output", "classifier_logits"]), ("encoder", encoder, [])):
        keras_hub_layout.write(given, str(tmp_path / name))
        theirs = keras_hub_reference.compute(str(tmp_path / name), batch)
        assert list(theirs) == ["embedding_output", "layer_0", *heads]
        assert parity.compare(parity.our_outputs(keras_hub_layout.read(str(tmp_path / name)), batch), theirs)[1]


def test_the_scripts_of_other_implementations_do_not_import_this_application():
    scripts = sorted(pathlib.Path(parity.__file__).parent.glob("*/*_reference.py"))
    assert {script.parent.name for script in scripts} == parity.PACKAGES.keys()
    for script in scripts:
        tree = ast.parse(script.read_text(encoding="utf-8"))
        (packages,) = (
            ast.literal_eval(node.value)
            for node in tree.body
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "PACKAGES"
        )
        assert set(parity.PACKAGES[script.parent.name]) <= set(packages)
        for node in ast.walk(tree):
            modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            modules += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not [module for module in modules if module.split(".")[0] in ("keras_bert_app", "pipelines")]
