"""The picture of a run's curves."""

import struct

import pytest

from keras_bert_app.drawing.curves import draw_curves


@pytest.mark.parametrize("has_pairs, width", [(True, 1540), (False, 1540)])
def test_a_picture_is_drawn_of_whatever_rows_there_are(has_pairs, width):
    pairs = {"next_sentence_loss": 0.7, "next_sentence_accuracy": 0.5} if has_pairs else {}
    rows = [{"step": step, "loss": 9.0 - step / 50, "masked_lm_loss": 8.3, "masked_lm_accuracy": 0.1, "learning_rate": 1e-4,
             "gradient_norm": 1.0, "update_norm": 0.1, "parameter_norm": 50.0, "tokens_per_second": 1e4,
             "input_wait_share": 0.01, **pairs} for step in range(10, 60, 10)]
    rows.append({"step": 50, "eval_loss": 8.0, "eval_masked_lm_loss": 7.5, "eval_masked_lm_accuracy": 0.1,
                 "eval_unigram_accuracy": 0.05})
    for some in (rows, rows[:1], []):
        picture = draw_curves(some, "a $run$")
        assert picture.startswith(b"\x89PNG") and struct.unpack(">I", picture[16:20])[0] == width
