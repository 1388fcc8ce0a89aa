"""Time and memory of prepare_corpus over texts of several sizes: a Markdown table, JSON and a picture.

python -m benchmarks.data.prepare_corpus --text_dir=enwiki --megabytes=49,200,1000 --work_dir=runs/prepare_corpus \
    --output_file=runs/prepare_corpus.json

A text larger than that in --text_dir is made by repeating it with one word in eight of every line changed to another
word of the text, so that no copy is a duplicate of another. Each command runs in a process of its own; its resident
memory is that of its whole tree of processes, sampled twenty times a second from /proc. Files that were just written
are read from memory. A figure is the median of --repeats runs, MB/s those of the median seconds. The picture, MB/s and
resident memory over the size of the text between the lowest and highest, is OUTPUT_FILE with .png in place of .json.
BUILD.md has a recorded run.
"""

import os
import random
import re
import shutil
import statistics
import subprocess
import sys
import time

from absl import flags

from benchmarks.common import count_flags, report
from benchmarks.common.identity import files_digest
from benchmarks.common.this_machine import machine
from keras_bert_app.cli.common import app
from keras_bert_app.errors import UserError
from pipelines.text.text_files import expand_files, open_text

flags.DEFINE_string(
    "text_dir", "", "Directory of text files, such as wikiextractor's output; files or globs, comma-separated."
)
flags.DEFINE_string("work_dir", "", "Directory for the texts and corpora; needs four times the largest size.")
_MEGABYTES = count_flags.define("megabytes", [49, 200, 1000], "Sizes of text, in MB.")
_DEDUP = flags.DEFINE_list("dedup", ["exact"], "Ways of --dedup to measure.")
_WORKERS = count_flags.define("workers", [2], "Numbers of --workers to measure.")
_REPEATS = flags.DEFINE_integer("repeats", 3, "Runs of each; their median is shown.", lower_bound=1)
_OUTPUT_FILE = flags.DEFINE_string("output_file", "", "Where to write every figure as JSON, and the picture.")
_HEAD = (
    "| text, MB | dedup | workers | seconds | lowest to highest | MB/s | seconds from reading on | MB/s | CPU seconds "
    "| peak resident, MB | documents | shards, MB |"
)
_CHANGED = 8
_SECONDS_BETWEEN_SAMPLES = 0.05
_WORD = re.compile(r"[a-z]{4,}")
_LINES_BETWEEN_WORDS = 100
_MARKUP = ("<doc ", "</doc>")  # of wikiextractor


def main(arguments):
    del arguments
    text_dir, work_dir = app.required("text_dir", "work_dir")
    found, lines = {"machine": machine(("tensorflow",)), "runs": []}, [_HEAD, "|" + "---|" * 12]
    print("\n".join([report.in_words(found["machine"]), "", *lines]), flush=True)
    # Enlarged texts are kept, each for the text that it was made of.
    of_text = files_digest(expand_files(text_dir.split(",")))
    for megabytes in _MEGABYTES.value:
        directory = os.path.join(work_dir, f"text-{megabytes}-{of_text}")
        if not os.path.exists(directory):
            make_text(text_dir.split(","), directory, megabytes * 1_000_000)
        for dedup in _DEDUP.value:
            for workers in _WORKERS.value:
                corpus_dir = os.path.join(work_dir, "corpus")
                found["runs"].append([measure(directory, corpus_dir, dedup, workers) for _ in range(_REPEATS.value)])
                lines.append(row(found["runs"][-1]))
                print(lines[-1], flush=True)
    report.keep(_OUTPUT_FILE.value, found, lines, lambda path: draw(found["runs"], path))


def row(repeats):
    """A line of the table, of what measure gave of the same command."""
    run, size = repeats[0], repeats[0]["text_bytes"] / 1e6
    seconds, lowest, highest = spread(run["seconds"] for run in repeats)
    reading_on = statistics.median(run["seconds"] - run["start_seconds"] for run in repeats)
    cpu_seconds, peak_bytes = (
        statistics.median(run[name] for run in repeats) for name in ("cpu_seconds", "peak_bytes")
    )
    return (
        f"| {size:,.0f} | {run['dedup']} | {run['workers']} | {seconds:.1f} | {lowest:.1f} to {highest:.1f} | {size / seconds:.1f} "
        f"| {reading_on:.1f} | {size / reading_on:.1f} | {cpu_seconds:.1f} | {peak_bytes / 1e6:,.0f} | {run['documents']:,} "
        f"| {run['shard_bytes'] / 1e6:,.1f} |"
    )


def spread(values):
    """(median, lowest, highest)."""
    values = sorted(values)
    return statistics.median(values), values[0], values[-1]


