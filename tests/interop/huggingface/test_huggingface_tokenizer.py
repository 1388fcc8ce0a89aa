"""Tests that the vocabulary and the casing of a transformers directory are read, written, and checked."""

import json
import string

import numpy as np
import pytest

from keras_bert_app.interop.huggingface import huggingface_layout
from pipelines.wordpiece.tokenizer import BertTokenizer
from pipelines.wordpiece.vocabulary import SPECIAL_PIECES
from tests.interop.huggingface.huggingface_directories import FILES, assert_refused, change_config, copy


@pytest.mark.parametrize("model, do_lower_case", [("pretraining", True), ("masked_lm", False)])
def test_the_vocabulary_of_tokenizer_json_cuts_text_as_transformers_does(model, do_lower_case, tmp_path):
    weights = huggingface_layout.read(FILES / model)
    assert weights.config.do_lower_case is do_lower_case
    (tmp_path / "vocab.txt").write_bytes(weights.vocabulary)
    tokenizer = BertTokenizer(tmp_path / "vocab.txt", do_lower_case, special_tokens_in_text=True)
    arrays = np.load(FILES / "outputs.npz")
    ids = tokenizer.tokenize(list(arrays["tokenizer/texts"])).to_list()
    assert ids == json.loads(str(arrays[f"tokenizer/{model}/ids"]))


@pytest.mark.parametrize("model", ["pretraining", "masked_lm"])
def test_the_tokenizer_json_that_is_written_cuts_text_as_ours_does(model, tmp_path):
    import tokenizers

    weights = huggingface_layout.read(FILES / model)
    huggingface_layout.write(weights, tmp_path / "model")
    theirs = tokenizers.Tokenizer.from_file(str(tmp_path / "model" / "tokenizer.json"))
    ours = BertTokenizer.from_directory(tmp_path / "model", special_tokens_in_text=True)
    texts = [*map(str, np.load(FILES / "outputs.npz")["tokenizer/texts"]), "s" * 200 + " " + "s" * 201, "e[MASK]e"]
    ids = ours.tokenize(texts).to_list()
    assert [theirs.encode(text, add_special_tokens=False).ids for text in texts] == ids
    assert ids[-2].count(ours.unk_id) == 1 and len(ids[-2]) == 201
    whole = theirs.encode("the", "new")
    assert whole.tokens[0] == "[CLS]" and whole.tokens.count("[SEP]") == 2
    assert sorted(set(whole.type_ids)) == [0, 1]


# A vocabulary without capitals and without the whole alphabet fits both values of do_lower_case.
OF_EITHER_CASING = (*SPECIAL_PIECES, "a", "b", "the", "##s")
CASED = (*SPECIAL_PIECES, "The", "New", "a")


