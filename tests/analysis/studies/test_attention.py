"""Tests the table, the page and the pictures of attention maps."""

import base64
import dataclasses
import json
import re
import struct

import numpy as np
import pytest

from keras_bert_app.analysis.options import Options
from keras_bert_app.analysis.studies import attention_maps
from keras_bert_app.drawing.attention_page import attention_page
from keras_bert_app.drawing.pages import page
from keras_bert_app.errors import UserError
from keras_bert_app.modeling.encoder import BertEncoder
from tests.analysis.tiny_subject import tiny_subject

SUBJECT = tiny_subject()


def data_of(html):
    return json.loads(re.search(r'id="data">(.*?)</script>', html, re.DOTALL)[1])


def test_a_pair_gives_a_page_of_pieces_and_of_words_and_pictures():
    findings = attention_maps.run(SUBJECT, Options(text="The unflapp cat.", text_pair="It sat", num_seeds=1), print)
    levels = data_of(findings.files["attention.html"])["levels"]
    assert levels["words"]["tokens"] == ["[CLS]", "The", "unflapp", "cat", ".", "[SEP]", "It", "sat", "[SEP]"]
    assert levels["words"]["special"] == [0, 5, 8] and levels["pieces"]["special"] == [0, 7, 10]
    weights = np.frombuffer(base64.b64decode(levels["words"]["weights"]), "<u2").reshape(3, 2, 9, 9) / 65535
    np.testing.assert_allclose(weights.sum(axis=-1), 1, atol=1e-3)
    (table,) = findings.tables
    assert len(table.rows) == 3
    np.testing.assert_allclose(table.rows[1][3], weights[1][..., [0, 5, 8]].sum(axis=-1).mean(), atol=1e-3)
    for name in ("attention_words.png", "attention_pieces.png"):
        assert findings.files[name].startswith(b"\x89PNG") and struct.unpack(">I", findings.files[name][16:20])[0] > 500


def test_a_page_escapes_its_texts_and_loads_nothing():
    text = '</script><img src=x onerror=alert(1)> $title & "q" <!--'
    html = attention_page({level: (np.ones((1, 1, 1, 1)), [text], []) for level in ("pieces", "words")}, (0, 0), text)
    assert html.count("</script>") == 2 and "<img" not in html and "<!--" not in html
    assert data_of(html)["levels"]["words"]["tokens"] == [text]
    assert "default-src 'none'" in html
    assert not re.findall(
        r"(?:src|href)=|url\(|https?://(?!www\.w3\.org/2000/svg)|fetch\(|import ", html.replace("src=x", "")
    )
    assert page("senses", "x", {}) != page("attention", "x", {})


def test_the_strongest_weight_is_between_words_that_are_not_neighbours():
    weights = np.zeros((1, 2, 5, 5))
    weights[0, 0, 1, 2], weights[0, 0, 1, 4], weights[0, 1, 3, 1], weights[0, 0, 2, 2] = 0.9, 0.8, 0.3, 0.7
    is_special = np.array([True, False, False, False, True])
    assert attention_maps._strongest(weights, is_special) == (0, 1, 3, 1)
    assert attention_maps._strongest(weights[..., :3, :3], is_special[[0, 1, 4]]) is None


def test_entropy_is_in_nats():
    np.testing.assert_allclose(
        attention_maps.entropy(np.array([[0.25] * 4, [0.5, 0.5, 0, 0], [1, 0, 0, 0]])), np.log([4, 2, 1]), atol=1e-9
    )


@pytest.mark.parametrize("text, message", [(" ", "holds no word"), ("the " * 22, "has 24 tokens; expected at most 23")])
def test_a_text_without_words_or_with_too_many_tokens_is_refused(text, message):
    with pytest.raises(UserError, match=message):
        attention_maps.run(SUBJECT, Options(text=text), print)


def test_a_pair_for_a_model_with_one_segment_and_a_model_without_layers_are_refused():
    with pytest.raises(UserError, match="--text_pair: the model has one segment"):
        attention_maps.run(subject_with(type_vocab_size=1), Options(text="the cat", text_pair="the bank"), print)
    with pytest.raises(UserError, match="the encoder has embeddings and no layer"):
        attention_maps.run(subject_with(num_hidden_layers=0), Options(text="the cat"), print)


def subject_with(**changes):
    return dataclasses.replace(
        SUBJECT, encoder=BertEncoder(SUBJECT.config.replace(**changes), seed=0, has_pooler=False)
    )
