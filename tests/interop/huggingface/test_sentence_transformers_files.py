"""Tests the files of sentence-transformers that define how a text becomes a vector."""

import json

import pytest

from keras_bert_app.config.prompts import Prompts
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
        ({"pooling_mode": ["cls", "mean"], "include_prompt": False}, "cls_mean"),
    ],
)
def test_each_supported_pooling_mode_gets_its_name(tmp_path, pooling, ours):
    write(tmp_path, pooling=pooling)
    assert sentence_transformers_files.read(str(tmp_path)).pooling == ours


def test_prompts_and_the_similarity_function_are_read_and_the_folder_of_the_model(tmp_path):
    usage = {"prompts": {"query": "q: ", "passage": None}, "default_prompt_name": "query", "similarity_fn_name": "dot"}
    write(tmp_path, folder="0_BERT", config_sentence_transformers=usage)
    (tmp_path / "0_BERT").mkdir()
    (tmp_path / "0_BERT" / "sentence_bert_config.json").write_text('{"max_seq_length": 11}')
    settings = sentence_transformers_files.read(str(tmp_path))
    assert (settings.folder, settings.max_seq_length) == ("0_BERT", 11)
    assert settings.prompts == Prompts({"query": "q: ", "passage": ""}, "query") and settings.similarity == "dot"
    assert settings.files[-1] == "config_sentence_transformers.json"
    assert settings.remarks == ()  # of vectors of length 1, the inner product is the cosine
    usage = {"similarity_fn_name": "euclidean", "truncate_dim": 64}
    write(tmp_path, config_sentence_transformers=usage)
    assert sentence_transformers_files.read(str(tmp_path)).remarks == (
        "its similarity function is euclidean, but search and encode compare by cosines",
        "only the first 64 numbers, as its truncate_dim says, scaled to length 1",
    )


def test_the_length_of_a_folder_of_version_6_is_that_of_its_tokenizer(tmp_path):
    write(tmp_path, sentence_bert_config={"transformer_task": "feature-extraction"}, tokenizer_config={})
    for length, expected in ((9, 9), (10**30, 0), (1e30, 0)):
        (tmp_path / "tokenizer_config.json").write_text(json.dumps({"model_max_length": length}))
        settings = sentence_transformers_files.read(str(tmp_path))
        assert settings.max_seq_length == expected
        assert ("tokenizer_config.json" in settings.files) == bool(expected)
    write(tmp_path, sentence_bert_config={"max_seq_length": 7, "do_lower_case": True})
    settings = sentence_transformers_files.read(str(tmp_path))
    assert (settings.max_seq_length, settings.lowers_case) == (7, True)
    sentence_transformers_files.check_case(settings, True, "a model")
    with pytest.raises(
        UserError, match="a model: sentence_bert_config.json says do_lower_case, but the tokenizer keeps"
    ):
        sentence_transformers_files.check_case(settings, False, "a model")


def test_what_is_written_is_read_again(tmp_path):
    prompts = Prompts({"query": "q: ", "document": "d: "}, "document")
    files = ("modules.json", "1_Pooling/config.json", "sentence_bert_config.json", "config_sentence_transformers.json")
    for number, pooling in enumerate(("cls", "mean", "max", "cls_mean")):
        steps = SentenceTransformer(pooling, number % 2 == 0, 30, "", files, (), prompts, "cosine", number == 0)
        sentence_transformers_files.write(str(tmp_path / pooling), steps, 33, 64)
        assert sentence_transformers_files.read(str(tmp_path / pooling)) == steps
    without = SentenceTransformer("mean", True, 0, "", ())
    sentence_transformers_files.write(str(tmp_path / "x"), without, 33, 64)
    assert sentence_transformers_files.read(str(tmp_path / "x")).max_seq_length == 64
    long = SentenceTransformer("mean", True, 128, "", ())
    sentence_transformers_files.write(str(tmp_path / "y"), long, 33, 64)
    assert sentence_transformers_files.read(str(tmp_path / "y")).max_seq_length == 64


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
        ({"tokenizer_config": {"model_max_length": -1}}, "model_max_length is '-1'; expected a number"),
        (
            {
                "pooling": {"pooling_mode": "mean", "include_prompt": False},
                "config_sentence_transformers": {"prompts": {"query": "q: "}},
            },
            "pools a text without its prompt (include_prompt: false), which is not computed here",
        ),
        ({"config_sentence_transformers": {"prompts": 5}}, "prompts is '5'; expected an object of names and texts"),
        ({"config_sentence_transformers": {"default_prompt_name": "x"}}, "default_prompt_name is 'x'; expected null"),
        ({"config_sentence_transformers": {"similarity_fn_name": "l2"}}, "similarity_fn_name is 'l2'; expected cosine"),
        ({"pooling": {"pooling_mode": ["mean", "cls"]}}, "pools by mean_tokens and cls_token; expected"),
        ({"modules": {"0": "Transformer"}}, "is not a list of modules with type and path"),
        ({"modules": [{"type": "Transformer"}]}, "is not a list of modules with type and path"),
    ],
)
def test_unsupported_steps_are_refused_in_one_line(tmp_path, changes, message):
    write(tmp_path, **changes)
    with pytest.raises(UserError) as refusal:
        sentence_transformers_files.read(str(tmp_path))
    assert message in str(refusal.value) and "\n" not in str(refusal.value)
