"""Files of words and tags in columns: sentences, error messages, and files of predictions."""

import itertools
import os

import pytest

from keras_bert_app.config.finetuning_config import FinetuningConfig
from keras_bert_app.errors import UserError
from keras_bert_app.tasks import registry
from keras_bert_app.tasks.families import tagging
from keras_bert_app.tasks.families.entities import count

CONLL_2003 = """-DOCSTART- -X- -X- O

EU NNP B-NP B-ORG
rejects VBZ B-VP O

Peter NNP B-NP B-PER
Blackburn NNP I-NP I-PER

-DOCSTART- -X- -X- O

BRUSSELS NNP B-NP B-LOC
"""
BC5CDR = "-DOCSTART- (227508)\n\nNaloxone\tPROPN\tO\tI-Entity\nreverses\tVERB\tO\tO\n"
CONLL_U = """# newdoc id = one
# sent_id = 1
# text = Vámonos al mar
1-2\tVámonos\t_\t_\t_\t_\t_\t_\t_\t_
1\tVamos\tir\tVERB\tv\t_\t0\troot\t_\t_
2\tnos\tnosotros\tPRON\tp\t_\t1\tobj\t_\t_
3-4\tal\t_\t_\t_\t_\t_\t_\t_\t_
3\ta\ta\tADP\ts\t_\t5\tcase\t_\t_
4\tel\tel\tDET\td\t_\t5\tdet\t_\t_
5\tmar\tmar\tNOUN\tn\t_\t1\tobl\t_\t_
5.1\tiremos\t_\tVERB\tv\t_\t_\t_\t_\t_

# sent_id = 2
1\tSí\tsí\tINTJ\ti\t_\t0\troot\t_\t_

# newdoc id = two
1\tSí\tsí\tINTJ\ti\t_\t0\troot\t_\t_
"""


@pytest.fixture
def write(tmp_path):
    """A function that writes a file and returns its path."""

    def write_file(text, name="train.txt"):
        path = tmp_path / name
        path.write_bytes(text.encode("utf-8"))
        return str(path)

    return write_file


def read(path, task="ner", has_labels=True, **settings):
    return registry.find(task).read_file(path, FinetuningConfig(task=task, **settings), has_labels)


def written(directory, examples, tags, task="ner"):
    """(name, text) of the file that is written for the predicted tags of all words."""
    tags = iter(tags)
    predictions = [{"tags": list(itertools.islice(tags, len(example.words)))} for example in examples]
    tagging.write_predictions(registry.find(task), str(directory), examples, predictions)
    (path,) = [path for path in directory.iterdir() if path.name.startswith("predictions")]
    return path.name, path.read_bytes().decode("utf-8")


def test_conll_2003_is_sentences_in_documents_with_the_tag_in_the_last_column(write):
    path = write(CONLL_2003)
    sentences = read(path)
    assert [one.words for one in sentences] == [("EU", "rejects"), ("Peter", "Blackburn"), ("BRUSSELS",)]
    assert [one.tags for one in sentences] == [("B-ORG", "O"), ("B-PER", "I-PER"), ("B-LOC",)]
    assert [one.document for one in sentences] == [1, 1, 2] and [one.guid for one in sentences] == ["0", "1", "2"]
    assert [one.place for one in sentences] == [f"{path}:3", f"{path}:6", f"{path}:11"]
    assert {one.scheme for one in sentences} == {"IOB2"}


def test_the_label_column_is_chosen_by_its_number(write):
    path = write(CONLL_2003)
    assert read(path, "pos", label_column="1")[1].tags == ("NNP", "NNP")
    assert read(path, "ner", label_column="2")[1].tags == ("B-NP", "I-NP")


def test_the_column_of_the_words_is_chosen_by_its_number_and_answers_are_the_last_column(write, tmp_path):
    germeval = "1\tSchartau\tB-PER\tO\n2\tsagte\tO\tO\n"
    (sentence,) = read(write(germeval), text_columns=("1",), label_column="2")
    assert sentence.words == ("Schartau", "sagte") and sentence.tags == ("B-PER", "O")
    name, text = written(tmp_path, [sentence], ["O", "B-PER"])
    assert text == "1\tSchartau\tB-PER\tO\tB-PER\tO\n2\tsagte\tO\tO\tO\tB-PER\n"
    for column, message in (
        ("9", r":1: has 4 columns; expected a word in column 9, from 0 \(the run's --text_columns\)"),
        ("word", "--text_columns=word: expected the number of the column"),
    ):
        with pytest.raises(UserError, match=message):
            read(write(germeval), text_columns=(column,))