def draw(runs, path):
    """Two panels over the size of the text: MB/s and resident memory, a line for each way of --dedup and number of workers."""
    from keras_bert_app.drawing.figures import picture

    def size_of(repeats):
        return repeats[0]["text_bytes"] / 1e6

    def speeds(repeats):
        median, lowest, highest = spread(run["seconds"] for run in repeats)
        return [size_of(repeats) / seconds for seconds in (median, highest, lowest)]

    panels = {
        "MB/s, the whole command": speeds,
        "peak resident, MB": lambda repeats: spread(run["peak_bytes"] / 1e6 for run in repeats),
    }
    lines = {}
    for repeats in runs:
        lines.setdefault(f"{repeats[0]['dedup']}, {repeats[0]['workers']} workers", []).append(repeats)
    sizes = sorted({size_of(repeats) for repeats in runs})
    with picture(8, 3, "prepare_corpus as the text grows\nMB of text") as (figure, image):
        for axes, (title, value) in zip(figure.subplots(1, len(panels)), panels.items()):
            for name, of_line in lines.items():
                of_line = sorted(of_line, key=size_of)
                medians, lowest, highest = zip(*map(value, of_line))
                errors = [[high - low for low, high in zip(*side)] for side in ((lowest, medians), (medians, highest))]
                axes.errorbar(list(map(size_of, of_line)), medians, yerr=errors, marker="o", capsize=3, label=name)
            axes.set_title(title)
            axes.set_xscale("log")
            axes.set_xticks(sizes, [f"{size:,.0f}" for size in sizes])
            axes.minorticks_off()
            axes.set_ylim(0, 1.1 * axes.get_ylim()[1])
        axes.legend()
    with open(path, "wb") as file:
        file.write(image.getvalue())


def make_text(patterns, directory, size):
    """Copies of the text's files until there are size bytes; the first time as they are, then changed.

    Raises:
        UserError: copies are needed, and the text has no word to change them with.
    """
    shutil.rmtree(directory + ".tmp", ignore_errors=True)  # of a run that was stopped
    os.makedirs(directory + ".tmp")
    files = expand_files(patterns)
    words, written, number = [], 0, 0
    while written < size:
        if number == len(files) and not words:
            raise UserError(
                f"--text_dir={','.join(patterns)}: {written:,} bytes, and no word of four letters a to z or more to change "
                f"copies with; expected text with such words, or {size:,} bytes of it"
            )
        changed = random.Random(number) if number >= len(files) else None
        with open_text(files[number % len(files)]) as file:
            lines = [line.decode("utf-8", "replace") for line in file]
        if changed is None:
            words += _words_of(lines)
        else:
            lines = [line if line.startswith(_MARKUP) else _perturbed(line, words, changed) for line in lines]
        with open(os.path.join(directory + ".tmp", f"{number:05d}"), "w", encoding="utf-8") as file:
            file.writelines(lines)
            written += file.tell()
        number += 1
    os.rename(directory + ".tmp", directory)


def _words_of(lines):
    """The words of one line in a hundred, the first that has any: they are from all over the file, and do not fill the memory."""
    words = []
    for start in range(0, len(lines), _LINES_BETWEEN_WORDS):
        of_lines = (
            _WORD.findall(line) for line in lines[start : start + _LINES_BETWEEN_WORDS] if not line.startswith(_MARKUP)
        )
        words += next(filter(None, of_lines), [])
    return words


def _perturbed(line, words, changed):
    return _WORD.sub(lambda match: changed.choice(words) if changed.random() * _CHANGED < 1 else match[0], line)


def measure(text, corpus_dir, dedup, workers):
    """One command: a dict of its settings and sizes, seconds, seconds until TensorFlow was loaded (start_seconds), CPU seconds
    and peak resident bytes."""
    shutil.rmtree(corpus_dir, ignore_errors=True)
    command = [
        sys.executable,
        "-m",
        "keras_bert_app.cli.prepare_corpus",
        f"--input_files={text}",
        f"--output_dir={corpus_dir}",
        f"--dedup={dedup}",
        f"--workers={workers}",
    ]
    cpu_before = sum(os.times()[2:4])
    started = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    peak, start_seconds = 0, None
    while process.poll() is None:
        peak = max(peak, resident_bytes(process.pid))
        if start_seconds is None and os.path.exists(os.path.join(corpus_dir, ".incomplete")):
            start_seconds = time.monotonic() - started
        time.sleep(_SECONDS_BETWEEN_SAMPLES)
    seconds = time.monotonic() - started
    if process.returncode:
        raise UserError(f"{' '.join(command[1:])} ended with exit code {process.returncode}; what it said is above")
    with app.quiet_start():
        from pipelines.corpus.preparation import load_manifest
    manifest = load_manifest(corpus_dir, verify=False)
    documents, shard_bytes = (manifest["train"][key] + manifest["heldout"][key] for key in ("documents", "bytes"))
    return {
        "dedup": dedup,
        "workers": workers,
        "text_bytes": manifest["counts"]["bytes"],
        "seconds": seconds,
        "start_seconds": start_seconds,
        "cpu_seconds": sum(os.times()[2:4]) - cpu_before,
        "peak_bytes": peak,
        "documents": documents,
        "shard_bytes": shard_bytes,
    }


def resident_bytes(pid):
    """Of a process and all that it has started."""
    total = 0
    try:
        with open(f"/proc/{pid}/statm", encoding="ascii") as file:
            total = int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children", encoding="ascii") as file:
                total += sum(resident_bytes(int(child)) for child in file.read().split())
    except (FileNotFoundError, ProcessLookupError):  # it has just ended
        pass
    return total


if __name__ == "__main__":
    app.run(main, __doc__)
