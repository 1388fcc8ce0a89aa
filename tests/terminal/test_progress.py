"""Lines that tell how far long work is."""

import io

from keras_bert_app.terminal import progress


def test_progress_tells_rate_and_time_left_from_the_work_that_is_done(monkeypatch):
    clock = iter([0.0, 2.0, 6.0, 7.0, 10.0])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    stream = io.StringIO()
    shown = progress.Progress("texts", 1000, 400, stream)
    shown.done(100, 100)  # too soon to be shown
    shown.done(200, 100)
    shown.done(1, 1)
    assert stream.getvalue() == "300/1,000 texts  50 texts/s  ETA 0:06\n"
    assert shown.end() == 10.0


def test_items_are_reported_every_ten_seconds_with_what_is_left(monkeypatch):
    clock = iter([0.0, 4.0, 12.0, 13.0, 24.0])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    lines = []
    assert list(progress.reported("abcd", 4, "sentences", lines.append)) == list("abcd")
    assert lines == ["2/4 sentences  6.0 s each  ETA 0:12", "4/4 sentences  6.0 s each  ETA 0:00"]