@pytest.mark.parametrize(
    "text, columns",
    [
        (
            "#\thttp://example.org/Korfmann [2009-10-17]\n1\tAm\tO\tO\n2\t#\tB-PER\tO\n\n#\tmore\n1\tAnna\tB-PER\tO\n",
            ("1", "2"),
        ),  # GermEval 2014
        ("# id 5239-ab\tdomain=en\n\n# id\nAm _ _ O\n# _ _ B-PER\n\n\nAnna _ _ B-PER\n", ("0", "3")),  # MultiCoNER
        ("-DOCSTART- O\n\nAm O\n# B-PER\n\n# a comment of its own\nAnna B-PER\n", ("0", "1")),
        ("# O\n\n# B-PER\n", ("0", "1")),
    ],
)
def test_comments_before_sentences_are_no_words_and_stay_in_answers_and_a_word_may_be_a_number_sign(
    write, tmp_path, text, columns
):
    word, tag = columns
    path = write(text)
    sentences = read(path, text_columns=(word,), label_column=tag)
    words = [word for one in sentences for word in one.words]
    assert words == (["#", "#"] if text.startswith("# O") else ["Am", "#", "Anna"]) and len(sentences) == 2
    _, written_text = written(tmp_path, sentences, ["O"] * len(words))
    assert [line for line in written_text.split("\n") if "http" in line or " id" in line or "comment" in line] == [
        line for line in text.split("\n") if "http" in line or " id" in line or "comment" in line
    ]
    assert written_text.count("\n") == text.count("\n")


def test_a_number_sign_in_a_sentence_with_too_few_columns_is_no_comment(write):
    with pytest.raises(UserError, match=":2: has 2 columns; expected 3, as the lines before"):
        read(write("Am NN O\n# O\n"))


def test_answers_are_in_the_scheme_of_the_training_file_unless_a_file_clearly_has_another(write):
    train = "中 B-LOC\n国 E-LOC\n人 S-PER\n"
    path = write(train)
    task = registry.find("ner")
    run = task.settle(FinetuningConfig(task="ner"), path)
    assert run.tag_scheme == "BIOES" and task.settle(run, "nowhere") is run
    # The reader later refuses an empty file.
    assert task.settle(FinetuningConfig(task="ner"), write("\n", "empty.txt")).tag_scheme == "auto"

    def scheme(text, has_labels, tag_scheme="BIOES"):
        return read(write(text, "other.txt"), has_labels=has_labels, tag_scheme=tag_scheme)[0].scheme

    assert scheme("中\n国\n", False) == "BIOES" and scheme("中\n国\n", False, "auto") == "IOB2"
    # The last column of this file has tags of chunks, not of entities, and does not change the scheme.
    assert scheme("Anna I-NP\nran I-VP\n", False, "IOB2") == "IOB2"
    # BMES and BIOES use the same letters if no entity has three characters.
    assert [scheme(train, True, name) for name in ("BMES", "BIOES", "auto")] == ["BMES", "BIOES", "BIOES"]
    assert scheme("Anna B-PER\nSmith I-PER\n", True) == "IOB2" and scheme("Anna I-PER\n", True, "IOB2") == "IOB1"


def test_tabs_chinese_characters_and_windows_line_ends_are_read(write):
    sentences = read(write(BC5CDR))
    assert sentences[0].words == ("Naloxone", "reverses") and sentences[0].tags == ("I-Entity", "O")
    # An ideographic space is a word here. Two spaces separate columns like one space.
    (sentence,) = read(write("\ufeff中 B-ORG\r\n国  I-ORG\r\n\u3000 O\r\n"))
    assert sentence.words == ("中", "国", "\u3000") and sentence.tags == ("B-ORG", "I-ORG", "O")


def test_conll_u_gives_each_syntactic_word_its_upos_or_on_request_another_column(write):
    path = write(CONLL_U, "es_x-ud-train.conllu")
    sentences = read(path, "pos")
    assert [one.words for one in sentences] == [("Vamos", "nos", "a", "el", "mar"), ("Sí",), ("Sí",)]
    assert sentences[0].tags == ("VERB", "PRON", "ADP", "DET", "NOUN")
    assert list(sentences[0].lines) == [5, 6, 8, 9, 10]
    first, same, other = (one.document for one in sentences)
    assert first == same != other
    assert read(path, "pos", label_column="4")[0].tags == ("v", "p", "s", "d", "n")


def test_the_files_of_a_split_are_found_under_their_usual_names(write, tmp_path):
    for name, task, split in (
        ("eng.testa", "ner", "dev"),
        ("valid.conll", "ner", "dev"),
        ("testb.tsv", "ner", "test"),
        ("es_x-ud-dev.conllu", "pos", "dev"),
        ("train.conllu", "pos", "train"),
    ):
        path = write(CONLL_U if name.endswith("conllu") else CONLL_2003, name)
        assert registry.find(task).path(str(tmp_path), split) == path
        os.remove(path)


