"""Tests that KerasHub's presets are read and written bit for bit, and that hostile presets are refused."""

import dataclasses
import json
import shutil
import string
import tracemalloc

import h5py
import keras
import numpy as np
import pytest

from keras_bert_app.config.weight_shapes import part_of
from keras_bert_app.errors import UserError
from keras_bert_app.interop import hub, parity
from keras_bert_app.interop.keras_hub import hdf5_files, keras_hub_layout, keras_hub_names
from keras_bert_app.interop.weights import checked
from pipelines.wordpiece.vocabulary import SPECIAL_PIECES
from tests.interop.conftest import CONFIGS, assert_same, make_weights

KERNEL = "layers/dense/vars/0"  # The pooler's kernel in model.weights.h5.


@pytest.fixture(scope="module")
def presets(tmp_path_factory):
    """Writes a preset for each of CONFIGS. Returns dict name -> (Weights, directory, lines that write() returned)."""
    result = {}
    for name, config in CONFIGS.items():
        weights, directory = make_weights(config), str(tmp_path_factory.mktemp("presets") / name)
        result[name] = weights, directory, keras_hub_layout.write(weights, directory)
    return result


@pytest.fixture
def preset(presets, tmp_path):
    """A copy of a preset, which a test may damage."""
    return shutil.copytree(presets["one_layer"][1], tmp_path / "preset")


def without(weights, *parts):
    return dataclasses.replace(
        weights, tensors={path: tensor for path, tensor in weights.tensors.items() if part_of(path) not in parts}
    )


def edit_json(path, **changes):
    values = json.loads(path.read_text())
    path.write_text(json.dumps({**values, **{key: value(values) for key, value in changes.items()}}))


def test_text_is_lower_cased_for_a_vocabulary_without_capitals_and_the_ignored_setting_is_reported(tmp_path):
    keras_hub_layout.write(make_weights(CONFIGS["one_layer"].replace(vocab_size=31)), tmp_path / "preset")
    edit_json(
        tmp_path / "preset" / "tokenizer.json", config=lambda values: {**values["config"], "lowercase": False}
    )  # The preset bert_base_zh also has false.
    for letters, lower_cased in ((string.ascii_lowercase, True), (string.ascii_lowercase[:-1] + "A", False)):
        (tmp_path / "preset" / "assets/tokenizer/vocabulary.txt").write_text(
            "".join(f"{piece}\n" for piece in (*SPECIAL_PIECES, *letters))
        )
        weights = keras_hub_layout.read(str(tmp_path / "preset"))
        assert (
            weights.config.do_lower_case is lower_cased
            and ("tokenizer.json lowercase=False" in weights.unused) is lower_cased
        )


def test_names_of_layers_are_the_same_in_the_files_of_every_keras_version():
    assert {
        keras_hub_names.plain_name(f"{group}pooled_dense/vars/0")
        for group in ("layers/", "_layer_checkpoint_dependencies/", "_layer_checkpoint_dependencies\\")
    } == {"layers/pooled_dense/vars/0"}


def test_every_preset_name_of_bert_is_a_handle_and_a_file_name_is_not():
    from keras_hub.models import BertBackbone

    assert len(BertBackbone.presets) > 30 and all(hub.is_handle(name) for name in BertBackbone.presets)
    assert not any(hub.is_handle(name) for name in ("bert_model.ckpt", "runs/bert_mini", "my_bert", "bert_config.json"))


@pytest.mark.parametrize("name", CONFIGS)
def test_a_masked_lm_comes_back_bit_for_bit_without_the_next_sentence_head(presets, name):
    weights, directory, _ = presets[name]
    loaded = keras_hub_layout.read(directory)
    computed = weights.config.replace(hidden_act="gelu_tanh")  # KerasHub always computes this form.
    assert_same(loaded, dataclasses.replace(without(weights, "next_sentence"), config=computed))
    assert not loaded.unexpected
    assert checked(loaded, allow_missing=["next_sentence"])[0].parts() == ("encoder", "pooler", "masked_lm")