@pytest.mark.parametrize(
    "in_settings, in_tokenizer, in_config, pieces, expected",
    [
        (False, True, True, OF_EITHER_CASING, False),
        (None, False, True, OF_EITHER_CASING, False),
        (None, None, False, OF_EITHER_CASING, False),
        (None, None, None, OF_EITHER_CASING, True),
        (None, None, None, CASED, False),
    ],
)
def test_do_lower_case_comes_from_the_first_file_that_states_it_or_else_from_the_vocabulary(
    in_settings, in_tokenizer, in_config, pieces, expected, tmp_path
):
    directory = copy("pretraining", tmp_path)
    (directory / "vocab.txt").write_text("".join(f"{piece}\n" for piece in pieces))
    (directory / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": in_settings}))
    (directory / "tokenizer.json").write_text(
        json.dumps({"normalizer": {"type": "BertNormalizer", "lowercase": in_tokenizer}})
    )
    change_config(directory, do_lower_case=in_config)
    assert huggingface_layout.read(directory).config.do_lower_case is expected


def test_text_is_lower_cased_for_a_vocabulary_without_capitals_and_the_ignored_setting_is_reported(tmp_path):
    directory = copy("pretraining", tmp_path)
    (directory / "tokenizer.json").unlink()
    (directory / "vocab.txt").write_text("".join(f"{piece}\n" for piece in (*SPECIAL_PIECES, *string.ascii_lowercase)))
    (directory / "tokenizer_config.json").write_text('{"do_lower_case": false}')  # bert-base-chinese also has false.
    weights = huggingface_layout.read(directory)
    assert weights.config.do_lower_case is True
    assert (
        weights.unused["tokenizer_config.json do_lower_case=False"]
        == "the vocabulary has no capital, and text is lower-cased for it"
    )


def test_a_casing_that_contradicts_the_vocabulary_is_refused(tmp_path):
    directory = copy("pretraining", tmp_path)
    (directory / "tokenizer.json").unlink()
    (directory / "vocab.txt").write_text("".join(f"{piece}\n" for piece in CASED))
    assert_refused(
        directory,
        "is cased (2 of its 8 entries have capitals, such as 'The'), but do_lower_case is true",
        "in tokenizer_config.json",
    )
    (directory / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": "yes"}))
    assert_refused(directory, "tokenizer_config.json: do_lower_case (lowercase) is 'yes'; expected true or false")


def test_settings_that_would_cut_text_differently_are_reported(tmp_path):
    directory = copy("pretraining", tmp_path)
    tokenizer = json.loads((directory / "tokenizer.json").read_text())
    tokenizer["added_tokens"].append({"id": 40, "content": "[NEW]"})
    (directory / "tokenizer.json").write_text(json.dumps(tokenizer))
    settings = json.loads((directory / "tokenizer_config.json").read_text())
    (directory / "tokenizer_config.json").write_text(
        json.dumps(settings | {"strip_accents": False, "tokenizer_class": "BertJapaneseTokenizer"})
    )
    unused = huggingface_layout.read(directory).unused
    assert unused.pop("tokenizer.json 1 added_tokens such as '[NEW]'") == "they are not in the vocabulary"
    assert set(unused) == {
        "tokenizer_config.json strip_accents='False'",
        "tokenizer_config.json tokenizer_class='BertJapaneseTokenizer'",
    }


def test_pieces_of_white_space_that_transformers_makes_empty_keep_their_ids(tmp_path):
    directory = copy("pretraining", tmp_path)
    pieces = list(json.loads((directory / "tokenizer.json").read_text())["model"]["vocab"])
    pieces[7], pieces[9] = "\u2028", "##\u2028"  # Google's Chinese vocabulary has such a piece.
    model_changer(lambda model: model.update(vocab={piece.strip(): i for i, piece in enumerate(pieces)}))(directory)
    weights = huggingface_layout.read(directory)
    read_pieces = weights.vocabulary.decode().split("\n")[:-1]
    assert (read_pieces[7], read_pieces[9]) == ("[unused7]", "##") and read_pieces[10:] == pieces[10:]
    assert weights.unused == {"tokenizer.json piece 7, which is empty": "no text can give it"}
    vocabulary = "".join(f"{piece}\n" for piece in pieces).encode()
    (directory / "vocab.txt").write_bytes(vocabulary)
    weights = huggingface_layout.read(directory)
    assert weights.vocabulary == vocabulary and not weights.unused


def model_changer(change):
    """Makes a function that changes the model in tokenizer.json of a directory."""

    def apply(directory):
        path = directory / "tokenizer.json"
        values = json.loads(path.read_text())
        change(values["model"])
        path.write_text(json.dumps(values))

    return apply


@pytest.mark.parametrize(
    "damage, message",
    [
        (model_changer(lambda model: model["vocab"].pop("##n")), "are not 0 to 38, each once"),
        (model_changer(lambda model: model["vocab"].update({"##n": 0})), "are not 0 to 39, each once"),
        (model_changer(lambda model: model["vocab"].update({"##n": "0"})), "are not 0 to 39, each once"),
        (
            model_changer(lambda model: model["vocab"].update({"two\nlines": model["vocab"].pop("##n")})),
            "no vocab.txt can hold",
        ),
        (
            model_changer(lambda model: model["vocab"].update({"\ud800": model["vocab"].pop("##n")})),
            "no vocab.txt can hold",
        ),
        (
            model_changer(lambda model: model["vocab"].update({f"more{i}": i for i in range(40, 44)})),
            "has 44 pieces, but config.json has vocab_size 43",
        ),
        (model_changer(lambda model: model.update(type="BPE")), "its model is a 'BPE'; only WordPiece"),
        (lambda directory: (directory / "vocab.txt").write_text("[PAD]\n[UNK]\nother\n"), "differ from line 3 on"),
        (lambda directory: (directory / "tokenizer.json").write_text("[" * 100_000), "is not JSON"),
        (lambda directory: (directory / "tokenizer.json").write_text("[]"), "holds a JSON list"),
    ],
    ids=[
        "gap",
        "id twice",
        "id is text",
        "line break",
        "half a character",
        "too many",
        "BPE",
        "two vocabularies",
        "nested",
        "list",
    ],
)
def test_a_vocabulary_that_contradicts_itself_or_the_model_is_refused(damage, message, tmp_path):
    directory = copy("pretraining", tmp_path)
    damage(directory)
    assert_refused(directory, message)
