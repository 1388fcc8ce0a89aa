"""A faulty export from an unknown source is refused in one line, when it is loaded or when it embeds texts."""

import json
import pathlib
import shutil

import pytest
import tensorflow as tf

from keras_bert_app.errors import UserError
from keras_bert_app.export import sentence_vectors
from keras_bert_app.interop import own_layout
from keras_bert_app.serving import saved_model_files
from keras_bert_app.vectors import embedding
from tests.export.small_model import ONE_LAYER


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A valid export of vectors with a LiteRT model."""
    directory = tmp_path_factory.mktemp("vectors")
    own_layout.write(ONE_LAYER, str(directory / "model"))
    return sentence_vectors.export_embeddings(
        str(directory / "model"), str(directory / "vectors"), sentence_vectors.Pooling(layer=-1), has_litert=True
    )


@pytest.fixture
def export(exported, tmp_path):
    """A copy of the export that a test may change."""
    return pathlib.Path(shutil.copytree(exported, tmp_path / "1"))


def refusal(export):
    """Writes a new manifest for a changed export, loads it and embeds texts. Returns the message of the error."""
    (export / "manifest.json").unlink()
    saved_model_files.write_manifest(str(export))
    with pytest.raises(ValueError) as refused:  # UserError or DataError
        embed = embedding.load_embedder(str(export))
        embedding.embed_texts(embed, [b"a", b"ab c"])
    line = str(refused.value)
    assert "\n" not in line and len(line) < 500 and type(refused.value) is not ValueError
    return line


@pytest.mark.parametrize(
    "content, message",
    [
        ("5", "holds a JSON int"),
        ("[", "is not JSON that can be read"),
        ("[" * 100_000, "is not JSON that can be read (RecursionError"),
        ('{"max_seq_length": ' + "9" * 5000 + "}", "is not JSON that can be read (ValueError"),
        ("{}", "max_seq_length is None in export.json"),
        ('{"max_seq_length": "x"}', "max_seq_length is 'x' in export.json"),
        ('{"max_seq_length": -5}', "max_seq_length is -5 in export.json"),
        ('{"max_seq_length": 1e99}', "max_seq_length is 1e+99 in export.json"),
    ],
)
def test_an_export_json_with_wrong_content_is_refused(export, content, message):
    (export / "export.json").write_text(content)
    assert message in refusal(export)


def test_a_config_json_with_a_wrong_casing_is_refused(export):
    values = json.loads((export / "config.json").read_text())
    (export / "config.json").write_text(json.dumps({**values, "do_lower_case": 5}))
    assert "do_lower_case is 5 in config.json" in refusal(export)


@pytest.mark.parametrize("content", [b"", b"garbage" * 20, None])
def test_a_file_that_is_no_litert_model_is_refused(export, content):
    path = export / "model.tflite"
    path.write_bytes(path.read_bytes()[:1000] if content is None else content)
    assert "model.tflite: cannot be loaded as a LiteRT model" in refusal(export)


def litert_of(function):
    module = tf.Module()
    module.function = function
    return tf.lite.TFLiteConverter.from_concrete_functions([function.get_concrete_function()], module).convert()


def test_a_litert_model_with_other_inputs_or_outputs_is_refused(export):
    names = ("input_word_ids", "input_mask", "input_type_ids")
    for inputs, output, message in (
        (("x",), "embedding", "fails as a LiteRT model"),
        (names, "y", "does not give a float32 vector"),
    ):
        specs = [tf.TensorSpec([None, None], tf.int32, name=name) for name in inputs]
        function = tf.function(lambda *ids, name=output: {name: tf.cast(ids[0], tf.float32)}, input_signature=specs)
        (export / "model.tflite").write_bytes(litert_of(function))
        assert message in refusal(export)


def test_a_vocabulary_of_another_model_is_refused(export):
    pieces = (export / "vocab.txt").read_text()
    (export / "vocab.txt").write_text(
        pieces.replace("\na\n", "\nzz\n") + "".join(f"q{i}\n" for i in range(100)) + "a\n"
    )
    assert "fails as a LiteRT model" in refusal(export)
    (export / "vocab.txt").write_text("no vocabulary")
    assert "vocab.txt" in refusal(export)


def test_a_saved_model_with_other_signatures_is_refused(export):
    class Other(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="text")])
        def embed(self, text):
            with tf.control_dependencies([tf.debugging.assert_less(tf.size(text), 2, message="too many texts")]):
                return {"embedding": tf.zeros([1, 3]), "num_tokens": tf.ones_like(tf.strings.length(text))}

    for path in (export / "model.tflite", export / "saved_model.pb"):
        path.unlink()
    shutil.rmtree(export / "variables")
    module = Other()
    tf.saved_model.save(module, str(export), signatures={"other": module.embed})
    assert "gives no sentence vectors (its outputs: none)" in refusal(export)
    tf.saved_model.save(module, str(export), signatures={"serving_default": module.embed, "num_tokens": module.embed})
    assert "the export cannot embed these texts" in refusal(export) or "too many texts" in refusal(export)
    (export / "saved_model.pb").write_bytes(b"garbage")
    assert "TensorFlow cannot load it" in refusal(export)


def test_a_valid_export_embeds_texts_and_refuses_what_is_no_list_of_texts(exported):
    vectors, truncated = embedding.embed_texts(embedding.load_embedder(exported), [b"a", b"ab c"])
    assert vectors.shape == (2, 33) and not truncated.any()
    with pytest.raises(UserError, match="cannot embed these texts"):
        embedding.load_embedder(exported).num_tokens([["a scalar is expected"]])