def test_keras_hub_loads_a_written_preset_and_computes_the_same(presets):
    import keras_hub as library

    weights, directory, _ = presets["seven_heads"]
    batch = parity.probe_batch(weights.config)
    model = library.models.MaskedLM.from_preset(directory)
    assert type(model) is library.models.BertMaskedLM
    inputs = {
        "token_ids": batch["input_word_ids"],
        "segment_ids": batch["input_type_ids"],
        "padding_mask": batch["input_mask"],
    }
    theirs, ours = model.backbone(inputs), parity.our_outputs(keras_hub_layout.read(directory), batch)
    np.testing.assert_allclose(ours["layer_1"], np.asarray(theirs["sequence_output"]), atol=1e-5)
    np.testing.assert_allclose(ours["pooled_output"], np.asarray(theirs["pooled_output"]), atol=1e-5)
    # KerasHub's head has other constants, so this limit is larger. A wrong tensor would change the logits by far more.
    logits = np.asarray(model({**inputs, "mask_positions": batch["masked_lm_positions"]}))
    np.testing.assert_allclose(ours["mlm_logits"], logits, atol=1e-3)
    assert list(model.preprocessor.tokenizer("A b c")) == [
        weights.vocabulary.split().index(piece) for piece in (b"A", b"b", b"c")
    ]


def test_the_writer_lists_the_properties_that_a_preset_cannot_store(presets):
    reports = {name: "\n".join(lines) for name, (_, _, lines) in presets.items()}
    assert all("next_sentence is left out" in lines for lines in reports.values())
    assert "WARNING: hidden_act gelu_exact cannot be stored" in reports["three_layers"]
    assert "BEWARE" not in reports["one_layer"]
    assert "always computes hidden_act gelu_exact and layer_norm_eps 1e-05" in reports["one_layer"]


def test_the_reader_reports_that_keras_hub_has_other_constants_in_the_masked_lm_head(presets):
    assert any("masked-LM head" in name for name in keras_hub_layout.read(presets["one_layer"][1]).unused)


def test_a_classifier_comes_back_bit_for_bit(tmp_path):
    weights = without(make_weights(CONFIGS["one_layer"]), "masked_lm", "next_sentence")
    classifier = {"classifier/kernel": np.ones([22, 3], np.float32), "classifier/bias": np.arange(3, dtype=np.float32)}
    weights = dataclasses.replace(
        weights, tensors=weights.tensors | classifier, task="sequence_classification", labels=("red", "green", "blue")
    )
    lines = keras_hub_layout.write(weights, tmp_path / "preset")
    assert "red, green, blue" in lines[0]
    assert_same(keras_hub_layout.read(tmp_path / "preset"), dataclasses.replace(weights, labels=()))


def test_an_encoder_without_pooler_and_vocabulary_comes_back_without_them(tmp_path):
    config = CONFIGS["one_layer"].replace(layer_norm_eps=1e-6, attention_probs_dropout_prob=0.2, initializer_range=0.01)
    weights = without(make_weights(config), "pooler", "masked_lm", "next_sentence")
    report = "\n".join(keras_hub_layout.write(dataclasses.replace(weights, vocabulary=None), tmp_path / "preset"))
    for text in (
        "WARNING: layer_norm_eps 1e-06",
        "attention_probs_dropout_prob 0.2",
        "initializer_range 0.01",
        "no pooler",
        "no vocabulary",
    ):
        assert text in report
    loaded = keras_hub_layout.read(tmp_path / "preset")
    assert_same(loaded, dataclasses.replace(weights, vocabulary=None, config=CONFIGS["one_layer"]))
    assert "pooled_dense" in loaded.unused


def test_shards_in_bfloat16_and_a_tokenizer_that_keras_hub_saved_are_read(tmp_path):
    import keras_hub as library

    backbone = library.models.BertBackbone(13, 2, 2, 22, 37, max_sequence_length=17, dtype="bfloat16")
    backbone.save_to_preset(str(tmp_path), max_shard_size=1e-5)
    library.models.BertTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"], lowercase=True).save_to_preset(
        str(tmp_path)
    )
    assert len(list(tmp_path.glob("model_*.weights.h5"))) > 1
    loaded = keras_hub_layout.read(tmp_path)
    assert checked(loaded, ["masked_lm", "next_sentence"])
    np.testing.assert_array_equal(
        loaded.tensors["encoder/embeddings/word_embeddings"],
        np.asarray(backbone.token_embedding.embeddings, np.float32),
    )
    assert "tokenizer.json strip_accents=False" in loaded.unused  # Our tokenizer strips accents if it lower-cases.


def test_other_layouts_and_invalid_json_are_not_recognized(preset, tmp_path):
    assert keras_hub_layout.recognizes(preset)
    for content in ('{"model_type": "bert"}', '["registered_name"]', "[" * 100_000, "{"):
        (tmp_path / "config.json").write_text(content)
        assert not keras_hub_layout.recognizes(tmp_path)
    assert not keras_hub_layout.recognizes(tmp_path / "preset" / "assets")


def test_a_model_that_the_backbone_cannot_compute_is_not_written(tmp_path):
    with pytest.raises(UserError, match="hidden_act 'relu' is not BertBackbone's"):
        keras_hub_layout.write(make_weights(CONFIGS["one_layer"].replace(hidden_act="relu")), tmp_path / "preset")
    assert not list(tmp_path.iterdir())


