"""Time and memory of prepare_corpus over texts of several sizes: a Markdown table.

python -m benchmarks.prepare_corpus --text_dir=enwiki --megabytes=49,200,1000 --work_dir=runs/prepare_corpus

A text larger than that in --text_dir is made by repeating it with one word in eight of every line changed to another
word of the text, so that no copy is a duplicate of another. Each command runs in a process of its own; its resident
memory is that of its whole tree of processes, sampled twenty times a second from /proc. Files that were just written
are read from memory. BUILD.md has a recorded run.
"""

import os
import random
import re
import shutil
import subprocess
import sys
import time

from absl import flags

from keras_bert_app.cli import app
from pipelines.corpus import load_manifest
from pipelines.readers import expand_files

flags.DEFINE_string("text_dir", "", "Directory of text files, such as wikiextractor's output.")
flags.DEFINE_string("work_dir", "", "Directory for the texts and corpora; needs four times the largest size.")
_MEGABYTES = flags.DEFINE_list("megabytes", ["49", "200", "1000"], "Sizes of text, in MB.")
_DEDUP = flags.DEFINE_list("dedup", ["exact"], "Ways of --dedup to measure.")
_WORKERS = flags.DEFINE_list("workers", ["2"], "Numbers of --workers to measure.")
_REPEATS = flags.DEFINE_integer("repeats", 1, "Runs of each; the fastest is shown.")
_CHANGED = 8
_SECONDS_BETWEEN_SAMPLES = 0.05
_WORD = re.compile(r"[a-z]{4,}")


def main(arguments):
    del arguments
    text_dir, work_dir = app.required("text_dir", "work_dir")
    print("| text, MB | dedup | workers | seconds | MB/s | seconds from reading on | MB/s | CPU seconds "
          "| peak resident, MB | documents | shards, MB |\n|" + "---|" * 11)
    for megabytes in map(int, _MEGABYTES.value):
        directory = os.path.join(work_dir, f"text-{megabytes}")
        if not os.path.exists(directory):
            make_text(text_dir, directory, megabytes * 1_000_000)
        for dedup in _DEDUP.value:
            for workers in _WORKERS.value:
                runs = [measure(directory, os.path.join(work_dir, "corpus"), dedup, workers)
                        for _ in range(_REPEATS.value)]
                print(row(dedup, workers, *min(runs, key=lambda run: run[0])), flush=True)


def row(dedup, workers, seconds, start_seconds, cpu_seconds, peak_bytes, manifest):
    size = manifest["counts"]["bytes"] / 1e6
    documents, shard_bytes = (manifest["train"][key] + manifest["heldout"][key] for key in ("documents", "bytes"))
    reading_on = seconds - start_seconds
    return (f"| {size:,.0f} | {dedup} | {workers} | {seconds:.1f} | {size / seconds:.1f} | {reading_on:.1f} "
            f"| {size / reading_on:.1f} | {cpu_seconds:.1f} | {peak_bytes / 1e6:,.0f} | {documents:,} "
            f"| {shard_bytes / 1e6:,.1f} |")


def make_text(text_dir, directory, size):
    """Copies of the text's files until there are size bytes; the first time as they are, then changed."""
    os.makedirs(directory + ".tmp")
    files = expand_files(text_dir)
    words, written, number = [], 0, 0
    while written < size:
        changed = random.Random(number) if number >= len(files) else None
        with open(files[number % len(files)], encoding="utf-8") as file:
            lines = file.readlines()
        if changed is None:
            words += _WORD.findall(lines[len(lines) // 2])
        else:
            lines = [line if line.startswith(("<doc ", "</doc>")) else _perturbed(line, words, changed)
                     for line in lines]
        with open(os.path.join(directory + ".tmp", f"{number:05d}"), "w", encoding="utf-8") as file:
            file.writelines(lines)
            written += file.tell()
        number += 1
    os.rename(directory + ".tmp", directory)


def _perturbed(line, words, changed):
    return _WORD.sub(lambda match: changed.choice(words) if changed.random() * _CHANGED < 1 else match[0], line)


def measure(text, corpus_dir, dedup, workers):
    """(seconds, seconds until TensorFlow was loaded, CPU seconds, peak resident bytes, manifest) of one command."""
    shutil.rmtree(corpus_dir, ignore_errors=True)
    command = [sys.executable, "-m", "keras_bert_app.cli.prepare_corpus", f"--input_files={text}",
               f"--output_dir={corpus_dir}", f"--dedup={dedup}", f"--workers={workers}"]
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
        sys.exit(f"{' '.join(command)} ended with {process.returncode}")
    return seconds, start_seconds, sum(os.times()[2:4]) - cpu_before, peak, load_manifest(corpus_dir, verify=False)


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
