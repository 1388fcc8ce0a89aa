"""The prompts of a model: which one a role or a name gets, and what is refused."""

import pytest

from keras_bert_app.config.finetuning_config import FinetuningConfig
from keras_bert_app.config.prompts import NO_PROMPTS, Prompts, checked_prompts
from keras_bert_app.errors import UserError


def test_a_role_takes_the_prompt_of_its_first_name_and_never_the_default_prompt():
    prompts = Prompts({"query": "q: ", "document": "", "passage": "p: ", "corpus": "c: "}, "query")
    assert (prompts.of_role("query"), prompts.of_role("document"), prompts.default) == ("q: ", "p: ", "q: ")
    assert Prompts({"query": "q: "}, "query").of_role("document") == ""
    assert (NO_PROMPTS.of_role("query"), NO_PROMPTS.default, NO_PROMPTS.words()) == ("", "", "")


def test_other_texts_replace_the_prompts_of_the_roles_under_their_names():
    prompts = Prompts({"query": "q: ", "passage": "p: "}, "query")
    assert prompts.changed(None, "d: ") == Prompts({"query": "q: ", "passage": "d: "}, "query")
    assert prompts.changed("", None).of_role("query") == "" and prompts.changed("", "").named == {}
    assert NO_PROMPTS.changed("a", "b").texts == {"query": "a", "document": "b"}
    assert NO_PROMPTS.changed(None, None) == NO_PROMPTS
    assert prompts.words() == "prompts query 'q: ', passage 'p: ', by default query"


def test_a_name_that_the_model_lacks_is_refused():
    prompts = Prompts({"query": "q: ", "clustering": "c: "})
    assert prompts.of_name("clustering", "", "") == "c: " and prompts.of_name("document", "", "") == ""
    with pytest.raises(UserError, match="--prompt=x: m has the prompts clustering, document, query; give one of them"):
        prompts.of_name("x", "--prompt=x", "m")
    with pytest.raises(UserError, match="--prompt=query: m has no prompts; leave it out"):
        Prompts({"query": ""}).of_name("query", "--prompt=query", "m")


@pytest.mark.parametrize(
    "values, message",
    [
        ({"prompts": ["query: "]}, "prompts is .*; expected an object of names and texts"),
        ({"prompts": {"query": 5}}, "prompts is .*; expected an object of names and texts"),
        ({"prompts": {"query": "\ud800"}}, "prompts is .*; expected an object of names and texts"),
        ({"prompts": {"query": "x" * 200_000}}, "prompts is .*; expected an object of names and texts"),
        ({"prompts": {}, "default_prompt_name": "q"}, r"default_prompt_name is 'q'; expected null or a name .*none"),
        ({"prompts": {"a": ""}, "default_prompt_name": 5}, r"default_prompt_name is '5'; expected null .*\(a\)"),
    ],
)
def test_wrong_prompts_of_a_file_are_refused_in_one_line(values, message):
    with pytest.raises(UserError, match=f"x.json: {message}") as refused:
        checked_prompts(values, "x.json")
    assert "\n" not in str(refused.value) and len(str(refused.value)) < 400


def test_prompts_of_a_file_may_be_absent_or_null():
    assert checked_prompts({}, "") == checked_prompts({"prompts": None, "default_prompt_name": None}, "") == NO_PROMPTS
    assert checked_prompts({"prompts": {"query": None}, "default_prompt_name": "query"}, "").default == ""


def test_a_run_keeps_its_prompts_and_refuses_other_bytes():
    run = FinetuningConfig(task="similarity", query_prompt="query: ")
    assert run.prompts == Prompts({"query": "query: ", "document": ""}) and run.prompts.default == ""
    assert FinetuningConfig(task="similarity").prompts == NO_PROMPTS
    with pytest.raises(UserError, match="--document_prompt='a.udcff': is not UTF-8; give the text in UTF-8"):
        FinetuningConfig(task="similarity", document_prompt="a\udcff")
