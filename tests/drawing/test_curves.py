"""The pictures of a run's curves and of results as bars."""

import struct

import pytest

from keras_bert_app.drawing.curves import draw_curves


@pytest.mark.parametrize("has_pairs, width", [(True, 1540), (False, 1540)])
def test_curves_of_many_rows_of_one_row_and_of_none_can_be_drawn(has_pairs, width):
    pairs = {"next_sentence_loss": 0.7, "next_sentence_accuracy": 0.5} if has_pairs else {}
    rows = [
        {
            "step": step,
            "loss": 9.0 - step / 50,
            "masked_lm_loss": 8.3,
            "masked_lm_accuracy": 0.1,
            "learning_rate": 1e-4,
            "gradient_norm": 1.0,
            "update_norm": 0.1,
            "parameter_norm": 50.0,
            "tokens_per_second": 1e4,
            "input_wait_share": 0.01,
            **pairs,
        }
        for step in range(10, 60, 10)
    ]
    rows.append(
        {
            "step": 50,
            "eval_loss": 8.0,
            "eval_masked_lm_loss": 7.5,
            "eval_masked_lm_accuracy": 0.1,
            "eval_unigram_accuracy": 0.05,
        }
    )
    for drawn_rows in (rows, rows[:1], []):
        picture = draw_curves(drawn_rows, "a $run$")
        assert picture.startswith(b"\x89PNG") and struct.unpack(">I", picture[16:20])[0] == width


def test_bars_of_negative_figures_and_headings_of_any_text_are_drawn():
    from matplotlib.figure import Figure

    from keras_bert_app.drawing.bars import draw_results

    limits = []
    original_savefig = Figure.savefig

    def savefig(self, *arguments, **options):
        limits.extend(axis.get_xlim() for axis in self.axes)
        return original_savefig(self, *arguments, **options)

    Figure.savefig = savefig
    try:
        image = draw_results(
            [("negative rmse", {"ours": -0.5}, {"mean": -1.5}), ("accuracy", {"ours": 0.5}, {"most": 0.25})],
            "of $a_$\nit cost $5 or $10, \\frac{",
        )
    finally:
        Figure.savefig = original_savefig
    assert image.startswith(b"\x89PNG")
    assert limits[0][0] < -1.5 and limits[0][1] > 0 and limits[1][0] == 0 and limits[1][1] > 0.5
