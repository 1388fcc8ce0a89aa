"""The figures of a report equal a count by hand and a count of the tokenizer's pieces of the whole text."""

import pytest

from pipelines import BertTokenizer
from pipelines.text import scripts
from pipelines.wordpiece import vocabulary_report
from pipelines.wordpiece.vocabulary import SPECIAL_PIECES, write_vocabulary

ENTRIES = [*SPECIAL_PIECES, "the", "cat", "##s", "un", "##a", "##ware", ",", "中", "α", "é"]


@pytest.fixture
def tokenizer(tmp_path):
    write_vocabulary(ENTRIES, tmp_path / "vocab.txt")
    return BertTokenizer(str(tmp_path / "vocab.txt"))


def test_figures_are_those_counted_by_hand(tokenizer):
    # the, cat ##s, comma, un ##a ##ware, 中, [UNK] for 文, α, [UNK] for β, the: 9 words, 12 pieces
    report = vocabulary_report.vocabulary_report(tokenizer, [["The cats, unaware", "中文"], ["α β the"]])
    assert (report["words"], report["pieces"], report["unknown_words"]) == (9, 12, 2)
    assert report["pieces_per_word"] == 12 / 9 and report["unknown_piece_share"] == 2 / 12
    assert report["words_by_pieces"] == {"1": 5, "2": 1, "3": 1, "[UNK]": 2}
    assert report["entries"] == 15 and report["entries_used"] == 10  # including [UNK]
    assert report["longest_splits"] == [{"word": "unaware", "pieces": ["un", "##a", "##ware"], "count": 1}]
    assert list(report["scripts"]) == ["Latin", "Greek", "Han", "punctuation and symbols"]
    assert report["scripts"]["Han"] == {
        "words": 2,
        "whole_words": 1,
        "unknown_words": 1,
        "pieces": 2,
        "characters": 2,
        "distinct_characters": 2,
        "distinct_characters_in_vocabulary": 1,
    }
    lines = "\n".join(vocabulary_report.report_lines(report))
    assert "22.2222% of words" in lines and "un ##a ##ware" in lines


def test_figures_do_not_depend_on_how_many_words_memory_holds(tokenizer, monkeypatch):
    texts = [[f"the cats{i} un unaware 中文" * 2] for i in range(50)]
    whole = vocabulary_report.vocabulary_report(tokenizer, texts)
    monkeypatch.setattr(vocabulary_report, "_FLUSH_WORDS", 3)
    monkeypatch.setattr("pipelines.wordpiece.words._BATCH_BYTES", 10)
    assert vocabulary_report.vocabulary_report(tokenizer, texts) == whole


def test_pieces_counted_by_word_are_those_of_the_texts_themselves(golden):
    import json

    texts = [case["text"] for case in json.loads((golden / "tokenization.json").read_text(encoding="utf-8"))["cases"]]
    for do_lower_case in (True, False):
        tokenizer = BertTokenizer(str(golden / "tokenization_vocab.txt"), do_lower_case, verify_casing=False)
        ids = tokenizer.tokenize(texts).flat_values.numpy()
        report = vocabulary_report.vocabulary_report(tokenizer, [texts])
        assert report["pieces"] == len(ids) and report["unknown_words"] == (ids == tokenizer.unk_id).sum()
        assert report["entries_used"] == len(set(ids))


def test_a_text_without_words_gives_zeros(tokenizer):
    report = vocabulary_report.vocabulary_report(tokenizer, [[" "]])
    assert report["words"] == report["pieces_per_word"] == 0 and vocabulary_report.report_lines(report)


@pytest.mark.parametrize(
    "word, script",
    [
        ("cat", "Latin"),
        ("ａ", "Latin"),
        ("ω", "Greek"),
        ("я", "Cyrillic"),
        ("中", "Han"),
        ("々", "Han"),
        ("ひ", "Hiragana"),
        ("カ", "Katakana"),
        ("ｶ", "Katakana"),
        ("ー", "Katakana"),
        ("한", "Hangul"),
        ("ᄒ", "Hangul"),
        ("ع", "Arabic"),
        ("ש", "Hebrew"),
        ("ก", "Thai"),
        ("क", "Devanagari"),
        ("42", "numbers"),
        ("2nd", "Latin"),
        ("€", "punctuation and symbols"),
        ("😀", "punctuation and symbols"),
        ("ʰ", "Latin"),
        ("µ", "Greek"),
        ("\u0301", "marks"),
        ("\U000e1234", "other"),
    ],
)
def test_a_word_has_the_script_of_its_first_letter(word, script):
    assert scripts.script_of_word(word) == script