def test_predictions_are_a_last_column_and_the_rest_of_the_file_is_unchanged(write, tmp_path):
    path = write(CONLL_2003)
    name, text = written(tmp_path, read(path), ["B-ORG", "O", "O", "B-PER", "B-LOC"])
    assert name == "predictions.txt"
    assert (
        text
        == """-DOCSTART- -X- -X- O O

EU NNP B-NP B-ORG B-ORG
rejects VBZ B-VP O O

Peter NNP B-NP B-PER O
Blackburn NNP I-NP I-PER B-PER

-DOCSTART- -X- -X- O O

BRUSSELS NNP B-NP B-LOC B-LOC
"""
    )


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        ([1], "-DOCSTART- -X- -X- O O\nPeter NNP B-NP B-PER B-PER\nBlackburn NNP I-NP I-PER B-PER\n\n"),
        ([2], "-DOCSTART- -X- -X- O O\n\nBRUSSELS NNP B-NP B-LOC B-PER\n"),
        (
            [0, 2],
            "-DOCSTART- -X- -X- O O\n\nEU NNP B-NP B-ORG B-PER\nrejects VBZ B-VP O B-PER\n\n"
            "-DOCSTART- -X- -X- O O\n\nBRUSSELS NNP B-NP B-LOC B-PER\n",
        ),
    ],
)
def test_sentences_that_were_not_scored_are_left_out_of_the_predictions(write, tmp_path, numbers, expected):
    sentences = read(write(CONLL_2003))
    assert written(tmp_path, [sentences[number] for number in numbers], itertools.repeat("B-PER"))[1] == expected


def test_right_tags_from_an_inner_column_are_repeated_before_the_predicted_tags(write, tmp_path):
    examples = read(write(CONLL_2003), "pos", label_column="2")
    _, text = written(tmp_path, examples, ["B-NP", "O", "B-NP", "I-NP", "O"], "pos")
    assert text.splitlines()[:4] == [
        "-DOCSTART- -X- -X- O O O",
        "",
        "EU NNP B-NP B-ORG B-NP B-NP",
        "rejects VBZ B-VP O B-VP O",
    ]


def test_a_document_line_with_other_columns_is_filled_up_since_conlleval_refuses_ragged_lines(write, tmp_path):
    _, text = written(tmp_path, read(write(BC5CDR)), ["I-Entity", "O"])
    assert text == (
        "-DOCSTART-\t(227508)\t-X-\tO\tO\n\nNaloxone\tPROPN\tO\tI-Entity\tI-Entity\nreverses\tVERB\tO\tO\tO\n"
    )


def test_a_file_of_words_alone_gets_its_tags(write, tmp_path):
    path = write("-DOCSTART-\n\nEU\nrejects\n\u3000\n \n\nPeter\n", "words.txt")
    examples = read(path, has_labels=False)
    assert [one.tags for one in examples] == [None, None] and examples[0].scheme == "IOB2"
    assert written(tmp_path, examples, ["B-ORG", "O", "O", "B-PER"])[1] == (
        "-DOCSTART- O\n\nEU B-ORG\nrejects O\n\u3000 O\n \n\nPeter B-PER\n"
    )


def test_predictions_of_conll_u_stand_in_their_column_and_the_file_stays_conll_u(write, tmp_path):
    path = write(CONLL_U, "es_x-ud-test.conllu")
    for column, old, new in (("label", "\tVERB\tv\t", "\tX\tv\t"), ("4", "\tVERB\tv\t", "\tVERB\tX\t")):
        (directory := tmp_path / column).mkdir()
        examples = read(path, "pos", label_column=column)
        _, *others = itertools.chain.from_iterable(one.tags for one in examples)
        assert written(directory, examples, ["X", *others], "pos") == (
            "predictions.conllu",
            CONLL_U.replace(old, new, 1),
        )


def test_several_files_are_answered_one_after_the_other_and_share_no_sentence_or_document(write, tmp_path):
    for name in ("a.txt", "b.txt"):
        write("EU B-ORG\n", name)
    examples = read(str(tmp_path / "[ab].txt"))
    assert [(one.place[-7:], one.document) for one in examples] == [("a.txt:1", 0), ("b.txt:1", 0)]
    assert written(tmp_path, examples, ["O", "B-ORG"])[1] == "EU B-ORG O\n\nEU B-ORG B-ORG\n"


