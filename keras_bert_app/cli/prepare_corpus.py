"""Makes a corpus from text files: TFRecord shards of shuffled documents without duplicates, a held-out part, a report.

python -m keras_bert_app.cli.prepare_corpus --input_files='texts/*.txt' --output_dir=corpora/mine

The command writes train-*.tfrecord, heldout-*.tfrecord, manifest.json, and the report as report.txt, report.json and
report.png to --output_dir. `pretrain --corpus_dir` reads that directory. Words are counted as BERT's tokenizer splits
text: a punctuation mark or a Chinese character is a word of its own. The memory use is bounded for texts of any size.
The disk use is about 2.3 times the text while the command runs. The same command resumes a run that was stopped or
killed. In a remote directory it starts again from the beginning.
"""

import os
import signal
import sys
import time
from collections.abc import Sequence

from absl import flags

from keras_bert_app.cli.common import app, input_text, written_places
from keras_bert_app.terminal.progress import ReadingProgress
from pipelines import storage
from pipelines.choices import SEGMENTERS
from pipelines.plurals import counted
from pipelines.text.readers import FORMATS

_INPUT_FILES = flags.DEFINE_list("input_files", [], "Text files, glob patterns or directories, comma-separated.")
_INPUT_FORMAT = flags.DEFINE_string("input_format", "auto", f"Layout of the text: {', '.join(FORMATS)}.")
_TEXT_FIELD = flags.DEFINE_string("text_field", "text", "The field of a JSON line that holds the text.")
_CHANNELS = flags.DEFINE_list(
    "channels", [], "Values behind the symbols of --input_format=symbols, such as age:120,signal:v16."
)
flags.DEFINE_string("output_dir", "", "Directory of the corpus; must not hold one already.")
_NUM_SHARDS = flags.DEFINE_integer("num_shards", None, "Number of training shards; by default one for every 8 MB.")
_DEDUP = flags.DEFINE_enum(
    "dedup",
    "auto",
    ["auto", "exact", "near", "none"],
    "Documents to drop. auto: exact for text, none for symbols. exact: copies that differ at most in white space. "
    "near: also documents that share about 80 % of their runs of five words, or of five Chinese characters, with "
    "another document. none: no documents.",
)
_SEGMENTER = flags.DEFINE_enum(
    "segmenter",
    "none",
    SEGMENTERS,
    "Puts spaces between the words of Chinese text, for --masking=segmented; jieba: the package of that name.",
)
_HOLDOUT_FRACTION = flags.DEFINE_float("holdout_fraction", 0.02, "Share of documents that training never sees.")
_SEED = flags.DEFINE_integer("seed", 12345, "Seed of the shuffle and of the choice of held-out documents.")
_STRICT = flags.DEFINE_bool("strict", False, "Stop at invalid UTF-8 instead of replacing and counting it.")
_WORKERS = flags.DEFINE_integer("workers", None, "Threads; by default one a core. They do not change the result.")


class _Stopped(BaseException):
    """A signal stopped the command. The argument is the number of the signal."""


def main(arguments: list[str]) -> None:
    _, output_dir = app.required("input_files", "output_dir")
    from pipelines.corpus import preparation  # loads numpy, which --help does not need

    files = input_text.checked_files(_INPUT_FILES.value, _INPUT_FORMAT.value)
    settings = {
        "input_format": _INPUT_FORMAT.value,
        "num_shards": _NUM_SHARDS.value,
        "seed": _SEED.value,
        "holdout_fraction": _HOLDOUT_FRACTION.value,
        "dedup": _DEDUP.value,
        "workers": _WORKERS.value,
        "segmenter": _SEGMENTER.value,
    }
    preparation.check_arguments(output_dir, **settings)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _stop)
    started = time.monotonic()
    progress = ReadingProgress("reading", _total_bytes(files))
    try:
        with app.quiet_start():
            pass  # loads TensorFlow
        try:
            manifest = preparation.prepare_corpus(
                output_dir,
                input_files=files,
                text_field=_TEXT_FIELD.value,
                strict=_STRICT.value,
                progress=progress,
                log=progress.line.say,
                draw=_draw,
                channels=_CHANNELS.value,
                **settings,
            )
        finally:
            progress.line.clear()
    except _Stopped as stop:
        name = signal.Signals(stop.args[0]).name
        print(f"stopped by {name}; the same command continues from what is finished", file=sys.stderr)
        sys.exit(128 + stop.args[0])
    _print_summary(output_dir, manifest, time.monotonic() - started)


def _stop(number, frame):
    del frame
    for other in (signal.SIGINT, signal.SIGTERM):
        signal.signal(other, signal.SIG_IGN)  # a second signal must not interrupt the clean-up
    raise _Stopped(number)


def _draw(report):
    from keras_bert_app.drawing.corpus_picture import draw_corpus_report

    return draw_corpus_report(report, os.path.basename(os.path.normpath(flags.FLAGS.output_dir)))


def _total_bytes(files: Sequence[str]) -> int | None:
    """Returns the size of the text in bytes, or None if a file is compressed (gzip) or remote."""
    total = 0
    for path in files:
        if storage.is_remote(path) or not storage.is_file(path):
            return None
        if storage.read_range(path, 0, 2) == b"\x1f\x8b":
            return None
        total += storage.size_of(path)
    return total


def _print_summary(output_dir, manifest, seconds):
    from pipelines.corpus.manifest import FAULTS, LEAST_SHARE_WITH_PAIRS, most_with_two_sentences, overlap_text

    counts = manifest["counts"]
    megabytes = counts["bytes"] / 1e6
    print(
        f"read {counted(counts['files'], 'file')}, {counted(counts['documents'], 'document')}, {megabytes:,.1f} MB in "
        f"{seconds:,.1f} s ({megabytes / seconds:,.1f} MB/s, start included)"
    )
    for name, meaning in FAULTS:
        if counts.get(name):
            print(f"  {counts[name]:,} {meaning}")
    for split, name in (("train", "for training"), ("heldout", "held out")):
        part = manifest[split]
        print(
            f"{name}: {counted(part['documents'], 'document')}, {counted(part['sentences'], 'sentence')}, "
            f"{counted(part['words'], 'word')} "
            f"in {counted(len(part['shards']), 'shard')}, {part['bytes'] / 1e6:,.1f} MB"
        )
    if most_with_two_sentences(manifest["train"]) < LEAST_SHARE_WITH_PAIRS:
        print(
            "too few documents have two sentences, so pretrain can use this corpus with --sentence_objective=sop or "
            "none, but not with nsp; another --input_format may fit the text better"
        )
    if line := overlap_text(manifest):
        print(f"  {line}")
    print(f"{output_dir}: done; its report.txt and report.png describe the corpus")


if __name__ == "__main__":
    app.run(
        main,
        __doc__,
        instead_of_arguments="files go into --input_files",
        writes={"output_dir": written_places.CORPUS},
    )
