"""Pictures of fine-tuning: confusion matrices of many classes, curves of many scores."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from keras_bert_app.drawing import finetuning_pictures
from keras_bert_app.drawing.finetuning_pictures import draw_answers, most_frequent


def test_the_most_frequent_of_many_classes_are_kept_and_other_answers_are_counted():
    # Class 3 is often predicted and never right, like "none" among label sets.
    counts = np.array([[5, 0, 2, 3, 0], [1, 0, 0, 0, 0], [0, 0, 1, 9, 4], [0, 0, 0, 0, 0], [0, 1, 0, 1, 7]])
    kept, rows, columns = most_frequent(counts, "abcde", 4)
    assert rows == list("acde") and columns == [*"acde", "others"]
    np.testing.assert_array_equal(kept, [[5, 2, 3, 0, 0], [0, 1, 9, 4, 0], [0, 0, 0, 0, 0], [0, 0, 1, 7, 1]])


def test_a_picture_of_forty_classes_can_be_drawn():
    gold = np.arange(200) % 40
    assert draw_answers(gold, (gold + gold % 3) % 40, [str(number) for number in range(40)], "many").startswith(
        b"\x89PNG"
    )


@pytest.mark.parametrize(
    "gold, predicted, names",
    [
        ([], [], ("a", "none")),  # all label sets are empty, and so are the answers
        ([0, 1, 2], [0, 2, 2], ("$", "$$", r"\frac{")),  # matplotlib shows text between dollars as mathematics
        ([0, 1], [1, 1], ("\ue000", "a" * 200)),
    ],
)
def test_a_picture_of_unusual_names_or_without_answers_can_be_drawn(gold, predicted, names):
    assert draw_answers(gold, predicted, names, "a run of $5 or $6").startswith(b"\x89PNG")


def test_each_of_sixteen_scores_has_a_line_that_no_other_has():
    axis, keys = Figure().subplots(), [f"eval_accuracy_{number}" for number in range(16)]
    finetuning_pictures._lines(axis, [{"step": step, **dict.fromkeys(keys, 0.5)} for step in (1, 2)], keys, "dev")
    assert len(axis.lines) == len({(line.get_color(), line.get_linestyle()) for line in axis.lines}) == 16
