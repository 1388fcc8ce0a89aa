"""Parts of the text that are read at a time, and what is kept of them for a run that goes on.

A task is some 16 MB of files, or one larger file. When it has been read its documents are in sorted runs (spool.py),
and a JSON file names these with their hashes.
"""

import dataclasses
import hashlib
import os
from typing import NamedTuple

from pipelines.corpus.manifest import SPLITS
from pipelines.corpus.spool import Run, write_run
from pipelines.corpus.staging import read_json, write_json
from pipelines.text.text_files import ReaderCounts, readable

_TASK_BYTES = 1 << 24  # of files read between two points at which a killed run goes on
_RUN_BYTES = 1 << 25  # of text held back until it is written as a run


class Task(NamedTuple):
    """A part of the text: number, files, and what they were when it was read: [path, bytes, time of change]."""

    number: int
    files: list
    identity: list


def file_tasks(files):
    """The files in order as Tasks."""
    tasks, size = [[]], 0
    for status in statuses(files):
        if tasks[-1] and size + status[1] > _TASK_BYTES:
            tasks.append([])
            size = 0
        tasks[-1].append(status)
        size += status[1]
    return [Task(number, [status[0] for status in task], task) for number, task in enumerate(tasks)]


def statuses(files):
    """[path, bytes, time of the last change] of each file, by which it is known again."""
    return [_status(path) for path in files]


def _status(path):
    if "://" in path:
        import tensorflow as tf

        status = tf.io.gfile.stat(path)
        return [path, status.length, status.mtime_nsec]
    with readable(path):
        status = os.stat(path)
    return [os.path.abspath(path), status.st_size, status.st_mtime_ns]


class TaskWriter:
    """Collects the documents of a task and writes them as runs."""

    def __init__(self, task, directory):
        self._task, self._directory = task, directory
        self._parts = {split: [] for split in SPLITS}
        self._bytes = 0
        self._runs = {split: [] for split in SPLITS}

    def add(self, parts):
        for split, part in parts.items():
            if part.records:
                self._parts[split].append(part)
                self._bytes += int(part.entries["size"].sum())
        if self._bytes > _RUN_BYTES:
            self._flush()

    def finish(self, counts):
        self._flush()
        write_json(
            _task_path(self._directory, self._task.number),
            {
                "identity": self._task.identity,
                "counts": dataclasses.asdict(counts),
                "runs": {
                    split: [{**run._asdict(), "path": os.path.basename(run.path)} for run in runs]
                    for split, runs in self._runs.items()
                },
            },
        )
        return self._runs

    def _flush(self):
        for split, parts in self._parts.items():
            if parts:
                name = f"{self._task.number:05d}-{len(self._runs[split]):05d}-{split}"
                self._runs[split].append(write_run(os.path.join(self._directory, name), parts))
                self._parts[split] = []
        self._bytes = 0


def _task_path(directory, number):
    return os.path.join(directory, f"{number:05d}.json")


def finished(task, directory):
    """({split: runs}, counts) of a task that an earlier run finished, or None: files differ, or a run is damaged."""
    note = read_json(_task_path(directory, task.number))
    if note is None or note["identity"] != task.identity:
        return None
    runs = {
        split: [Run(**{**run, "path": os.path.join(directory, run["path"])}) for run in note["runs"][split]]
        for split in SPLITS
    }
    for run in (run for split in SPLITS for run in runs[split]):
        for ending, (size, sha256) in run.files.items():
            path = f"{run.path}.{ending}"
            if not os.path.exists(path) or os.path.getsize(path) != size or _sha256(path) != sha256:
                return None
    return runs, ReaderCounts(**note["counts"])


def _sha256(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
