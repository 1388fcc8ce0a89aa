"""Channels: their names, the values in a text, and the lists of JSON records."""

import pytest

from pipelines.channels import Channel, joined_lines, line_fault, parse_channels
from pipelines.data_error import DataError

AGE, SIGNAL = Channel("age", size=120), Channel("signal", width=2)


def test_a_channel_is_written_as_it_is_read():
    names = ["age:120", "signal:v2", "dose:10:masked", "trace:v16:masked"]
    channels = parse_channels(names)
    assert [str(channel) for channel in channels] == names
    assert channels[:2] == (AGE, SIGNAL)
    assert channels[2] == Channel("dose", size=10, is_masked=True) and parse_channels(channels) == channels
    assert [channel.num_columns for channel in channels] == [1, 2, 1, 16]


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (["age"], "expected NAME:SIZE"),
        (["age:0"], "expected NAME:SIZE"),
        (["Age:3"], "expected NAME:SIZE"),
        (["age:v"], "expected NAME:SIZE"),
        (["age:3:hidden"], "expected NAME:SIZE"),
        ([7], "expected NAME:SIZE"),
        (["word_ids:3"], "input_word_ids is another input"),
        (["age:3", "age:v2"], "'age' is there twice"),
    ],
)
def test_a_channel_that_cannot_be_read_is_named(values, words):
    with pytest.raises(DataError, match=words) as caught:
        parse_channels(values)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("A|7 B", "'A|7' has 1 value; expected 2, for age, signal"),
        ("A|120|", "age is '120'; expected a whole number from 0 to 119"),
        ("A|-1|", "expected a whole number"),
        ("A|4.0|", "expected a whole number"),
        ("A||1", "signal is '1'; expected 2 numbers"),
        ("A||1,x", "expected 2 numbers"),
        ("A||1,nan", "expected 2 numbers"),
        ("|7|", "has no symbol before its values"),
    ],
)
def test_a_line_with_a_bad_value_has_a_fault_of_one_line(line, words):
    fault = line_fault(line, (AGE, SIGNAL))
    assert words in fault and "\n" not in fault


def test_lines_with_good_values_have_no_fault():
    assert not line_fault("A B|| C|119| \t D|0|-1.5,2e3", (AGE, SIGNAL))


def test_values_of_a_json_record_stand_behind_their_symbols():
    lines = ["A B", "", "C"]
    record = {"age": [[1, None], [], 3], "signal": [[0.5, 1], None, [[2, -3]]]}
    assert joined_lines(lines, record, (AGE, SIGNAL)) == ["A|1|0.5,1 B||0.5,1", "", "C|3|2,-3"]
    assert joined_lines(lines, {"age": [1, 2, 3]}, (AGE, SIGNAL)) == ["A|1| B|1|", "", "C|3|"]
    assert joined_lines(lines, {"age": None}, (AGE, SIGNAL)) == lines
    price = (Channel("price", width=1),)
    assert joined_lines(["A B", "C"], {"price": [[0.1, 1e-100], [[2]]]}, price) == ["A|0.1 B|0", "C|2"]


@pytest.mark.parametrize(
    ("record", "words"),
    [
        ({"age": [1]}, "age has 1 value for 2 lines; expected a list with one entry for each line"),
        ({"age": 3}, "age has 3 for 2 lines"),
        ({"age": [[1], 2]}, "age has 1 value for a line of 2 symbols"),
        ({"age": [[1, 200], 2]}, "age is '200'"),
        ({"age": ["1 2", 2]}, "age is '1 2'"),
        ({"signal": [[1, 2, 3], None]}, "signal is '1,2,3'; expected 2 numbers"),
        ({"signal": [["1 2", 1], None]}, "signal has 2 values for a line|signal is '1 2'"),
    ],
)
def test_lists_that_do_not_fit_are_named(record, words):
    with pytest.raises(DataError, match=words):
        joined_lines(["A B", "C"], record, (AGE, SIGNAL))
