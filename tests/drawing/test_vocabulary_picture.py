"""The picture of a vocabulary report can be drawn for any text, and only drawing loads matplotlib."""

import ast
import pathlib
import subprocess
import sys

import pytest

from keras_bert_app.drawing import fonts
from keras_bert_app.drawing.vocabulary_picture import draw_vocabulary_report

ROOT = pathlib.Path(__file__).parents[2]
SCRIPT = {
    "words": 4,
    "whole_words": 2,
    "unknown_words": 1,
    "pieces": 6,
    "characters": 9,
    "distinct_characters": 3,
    "distinct_characters_in_vocabulary": 2,
}
REPORT = {
    "words": 4,
    "pieces": 6,
    "pieces_per_word": 1.5,
    "unknown_words": 1,
    "unknown_word_share": 0.25,
    "unknown_piece_share": 1 / 6,
    "entries": 9,
    "entries_used": 3,
    "entries_used_share": 1 / 3,
    "words_by_pieces": {"1": 2, "3": 1, "[UNK]": 1},
    "scripts": {"Latin": SCRIPT, "marks": {**SCRIPT, "words": 0}},
    "longest_splits": [
        {"word": word, "pieces": ["a", "##b", "##c"], "count": 1}
        for word in ("abc", "$x$y", "\ue000\ue001\ue002\ue003", "x" * 150)
    ],
}


@pytest.mark.filterwarnings("error")  # matplotlib warns about a glyph that no font has
@pytest.mark.parametrize("report", [REPORT, {**REPORT, "longest_splits": [], "words_by_pieces": {"1": 4, "[UNK]": 0}}])
def test_a_picture_comes_out_without_a_missing_glyph(report):
    picture = draw_vocabulary_report(report, "vocab \ue000 中.txt")
    assert picture.startswith(b"\x89PNG") and len(picture) > 20_000


def test_characters_that_no_font_can_draw_become_code_points_and_long_words_are_shortened():
    assert fonts.drawable("\ue000\ue001") == "U+E000 U+E001"
    assert fonts.drawable("\ue000\ue001\ue002\ue003") == "U+E000 U+E001 U+E002..."
    assert fonts.drawable("glycosylphosphatidylinositol" * 2) == "glycosylphos...idylinositol"


def test_only_drawing_imports_matplotlib_and_only_when_it_draws():
    for path in [*ROOT.glob("pipelines/**/*.py"), *ROOT.glob("keras_bert_app/**/*.py")]:
        imports = [
            node
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            if isinstance(node, (ast.Import, ast.ImportFrom)) and "matplotlib" in ast.dump(node)
        ]
        assert not imports or path.parent.name == "drawing", path
    code = "import sys, keras_bert_app.drawing.vocabulary_picture; assert 'matplotlib' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)
