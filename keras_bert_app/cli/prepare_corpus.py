"""Makes a corpus of text files: shuffled documents without duplicates in TFRecord shards, a held-out part, a report.

python -m keras_bert_app.cli.prepare_corpus --input_files='texts/*.txt' --output_dir=corpora/mine

--output_dir receives train-*.tfrecord, heldout-*.tfrecord, manifest.json, and the report as report.txt, report.json and
report.png. `pretrain --corpus_dir` takes it. Memory is bounded whatever the size of the text; on disk it takes about
2.3 times the text while it runs. A run that was stopped or killed goes on with the same command; in a remote
directory it starts anew.
"""

import os
import signal
import sys
import time

from absl import flags

from keras_bert_app.cli.common import app, input_text
from keras_bert_app.errors import UserError
from pipelines.text.readers import FORMATS

_INPUT_FILES = flags.DEFINE_list("input_files", [], "Text files, glob patterns or directories, comma-separated.")
_INPUT_FORMAT = flags.DEFINE_string("input_format", "auto", f"Layout of the text: {', '.join(FORMATS)}.")
_TEXT_FIELD = flags.DEFINE_string("text_field", "text", "The field of a JSON line that holds the text.")
flags.DEFINE_string("output_dir", "", "Directory of the corpus; must not hold one already.")
_NUM_SHARDS = flags.DEFINE_integer("num_shards", None, "Files of training documents; by default one for every 8 MB.")
_DEDUP = flags.DEFINE_enum(
    "dedup",
    "exact",
    ["exact", "near", "none"],
    "Drop documents that are equal up to white space (exact); also those "
    "of which about 0.8 of the runs of five words, or Chinese characters, are another's (near); or keep all (none).",
)
_HOLDOUT_FRACTION = flags.DEFINE_float("holdout_fraction", 0.02, "Share of documents that training never sees.")
_SEED = flags.DEFINE_integer("seed", 12345, "Of the shuffle and of the choice of held-out documents.")
_STRICT = flags.DEFINE_bool("strict", False, "Stop at invalid UTF-8 instead of replacing and counting it.")
_WORKERS = flags.DEFINE_integer("workers", None, "Threads at work, by default one a core; the result does not change.")
_SECONDS_BETWEEN_REPORTS = 5


class _Stopped(BaseException):
    """A signal asked for the end; its number."""


def main(arguments):
    if arguments:
        raise UserError(f"unexpected argument {arguments[0]!r}; files go into --input_files")
    _, output_dir = app.required("input_files", "output_dir")
    from pipelines.corpus import preparation  # here, since it loads numpy, which --help need not wait for

    files = input_text.checked_files(_INPUT_FILES.value, _INPUT_FORMAT.value)
    settings = {
        "input_format": _INPUT_FORMAT.value,
        "num_shards": _NUM_SHARDS.value,
        "seed": _SEED.value,
        "holdout_fraction": _HOLDOUT_FRACTION.value,
        "dedup": _DEDUP.value,
        "workers": _WORKERS.value,
    }
    preparation.check_arguments(output_dir, **settings)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _stop)
    started = time.monotonic()
    try:
        with app.quiet_start():
            pass  # nothing but TensorFlow itself
        manifest = preparation.prepare_corpus(
            output_dir,
            input_files=files,
            text_field=_TEXT_FIELD.value,
            strict=_STRICT.value,
            progress=_Progress(_total_bytes(files)),
            log=lambda line: print(line, flush=True),
            draw=_draw,
            **settings,
        )
    except _Stopped as stop:
        name = signal.Signals(stop.args[0]).name
        print(f"stopped by {name}; the same command goes on from what is finished", file=sys.stderr)
        sys.exit(128 + stop.args[0])
    _print_summary(output_dir, manifest, time.monotonic() - started)


def _stop(number, frame):
    del frame
    for other in (signal.SIGINT, signal.SIGTERM):
        signal.signal(other, signal.SIG_IGN)  # tidying up takes a moment, and is not to be broken off
    raise _Stopped(number)


def _draw(report):
    from keras_bert_app.drawing.corpus_picture import draw_corpus_report

    return draw_corpus_report(report, os.path.basename(os.path.normpath(flags.FLAGS.output_dir)))


def _total_bytes(files):
    """The size of the text, or None where a compressed or remote file hides it."""
    total = 0
    for path in files:
        if "://" in path or not os.path.isfile(path):
            return None
        with open(path, "rb") as file:
            if file.read(2) == b"\x1f\x8b":
                return None
        total += os.path.getsize(path)
    return total


class _Progress:
    """A line about the reading every five seconds."""

    def __init__(self, total_bytes):
        self._total = total_bytes
        self._started = self._last = time.monotonic()
        self._first_bytes = None

    def __call__(self, documents, num_bytes):
        now = time.monotonic()
        if self._first_bytes is None:  # what an earlier run has read says nothing about the speed of this one
            self._first_bytes = num_bytes
            self._started = now
        if now - self._last < _SECONDS_BETWEEN_REPORTS:
            return
        self._last = now
        speed = (num_bytes - self._first_bytes) / max(now - self._started, 1e-9)
        line = f"reading: {documents:,} documents, {num_bytes / 1e6:,.0f} MB, {speed / 1e6:,.1f} MB/s"
        if self._total and speed:
            seconds = max(0, self._total - num_bytes) / speed
            line += f", {num_bytes / self._total:.0%}, {_duration(seconds)} left to read"
        print(line, flush=True)


def _duration(seconds):
    return f"{seconds:,.0f} s" if seconds < 120 else f"{seconds / 60:,.0f} min"


def _number_of(count, name):
    return f"{count:,} {name}{'' if count == 1 else 's'}"


def _print_summary(output_dir, manifest, seconds):
    from pipelines.corpus.corpus_report import FAULTS

    counts = manifest["counts"]
    megabytes = counts["bytes"] / 1e6
    print(
        f"read {_number_of(counts['files'], 'file')}, {counts['documents']:,} documents, {megabytes:,.1f} MB in "
        f"{seconds:,.1f} s ({megabytes / seconds:,.1f} MB/s, start included)"
    )
    for name, meaning in FAULTS:
        if counts[name]:
            print(f"  {counts[name]:,} {meaning}")
    for split, name in (("train", "for training"), ("heldout", "held out")):
        found = manifest[split]
        print(
            f"{name}: {found['documents']:,} documents, {found['sentences']:,} sentences, {found['words']:,} words "
            f"in {_number_of(len(found['shards']), 'shard')}, {found['bytes'] / 1e6:,.1f} MB"
        )
    print(f"{output_dir}: done; report.txt and report.png there show what is in it")


if __name__ == "__main__":
    app.run(main, __doc__)
