"""Tasks, which are parts of the text, and the files that let an interrupted run resume.

A task is about 16 MB of files, or one larger file. After a task is read, its documents are in sorted runs (spool.py),
and a JSON file lists these runs with their hashes.
"""

import dataclasses
import os
from typing import NamedTuple

from pipelines import storage
from pipelines.corpus.manifest import SPLITS
from pipelines.corpus.spool import Part, Run, write_run
from pipelines.corpus.staging import read_json, write_json
from pipelines.text.text_files import ReaderCounts, readable

_TASK_BYTES = 1 << 24  # the size of the files of one task; a killed run resumes between tasks
_RUN_BYTES = 1 << 25  # text in memory is written as a run when it exceeds this size


class Task(NamedTuple):
    """A part of the text.

    Attributes:
        number: int. The place of the task in the text.
        files: list of str. The paths of its files.
        identity: list of [path, bytes, time of the last change]. The state of the files when they were read.
    """

    number: int
    files: list
    identity: list


def file_tasks(files: list[str]) -> list[Task]:
    """Groups files into tasks, in order.

    Args:
        files: list of str. Paths.

    Returns:
        list of Task.
    """
    tasks, size = [[]], 0
    for status in statuses(files):
        if tasks[-1] and size + status[1] > _TASK_BYTES:
            tasks.append([])
            size = 0
        tasks[-1].append(status)
        size += status[1]
    return [Task(number, [status[0] for status in task], task) for number, task in enumerate(tasks)]


def statuses(files: list[str]) -> list[list]:
    """Returns [path, bytes, time of the last change] of each file, which identify its content.

    Args:
        files: list of str. Paths.

    Returns:
        list of [str, int, int], in the order of the files.
    """
    return [_status(path) for path in files]


def _status(path):
    if storage.is_remote(path):
        import tensorflow as tf

        status = tf.io.gfile.stat(path)
        return [path, status.length, status.mtime_nsec]
    with readable(path):
        status = os.stat(path)
    return [os.path.abspath(path), status.st_size, status.st_mtime_ns]


class TaskWriter:
    """Collects the documents of a task and writes them as runs.

    Args:
        task: Task.
        directory: str. The local directory for the runs.
    """

    def __init__(self, task: Task, directory: str):
        self._task, self._directory = task, directory
        self._parts = {split: [] for split in SPLITS}
        self._bytes = 0
        self._runs = {split: [] for split in SPLITS}

    def add(self, parts: dict[str, Part]) -> None:
        """Adds documents: the Part of each split.

        Args:
            parts: dict of split -> Part.
        """
        for split, part in parts.items():
            if part.records:
                self._parts[split].append(part)
                self._bytes += int(part.entries["size"].sum())
        if self._bytes > _RUN_BYTES:
            self._flush()

    def finish(self, counts: ReaderCounts) -> dict[str, list[Run]]:
        """Writes the remaining documents and the JSON file of the task.

        Args:
            counts: ReaderCounts of the task.

        Returns:
            {split: list of Run}.
        """
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


def finished(task: Task, directory: str) -> tuple[dict[str, list[Run]], ReaderCounts] | None:
    """Finds the result of a task that an earlier run finished.

    Args:
        task: Task.
        directory: str. The local directory of the runs.

    Returns:
        ({split: list of Run}, ReaderCounts), or None if the task is not finished, a file has changed, or a run is
        damaged.
    """
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
            if not os.path.exists(path) or os.path.getsize(path) != size or storage.sha256_of(path) != sha256:
                return None
    return runs, ReaderCounts(**note["counts"])