def test_sentences_without_predictions_are_not_written(write, tmp_path):
    assert written(tmp_path, read(write(CONLL_2003))[:1], ["B-ORG", "O"])[1].endswith("rejects VBZ B-VP O O\n\n")


def test_a_labelled_file_to_answer_shows_its_scheme_and_columns_without_entities_show_none(write):
    assert read(write("EU S-ORG\nrejects O\n"), has_labels=False)[0].scheme == "BIOES"
    assert read(write("EU NNP\nrejects VBZ\n"), has_labels=False)[0].scheme == "IOB2"


@pytest.mark.parametrize(
    "text, settings, message",
    [
        ("EU NNP B-ORG\nrejects O\n", {}, ":2: has 2 columns; expected 3, as the lines before"),
        ("EU\nrejects\n", {}, ":1: has 1 column; expected a word and a tag, in column -1, the last, (--label_column)"),
        ("EU B-ORG\n", {"label_column": "2"}, ":1: has 2 columns; expected a word and a tag, in column 2, from 0"),
        ("EU B-ORG\n", {"label_column": "tag"}, "--label_column=tag: expected the number of a column, from 0"),
        ("EU\tB-ORG\n\tO\n", {}, ":2: the column of the word is empty"),
        ("EU\tB-ORG\nrejects\t\n", {}, ":2: the column of the tag is empty"),
        ("EU B-ORG\nrejects VBZ\n", {}, ":2: tag 'VBZ' marks no entity; expected O, or B-"),
        ("", {}, "holds no example of task ner"),
        ("-DOCSTART- -X- O\n\n\n", {}, "holds no example of task ner"),
    ],
)
def test_faults_of_a_file_are_named_by_file_and_line(write, text, settings, message):
    path = write(text)
    with pytest.raises(UserError) as error:
        read(path, **settings)
    assert message in str(error.value) and "\n" not in str(error.value)
    assert path in str(error.value) or "--label_column=tag" in message


@pytest.mark.parametrize(
    "text",
    [
        "他出生于北京。 O\n",
        "他 O\n生 O\n\n他出生于北京。他住在上海 O\n",
        "他" * 30 + "\n",
        "He was born in Beijing.\n",
        "Really? 'Yes, he was born in Beijing!'\n",
    ],
)
def test_prose_to_answer_is_not_taken_for_columns(write, text):
    with pytest.raises(UserError) as error:
        read(write(text), has_labels=False)
    assert "is prose (" in str(error.value) and "expected a column of single words" in str(error.value)
    assert "plain sentences go into --text_file" in str(error.value) and "\n" not in str(error.value)


def test_the_error_about_prose_in_lines_of_unequal_length_names_the_option_for_sentences(write):
    with pytest.raises(UserError, match=":2: has 3 columns; expected 5, as the lines before; plain sentences go into"):
        read(write("He was born in Beijing\nShe was too\n"), has_labels=False)


@pytest.mark.parametrize(
    "text",
    ["U.S.\nInc.\n。\n3：2\n中华人民共和国\n", "Mr. Mr.\nsaw see\n. .\n", "Ende NN $.\n. $. $.\n", "他 O\n。 O\n"],
)
def test_single_words_to_answer_are_read_whatever_ends_them(write, text):
    words = [line.split()[0] for line in text.splitlines()]
    assert list(read(write(text), has_labels=False)[0].words) == words


def test_conll_u_without_its_ten_columns_is_refused(write):
    path = write("1\tVamos\tVERB\n", "x-ud-train.conllu")
    with pytest.raises(UserError, match=":1: has 3 columns; expected 10, between tabs"):
        read(path, "pos")


@pytest.mark.parametrize(
    "directory, sentences, entities",
    [
        ("conll2003", {"train": 14041, "dev": 3250, "test": 3453}, {"train": 23499, "dev": 5942, "test": 5648}),
        ("scibert/ner/NCBI-disease", {"test": 940}, {"test": 960}),
        ("scibert/ner/bc5cdr", {"test": 4139}, {"test": 9662}),
        # conlleval of 2004-01-26 counts these entities. 11 of them begin with I-.
        ("chinese/peopledaily", {"dev": 4631}, {"dev": 6192}),
    ],
)
def test_published_data_has_its_known_numbers_of_sentences_and_entities(shared, directory, sentences, entities):
    data_dir = shared / "data" / "tasks" / directory
    if not data_dir.is_dir():
        pytest.skip(f"../shared/data/tasks/{directory} is missing")
    run = FinetuningConfig(task="ner")
    for split in sentences:
        examples = registry.find("ner").read_split(str(data_dir), split, run)
        tags = [one.tags for one in examples]
        assert len(examples) == sentences[split]
        assert sum(values[0] for values in count(tags, tags).values()) == entities[split]
