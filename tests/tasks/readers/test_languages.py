"""Tasks in several languages: the files and rows for training and for scores."""

import pytest

from keras_bert_app.config.finetuning_config import FinetuningConfig
from keras_bert_app.errors import UserError
from keras_bert_app.tasks import registry
from keras_bert_app.tasks.task import names_in_answers
from tests.tasks.texts import read, split, written

_XNLI = (
    "language\tgold_label\tsentence1_binary_parse\tsentence2_binary_parse\tsentence1_parse\tsentence2_parse\tsentence1"
    "\tsentence2\tpromptID\tpairID\tgenre\tlabel1\tlabel2\tlabel3\tlabel4\tlabel5\tsentence1_tokenized"
    "\tsentence2_tokenized\tmatch\n"
)


@pytest.fixture
def xnli(tmp_path):
    """A directory with the files of XNLI-1.0 and XNLI-MT-1.0 in three languages."""
    rows = "".join(
        f"{language}\t{label}\t\t\t\t\ta {language}\tb\t1\t1\tfacetoface\t\t\t\t\t\ta\tb\tTrue\n"
        for label in ("neutral", "entailment")
        for language in ("de", "en", "sw")
    )
    for name in ("xnli.dev.tsv", "xnli.test.tsv"):
        written(tmp_path, name, _XNLI + rows)
    for language in ("de", "en"):
        written(
            tmp_path,
            f"multinli/multinli.train.{language}.tsv",
            f"premise\thypo\tlabel\na {language}\tb\tcontradictory\n",
        )
    return tmp_path


@pytest.fixture
def paws_x(tmp_path):
    """A directory with the layout of x-final in two languages."""
    for language, train in (("de", "translated_train"), ("en", "train")):
        for name in (train, "dev_2k", "test_2k"):
            written(tmp_path, f"{language}/{name}.tsv", f"id\tsentence1\tsentence2\tlabel\n7\ta {language}\tb\t1\n")
    return tmp_path


def groups(examples):
    return [example.group for example in examples]


def test_xnli_trains_and_chooses_on_one_language_and_scores_all(xnli):
    (example,) = split("xnli", xnli, "train", language="en")
    assert (example.text_a, example.text_b, example.label, example.group) == ("a en", "b", "contradiction", "en")
    assert groups(split("xnli", xnli, "dev", language="de")) == ["de", "de"]
    for which in ("dev_languages", "test"):
        assert groups(split("xnli", xnli, which, language="de")) == ["de", "en", "sw"] * 2
    assert registry.find("xnli").extra_splits(str(xnli)) == ["dev_languages"]


def test_without_a_language_the_examples_of_all_languages_are_read(xnli, paws_x):
    assert groups(split("xnli", xnli, "train")) == ["de", "en"]
    assert groups(split("xnli", xnli, "dev")) == ["de", "en", "sw"] * 2
    assert groups(split("paws-x", paws_x, "train")) == ["de", "en"]


def test_paws_x_takes_the_language_from_the_directory(paws_x):
    (example,) = split("paws-x", paws_x, "train", language="en")
    assert (example.guid, example.text_a, example.text_b, example.label, example.group) == ("7", "a en", "b", "1", "en")
    assert groups(split("paws-x", paws_x, "dev", language="de")) == ["de"]
    assert groups(split("paws-x", paws_x, "dev_languages", language="de")) == ["de", "en"]
    assert groups(split("paws-x", paws_x, "test", language="de")) == ["de", "en"]
    assert groups(split("paws-x", paws_x / "de", "dev", language="de")) == ["de"]


def test_english_is_the_default_language_of_training():
    assert registry.find("xnli").defaults == registry.find("paws-x").defaults == {"language": "en"}


def test_the_error_about_a_missing_language_names_the_existing_languages(xnli, paws_x):
    with pytest.raises(
        UserError, match=r"--language=fr: .*xnli.dev.tsv has de, en, sw; give one of these, or '' for all"
    ):
        split("xnli", xnli, "dev", language="fr")
    with pytest.raises(
        UserError, match=r"task xnli expects multinli/multinli.train.fr.tsv or multinli.train.fr.tsv or"
    ):
        split("xnli", xnli, "train", language="fr")
    with pytest.raises(UserError, match="--language=en: .*de/dev_2k.tsv has de; give one of these"):
        split("paws-x", paws_x / "de", "dev", language="en")


def test_the_english_training_file_of_glue_is_read_for_xnli(tmp_path):
    written(tmp_path, "train.tsv", "index\tsentence1\tsentence2\tgold_label\n7\ta\tb\tneutral\n")
    (example,) = split("xnli", tmp_path, "train", language="en")
    assert (example.text_a, example.label, example.group) == ("a", "neutral", "en")
    with pytest.raises(UserError, match="--language=de: .*train.tsv has en; give one of these"):
        split("xnli", tmp_path, "train", language="de")


def test_answers_in_several_languages_are_named_with_the_language(paws_x, tmp_path):
    task, answers = registry.find("paws-x"), tmp_path / "answers"
    answers.mkdir()
    for language, names in (("", ["de:7", "en:7"]), ("en", ["7"])):
        examples = task.read_split(str(paws_x), "dev", FinetuningConfig(language=language))
        task.family.write_predictions(task, str(answers), examples, [{"label": "1"}] * len(examples))
        lines = (answers / "predictions.tsv").read_text(encoding="utf-8").splitlines()
        assert [line.split("\t")[0] for line in lines[1:]] == names_in_answers(examples) == names


def test_a_file_to_answer_needs_no_labels_and_keeps_all_languages(xnli):
    path = written(xnli, "x.tsv", "language\tsentence1\tsentence2\nde\ta\tb\nen\tc\td\n")
    assert [example.text_a for example in read("xnli", path, has_labels=False, language="en")] == ["a", "c"]


def test_directories_with_wildcards_in_their_names_are_read(tmp_path):
    written(tmp_path / "x[1]*", "de/dev_2k.tsv", "id\tsentence1\tsentence2\tlabel\n7\ta\tb\t1\n")
    written(tmp_path / "x[1]*", "en/dev_2k.tsv", "id\tsentence1\tsentence2\tlabel\n7\ta\tb\t1\n")
    task = registry.find("paws-x")
    assert len(task.read_split(str(tmp_path / "x[1]*"), "dev_languages", FinetuningConfig())) == 2
