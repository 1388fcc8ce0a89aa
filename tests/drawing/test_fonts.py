"""Characters in pictures: the fonts that draw them, and the package to install if no font has them."""

import pytest
from fontTools.fontBuilder import FontBuilder
from fontTools.pens.ttGlyphPen import TTGlyphPen
from matplotlib import font_manager
from matplotlib.figure import Figure

from keras_bert_app.drawing import figures, fonts
from keras_bert_app.drawing.finetuning_pictures import draw_answers

NAMES = ("\u4f53\u80b2", "\u8d22\u7ecf")  # sports, finance


def write_font(path, family, characters):
    """Writes a TrueType font in which each character is a square."""
    names = {ord(character): f"glyph{number}" for number, character in enumerate(characters)}
    pen = TTGlyphPen(None)
    pen.moveTo((0, 0))
    for point in ((0, 700), (700, 700), (700, 0)):
        pen.lineTo(point)
    pen.closePath()
    square, order = pen.glyph(), [".notdef", *names.values()]
    builder = FontBuilder(1000, isTTF=True)
    builder.setupGlyphOrder(order)
    builder.setupCharacterMap(names)
    builder.setupGlyf(dict.fromkeys(order, square))
    builder.setupHorizontalMetrics(dict.fromkeys(order, (800, 0)))
    builder.setupHorizontalHeader(ascent=800, descent=-200)
    builder.setupNameTable({"familyName": family, "styleName": "Regular", "uniqueFontIdentifier": family})
    builder.setupOS2(sTypoAscender=800, usWinAscent=800, usWinDescent=200)
    builder.setupPost()
    builder.save(path)


@pytest.fixture
def installed(monkeypatch, tmp_path):
    """A function that installs a font after matplotlib has made its list. At first no font has CJK characters."""
    dejavu = [entry for entry in font_manager.fontManager.ttflist if entry.name == "DejaVu Sans"]
    monkeypatch.setattr(font_manager.fontManager, "ttflist", dejavu)
    monkeypatch.setattr(fonts, "_SMALLEST_CJK_FONT", 0)
    paths = []
    monkeypatch.setattr(font_manager, "findSystemFonts", lambda: [*paths])
    fonts._fonts.cache_clear()

    def install(family, characters):
        paths.append(str(tmp_path / f"{family}.ttf"))
        write_font(paths[-1], family, characters)

    yield install
    fonts._fonts.cache_clear()
    fonts.escaped_texts()


def labels_of(monkeypatch, names):
    """The texts of a picture of answers: (names on its axes, text at its foot)."""
    drawn = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, *_, **options: drawn.append(figure))
    draw_answers([0, 1], [1, 1], names, "a run")
    (figure,) = drawn
    foot = figure._supxlabel.get_text() if figure._supxlabel else ""
    return [label.get_text() for label in figure.axes[0].get_yticklabels()], foot


@pytest.mark.parametrize("family", ["Noto Sans CJK SC", "A Font Nobody Knows"])
def test_a_font_that_was_installed_since_the_last_run_draws_its_characters(installed, monkeypatch, tmp_path, family):
    installed("Broken", "x")
    (tmp_path / "Broken.ttf").write_bytes(b"no font")
    installed(family, "".join(NAMES) + "\u4e2d")
    assert labels_of(monkeypatch, NAMES) == (list(NAMES), "")
    assert fonts.families() == ["DejaVu Sans", family] and fonts.advice(NAMES) == ""


def test_several_fonts_together_draw_characters_that_no_single_font_has(installed, monkeypatch):
    installed("Only Han", "".join(NAMES) + "\u4e2d")
    installed("Only Hangul", "\ud55c\uae00")
    names = (NAMES[0], "\ud55c\uae00")
    assert labels_of(monkeypatch, names) == (list(names), "")


def test_a_picture_without_a_font_for_its_characters_names_the_package(installed, monkeypatch):
    labels, foot = labels_of(monkeypatch, NAMES)
    assert labels == ["U+4F53 U+80B2", "U+8D22 U+7ECF"]
    assert foot == (
        "no installed font has the characters written as U+...; install fonts-noto-cjk (Fedora: "
        "google-noto-sans-cjk-fonts)"
    )
    assert fonts.advice(["fine", *NAMES]) == foot
    # The next picture has none of these characters.
    assert labels_of(monkeypatch, ("good", "bad")) == (["good", "bad"], "")


def test_no_package_is_advised_for_characters_that_no_package_has(installed):
    assert fonts.advice(["\ue000", "\x07"]) == ""
    assert "fonts-noto-core" in fonts.advice(["\u0d15"])  # Malayalam


def test_a_picture_with_fixed_margins_names_the_package_too(installed):
    with figures.picture(4, 3, f"runs/{NAMES[0]}", margins={"left": 0.1}) as (_, image):
        pass
    assert image.getvalue().startswith(b"\x89PNG")
