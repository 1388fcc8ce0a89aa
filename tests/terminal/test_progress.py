"""Progress lines, and the formats of durations."""

import io
import time
from types import SimpleNamespace

import pytest

from keras_bert_app.terminal import durations, progress


def set_clock(monkeypatch, clock):
    """Gives the module progress, and no thread of another test, a clock with the times of an iterator."""
    monkeypatch.setattr(progress, "time", SimpleNamespace(**{**vars(time), "monotonic": lambda: next(clock)}))


def test_progress_shows_the_rate_of_units_and_estimates_the_time_left_from_the_work(monkeypatch):
    clock = iter([0.0, 0.0, 2.0, 6.0, 6.0, 7.0, 10.0])
    set_clock(monkeypatch, clock)
    stream = io.StringIO()
    shown = progress.Progress("texts", 1000, 400, stream)
    shown.done(100, 100)  # less than 5 seconds after the start, so no line is due
    shown.done(200, 100)
    shown.done(1, 1)
    assert stream.getvalue() == "300/1,000 texts  50 texts/s  ETA 0:06\n"
    assert shown.end() == 10.0


def test_a_line_about_items_appears_every_ten_seconds_with_the_time_left(monkeypatch):
    clock = iter([0.0, 4.0, 12.0, 13.0, 24.0])
    set_clock(monkeypatch, clock)
    lines = []
    assert list(progress.reported("abcd", 4, "sentences", lines.append)) == list("abcd")
    assert lines == ["2/4 sentences  6.0 s each  ETA 0:12", "4/4 sentences  6.0 s each  ETA 0:00"]


@pytest.mark.parametrize(
    "seconds, exact, rough",
    [
        (0.1234, "0:00", "0.123 seconds"),
        (61, "1:01", "61 seconds"),
        (3723, "1:02:03", "62.0 minutes"),
        (200_000, "55:33:20", "2.3 days"),
    ],
)
def test_a_measured_duration_has_hours_minutes_and_seconds_and_an_estimate_has_one_unit(seconds, exact, rough):
    assert (durations.duration(seconds), durations.rough_duration(seconds)) == (exact, rough)


def test_the_speed_of_reading_counts_only_the_bytes_of_this_run(monkeypatch):
    clock = iter([0.0, 10.0, 11.0, 20.0, 20.0])
    set_clock(monkeypatch, clock)
    stream = io.StringIO()
    shown = progress.ReadingProgress("reading", 200_000_000, stream)
    shown.line.shown = 12.0  # the time of the last line: none is due at 11, and one is due at 20
    shown(1_000, 100_000_000)  # an earlier run has read these bytes
    shown(2_000, 150_000_000)
    assert stream.getvalue() == "reading: 2,000 documents, 150 MB, 5.0 MB/s  75%  ETA 0:10\n"


def test_reading_has_no_speed_before_something_was_read(monkeypatch):
    set_clock(monkeypatch, iter([0.0, 9.0, 9.0, 9.0]))
    stream = io.StringIO()
    progress.ReadingProgress("reading", 200_000_000, stream)(1_000, 100_000_000)
    assert stream.getvalue() == "reading: 1,000 documents, 100 MB\n"
