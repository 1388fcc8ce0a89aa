"""Tests the files of sentence-transformers that define how a text becomes a vector."""

import json

import pytest

from keras_bert_app.errors import UserError
from keras_bert_app.interop.huggingface import sentence_transformers_files
from keras_bert_app.interop.huggingface.sentence_transformers_files import SentenceTransformer

MEAN = {"word_embedding_dimension": 33, "pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True}


def write(directory, kinds=("Transformer", "Pooling", "Normalize"), pooling=MEAN, folder="", **files):
    """Writes modules.json, 1_Pooling/config.json and further files in the layout of sentence-transformers."""
    folders = {"Transformer": folder, "Pooling": "1_Pooling"}
    modules = [
        {"idx": index, "name": str(index), "path": folders.get(kind, f"{index}_{kind}"), "type": f"a.models.{kind}"}
        for index, kind in enumerate(kinds)
    ]
    contents = {"modules.json": modules, "1_Pooling/config.json": pooling}
    contents |= {f"{name}.json": content for name, content in files.items()}
    for name, content in contents.items():
        (directory / name).parent.mkdir(exist_ok=True)
        (directory / name).write_text(json.dumps(content))


def test_a_folder_without_modules_json_gives_none(tmp_path):
    assert sentence_transformers_files.read(str(tmp_path)) is None
    assert sentence_transformers_files.read(str(tmp_path / "none")) is None


def test_pooling_normalization_and_length_are_read(tmp_path):
    write(tmp_path, sentence_bert_config={"max_seq_length": 19, "do_lower_case": False})
    files = ("modules.json", "1_Pooling/config.json", "sentence_bert_config.json")
    assert sentence_transformers_files.read(str(tmp_path)) == SentenceTransformer("mean", True, 19, "", files)
    write(tmp_path, kinds=("Transformer", "Pooling"), sentence_bert_config={"max_seq_length": None})
    assert sentence_transformers_files.read(str(tmp_path)) == SentenceTransformer("mean", False, 0, "", files[:2])


@pytest.mark.parametrize(
    "pooling, ours",
    [
        ({"pooling_mode_cls_token": True}, "cls"),
        ({"pooling_mode_max_tokens": True, "pooling_mode_mean_tokens": False}, "max"),
        ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": True}, "cls_mean"),
        ({"pooling_mode": "mean", "include_prompt": True}, "mean"),
    ],
)
def test_each_supported_pooling_mode_gets_its_name(tmp_path, pooling, ours):
    write(tmp_path, pooling=pooling)
    assert sentence_transformers_files.read(str(tmp_path)).pooling == ours


def test_a_default_prompt_is_reported_and_the_folder_of_the_model_is_read(tmp_path):
    write(tmp_path, folder="0_BERT", config_sentence_transformers={"default_prompt_name": "query"})
    (tmp_path / "0_BERT").mkdir()
    (tmp_path / "0_BERT" / "sentence_bert_config.json").write_text('{"max_seq_length": 11}')
    settings = sentence_transformers_files.read(str(tmp_path))
    assert (settings.folder, settings.max_seq_length) == ("0_BERT", 11)
    assert settings.remarks == ("its default prompt 'query' is not put before texts",)


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"kinds": ("Transformer", "Pooling", "Dense", "Normalize")}, "has the steps Transformer, Pooling, Dense"),
        ({"kinds": ("BoW",)}, "expected Transformer, Pooling and perhaps Normalize"),
        ({"pooling": {"pooling_mode_weightedmean_tokens": True}}, "pools by weightedmean_tokens; expected"),
        (
            {"pooling": {"pooling_mode_mean_tokens": True, "pooling_mode_max_tokens": True}},
            "max_tokens and mean_tokens",
        ),
        ({"pooling": {}}, "pools by nothing"),
        ({"folder": "../elsewhere"}, "names the folder '../elsewhere'"),
        ({"sentence_bert_config": {"max_seq_length": "many"}}, "max_seq_length is 'many'; expected a number"),
        ({"modules": {"0": "Transformer"}}, "is not a list of modules with type and path"),
        ({"modules": [{"type": "Transformer"}]}, "is not a list of modules with type and path"),
    ],
)
def test_unsupported_steps_are_refused_in_one_line(tmp_path, changes, message):
    write(tmp_path, **changes)
    with pytest.raises(UserError) as refusal:
        sentence_transformers_files.read(str(tmp_path))
    assert message in str(refusal.value) and "\n" not in str(refusal.value)