def _set_dataset(preset, **arguments):
    """Replaces the pooler's kernel by another dataset."""
    with h5py.File(preset / "model.weights.h5", "r+") as file:
        del file[KERNEL]
        file.create_dataset(KERNEL, **arguments)


def _set_link(preset, link):
    with h5py.File(preset / "model.weights.h5", "r+") as file:
        del file[KERNEL]
        file[KERNEL] = link


def _virtual(preset):
    layout = h5py.VirtualLayout(shape=(22, 22), dtype="<f4")
    layout[:] = h5py.VirtualSource(
        str(preset / "task.weights.h5"), "layers/masked_lm_head/_intermediate_dense/vars/0", shape=(22, 22)
    )
    with h5py.File(preset / "model.weights.h5", "r+") as file:
        del file[KERNEL]
        file.create_virtual_dataset(KERNEL, layout)


def _truncated(preset):
    data = (preset / "model.weights.h5").read_bytes()
    (preset / "model.weights.h5").write_bytes(data[: len(data) // 2])


def _many_names_for_one_array(preset):
    with h5py.File(preset / "model.weights.h5", "r+") as file:
        for number in range(200):
            file[f"layers/dense/vars/{number + 2}"] = file[KERNEL]


def _a_group_in_itself(preset):
    with h5py.File(preset / "model.weights.h5", "r+") as file:
        file["layers/dense/again"] = file["layers"]


def _backbone_of_task(values, class_name):
    backbone = values["config"]["backbone"] | {"class_name": class_name, "registered_name": class_name}
    return {**values["config"], "backbone": backbone}


def _sharded(preset, name):
    (preset / "model.weights.h5").rename(preset / "other.weights.h5")
    (preset / "model.weights.json").write_text(json.dumps({"weight_map": {"/layers/dense/vars": [name]}}))


LAMBDA = {
    "module": "keras.layers",
    "class_name": "Lambda",
    "registered_name": None,
    "config": {"function": {"class_name": "__lambda__", "config": {"code": "4wEAAAA=", "defaults": None}}},
}
HOSTILE = {
    "another backbone": (
        lambda preset: edit_json(preset / "config.json", registered_name=lambda _: "keras_hub>GPT2Backbone"),
        "keras_hub>GPT2Backbone",
    ),
    "a backbone class of another package": (
        lambda preset: edit_json(preset / "config.json", registered_name=lambda _: "evil>BertBackbone"),
        "evil>BertBackbone",
    ),
    "a Lambda": (lambda preset: (preset / "config.json").write_text(json.dumps(LAMBDA)), "class 'None'"),
    "a Lambda as the task's backbone": (
        lambda preset: edit_json(preset / "task.json", config=lambda values: _backbone_of_task(values, "Lambda")),
        "class 'Lambda'",
    ),
    "a task that is not BERT's": (
        lambda preset: edit_json(preset / "task.json", registered_name=lambda _: "keras_hub>GPT2CausalLM"),
        "GPT2CausalLM",
    ),
    "a task of another size": (
        lambda preset: edit_json(
            preset / "config.json", config=lambda values: values["config"] | {"vocabulary_size": 14}
        ),
        "of two presets",
    ),
    "another tokenizer": (
        lambda preset: edit_json(preset / "tokenizer.json", registered_name=lambda _: "keras_hub>BytePairTokenizer"),
        "BytePairTokenizer",
    ),
    "an unknown setting": (
        lambda preset: edit_json(preset / "config.json", config=lambda values: values["config"] | {"use_rotary": True}),
        "'use_rotary'",
    ),
    "a setting of another type": (
        lambda preset: edit_json(
            preset / "config.json", config=lambda values: values["config"] | {"num_heads": [2] * 10_000}
        ),
        "num_attention_heads",
    ),
    "a billion layers": (
        lambda preset: edit_json(
            preset / "config.json", config=lambda values: values["config"] | {"num_layers": 10**9}
        ),
        "1000000000; expected 0 to 1,000",
    ),
    "other heads": (
        lambda preset: [
            (preset / "task.json").unlink(),
            edit_json(preset / "config.json", config=lambda values: values["config"] | {"num_heads": 11}),
        ],
        r"expected \[22, 11, 2\], found \[22, 2, 11\]",
    ),
    "JSON nested too deeply": (lambda preset: (preset / "task.json").write_text('{"a":' * 100_000), "not JSON"),
    "a vocabulary that is too long": (
        lambda preset: (preset / "assets/tokenizer/vocabulary.txt").write_bytes(b"a\n" * 14),
        "has 14 pieces",
    ),
    "an external link": (lambda preset: _set_link(preset, h5py.ExternalLink("/etc/passwd", "/x")), "is a link"),
    "a soft link": (lambda preset: _set_link(preset, h5py.SoftLink("/layers/dense/vars/1")), "is a link"),
    "data in another file": (
        lambda preset: _set_dataset(preset, shape=(22, 22), dtype="<f4", external=[("/etc/passwd", 0, 1936)]),
        "or in another file",
    ),
    "a virtual array": (_virtual, "is stored in pieces"),
    "a huge compressed array": (
        lambda preset: _set_dataset(
            preset, shape=(1 << 15, 1 << 15), dtype="<f4", chunks=(1 << 10, 1 << 10), compression="gzip"
        ),
        "compressed",
    ),
    "a huge array without data": (lambda preset: _set_dataset(preset, shape=(1 << 20, 1 << 20), dtype="<f4"), "not 0"),
    "the same bytes two hundred times": (_many_names_for_one_array, "the file has"),
    "a group in itself": (_a_group_in_itself, "nested over 30 deep"),
    "objects instead of numbers": (
        lambda preset: _set_dataset(preset, data=["a", "b"], dtype=h5py.string_dtype()),
        "takes 16 bytes",
    ),
    "quantized weights": (lambda preset: _set_dataset(preset, data=np.ones([22, 22], np.int8)), "of type int8"),
    "bytes of no type": (lambda preset: _set_dataset(preset, data=np.zeros([22, 22], "V4")), r"of type \|V4"),
    "half a file": (_truncated, "truncated"),
    "a file that is not HDF5": (
        lambda preset: (preset / "model.weights.h5").write_bytes(b"PK\3\4" * 100),
        "signature not found",
    ),
    "no weights": (lambda preset: (preset / "model.weights.h5").unlink(), "has no model.weights.h5"),
    "a shard elsewhere": (lambda preset: _sharded(preset, "../other.weights.h5"), "'../other.weights.h5'"),
    "a shard that is not there": (lambda preset: _sharded(preset, "model_00000.weights.h5"), "is missing"),
    "no shards": (lambda preset: _sharded(preset, None), "'None'"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_preset_is_refused_in_one_line_and_keras_deserializes_nothing(preset, case, monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("Keras was asked to deserialize")

    monkeypatch.setattr(keras.saving, "deserialize_keras_object", refuse)
    monkeypatch.setattr(keras.saving, "load_model", refuse)
    damage, expected = HOSTILE[case]
    damage(preset)
    tracemalloc.start()
    try:
        with pytest.raises(UserError, match=expected) as error:
            keras_hub_layout.read(preset)
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()
    assert "\n" not in str(error.value) and len(str(error.value)) < 500


def test_a_tensor_that_bert_does_not_have_is_unexpected_and_training_state_is_left_out(preset):
    with h5py.File(preset / "model.weights.h5", "r+") as file:
        file["layers/adapter/vars/0"] = np.zeros([3, 5], np.float32)
        file["layers/dropout/seed_generator/vars/0"] = np.zeros([2], np.uint32)
        file["optimizer/vars/0"] = np.zeros([], np.int64)
    loaded = keras_hub_layout.read(preset)
    assert loaded.unexpected == {"layers/adapter/vars/0": (3, 5)}
    assert {"optimizer", "layers/dropout/seed_generator/vars/0"} <= loaded.unused.keys()


def test_names_of_attributes_that_older_versions_of_keras_kept_private_are_read(preset):
    with h5py.File(preset / "model.weights.h5", "r+") as file:
        attention = file["layers/transformer_encoder/_self_attention_layer"]
        for name in ("query", "key", "value", "output"):
            attention.move(f"{name}_dense", f"_{name}_dense")
    assert not keras_hub_layout.read(preset).missing(["encoder"])


def test_numbers_of_other_types_become_float32(tmp_path):
    values = np.array([0.1, -2.5], np.float64)
    with h5py.File(tmp_path / "any.h5", "w") as file:
        for dtype in ("<f2", "<f4", "<f8", ">f4"):
            file[dtype[:2] + dtype[2:]] = values.astype(dtype)
        file["scalar"] = np.float32(3.0)
    tensors, others = hdf5_files.read_tensors(tmp_path / "any.h5", lambda name: name != "scalar")
    assert others == {"scalar": ()}
    for name, array in tensors.items():
        assert array.dtype == np.float32 and array.dtype.isnative
        np.testing.assert_array_equal(array, values.astype(name).astype(np.float32))
