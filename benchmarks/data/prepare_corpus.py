"""Measures time and memory of prepare_corpus for texts of several sizes: a table in Markdown, JSON and a picture.

python -m benchmarks.data.prepare_corpus --text_dir=enwiki --megabytes=49,200,1000 --work_dir=runs/prepare_corpus \\
    --output_file=runs/prepare_corpus.json

If a size is larger than the text in --text_dir, the benchmark repeats the text. In each copy it changes about one
word in eight to another word of the text, so that no copy is a duplicate. Each command runs in a process of its own.
Resident memory is that of the whole tree of processes, sampled twenty times a second from /proc. The texts were just
written, so the system reads them from memory.

A figure is the median of --repeats runs, and MB/s is the size of the text divided by the median of the seconds. The
picture shows MB/s and resident memory over the size of the text, with the lowest and the highest run. The name of the
picture is OUTPUT_FILE with .png instead of .json. docs/results/data.md has a recorded run.
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
from pipelines import storage
from pipelines.text.text_files import expand_files, open_text

flags.DEFINE_string(
    "text_dir", "", "Directory of text files, such as wikiextractor's output; files or globs, comma-separated."
)
flags.DEFINE_string("work_dir", "", "Directory for the texts and corpora; needs four times the largest size.")
_MEGABYTES = count_flags.define("megabytes", [49, 200, 1000], "Sizes of text, in MB.")
_DEDUP = flags.DEFINE_list("dedup", ["exact"], "Values of prepare_corpus --dedup to measure.")
_WORKERS = count_flags.define("workers", [2], "Numbers of --workers to measure.")
_REPEATS = flags.DEFINE_integer("repeats", 3, "Runs of each command; the table has their median.", lower_bound=1)
_OUTPUT_FILE = flags.DEFINE_string("output_file", "", "Where to write every figure as JSON, and the picture.")
_HEAD = (
    "| text, MB | dedup | workers | seconds | lowest to highest | MB/s | seconds from reading on "
    "| MB/s from reading on | CPU seconds | peak resident, MB | documents | shards, MB |"
)
_CHANGED = 8  # a copy changes one word in eight
_SECONDS_BETWEEN_SAMPLES = 0.05
_WORD = re.compile(r"[a-z]{4,}")
_LINES_BETWEEN_WORDS = 100
_MARKUP = ("<doc ", "</doc>")  # copies keep these lines of wikiextractor unchanged


def main(arguments):
    del arguments
    text_dir, work_dir = app.required("text_dir", "work_dir")
    figures, lines = {"machine": machine(("tensorflow",)), "runs": []}, [_HEAD, "|" + "---|" * 12]
    print("\n".join([report.in_words(figures["machine"]), "", *lines]), flush=True)
    # Enlarged texts are kept. The digest in their names identifies the text that they were made from.
    digest = files_digest(expand_files(text_dir.split(",")))
    for megabytes in _MEGABYTES.value:
        directory = os.path.join(work_dir, f"text-{megabytes}-{digest}")
        if not os.path.exists(directory):
            make_text(text_dir.split(","), directory, megabytes * 1_000_000)
        for dedup in _DEDUP.value:
            for workers in _WORKERS.value:
                corpus_dir = os.path.join(work_dir, "corpus")
                runs = [measure(directory, corpus_dir, dedup, workers) for _ in range(_REPEATS.value)]
                figures["runs"].append(runs)
                lines.append(row(runs))
                print(lines[-1], flush=True)
    report.keep(_OUTPUT_FILE.value, figures, lines, lambda path: draw(figures["runs"], path))


def row(repeats: list[dict]) -> str:
    """A line of the table.

    Args:
        repeats: list of dict. Results of measure for the same command.
    """
    run, size = repeats[0], repeats[0]["text_bytes"] / 1e6
    seconds, lowest, highest = spread(run["seconds"] for run in repeats)
    seconds_from_reading = statistics.median(run["seconds"] - run["start_seconds"] for run in repeats)
    cpu_seconds, peak_bytes = (
        statistics.median(run[name] for run in repeats) for name in ("cpu_seconds", "peak_bytes")
    )
    return (
        f"| {size:,.0f} | {run['dedup']} | {run['workers']} | {seconds:.1f} | {lowest:.1f} to {highest:.1f} "
        f"| {size / seconds:.1f} | {seconds_from_reading:.1f} | {size / seconds_from_reading:.1f} | {cpu_seconds:.1f} "
        f"| {peak_bytes / 1e6:,.0f} | {run['documents']:,} | {run['shard_bytes'] / 1e6:,.1f} |"
    )


def spread(values) -> tuple[float, float, float]:
    """(median, lowest, highest) of numbers.

    Args:
        values: iterable of float.
    """
    values = sorted(values)
    return statistics.median(values), values[0], values[-1]


def draw(runs: list[list[dict]], path: str) -> None:
    """Draws MB/s and resident memory over the size of the text.

    The picture has a line for each --dedup and number of workers.

    Args:
        runs: list of lists of dict. Results of measure; an inner list has the repeats of one command.
        path: str. File to write.
    """
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
        for axes, (title, value) in zip(figure.subplots(1, len(panels)), panels.items(), strict=True):
            for name, commands in lines.items():
                commands = sorted(commands, key=size_of)
                medians, lowest, highest = zip(*map(value, commands), strict=True)
                errors = [
                    [high - low for low, high in zip(*side, strict=True)]
                    for side in ((lowest, medians), (medians, highest))
                ]
                axes.errorbar(list(map(size_of, commands)), medians, yerr=errors, marker="o", capsize=3, label=name)
            axes.set_title(title)
            axes.set_xscale("log")
            axes.set_xticks(sizes, [f"{size:,.0f}" for size in sizes])
            axes.minorticks_off()
            axes.set_ylim(0, 1.1 * axes.get_ylim()[1])
        axes.legend()
    storage.write_whole(path, image.getvalue())


def make_text(patterns: list[str], directory: str, size: int) -> None:
    """Copies the text's files until the copies have `size` bytes. All copies but the first are changed.

    Args:
        patterns: list of str. Files, directories or globs of the text.
        directory: str. Where the copies go.
        size: int. Least number of bytes.

    Raises:
        UserError: the text must be repeated, but has no word to change.
    """
    files = expand_files(patterns)
    words, written, number = [], 0, 0
    with storage.whole_directory(directory, directory + ".tmp") as place:
        while written < size:
            if number == len(files) and not words:
                raise UserError(
                    f"--text_dir={','.join(patterns)}: has only {written:,} bytes and no word of four or more letters "
                    f"a to z that copies could change; expected text with such words, or at least {size:,} bytes"
                )
            generator = random.Random(number) if number >= len(files) else None
            with open_text(files[number % len(files)]) as file:
                lines = [line.decode("utf-8", "replace") for line in file]
            if generator is None:
                words += _words_of(lines)
            else:
                lines = [line if line.startswith(_MARKUP) else _perturbed(line, words, generator) for line in lines]
            with open(os.path.join(place, f"{number:05d}"), "w", encoding="utf-8") as file:
                file.writelines(lines)
                written += file.tell()
            number += 1


def _words_of(lines):
    """The words of the first line with words in each hundred lines. This sample of a file fits in memory."""
    words = []
    for start in range(0, len(lines), _LINES_BETWEEN_WORDS):
        words_by_line = (
            _WORD.findall(line) for line in lines[start : start + _LINES_BETWEEN_WORDS] if not line.startswith(_MARKUP)
        )
        words += next(filter(None, words_by_line), [])
    return words


def _perturbed(line, words, generator):
    return _WORD.sub(lambda match: generator.choice(words) if generator.random() * _CHANGED < 1 else match[0], line)


def measure(text: str, corpus_dir: str, dedup: str, workers: int) -> dict:
    """Runs prepare_corpus once.

    Args:
        text: str. Directory of the text.
        corpus_dir: str. Directory of the corpus; removed first.
        dedup: str. Value of --dedup.
        workers: int. Value of --workers.

    Returns:
        dict with the settings, text_bytes, seconds, start_seconds (until TensorFlow was loaded), cpu_seconds,
        peak_bytes (resident), documents and shard_bytes.

    Raises:
        UserError: prepare_corpus failed, or ended too soon to measure start_seconds.
    """
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
        peak = max(peak, resident_bytes_of_tree(process.pid))
        if start_seconds is None and os.path.exists(os.path.join(corpus_dir, ".incomplete")):
            start_seconds = time.monotonic() - started
        time.sleep(_SECONDS_BETWEEN_SAMPLES)
    seconds = time.monotonic() - started
    if process.returncode:
        raise UserError(f"{' '.join(command[1:])} ended with exit code {process.returncode}; see its messages above")
    if start_seconds is None:
        raise UserError(
            f"{text}: prepare_corpus ended after {seconds:.2f} s, and no sample saw it read; expected a run of many "
            f"samples, one each {_SECONDS_BETWEEN_SAMPLES} s; give larger --megabytes"
        )
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


def resident_bytes_of_tree(pid: int) -> int:
    """Resident bytes of a process and of all its descendants.

    Args:
        pid: int. The process.
    """
    total = 0
    try:
        with open(f"/proc/{pid}/statm", encoding="ascii") as file:
            total = int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children", encoding="ascii") as file:
                total += sum(resident_bytes_of_tree(int(child)) for child in file.read().split())
    except (FileNotFoundError, ProcessLookupError):  # the process has just ended
        pass
    return total


if __name__ == "__main__":
    app.run(main, __doc__)
