"""What a task is: where its examples come from, and the family of tasks that says what becomes of them."""

import dataclasses
import os
import types
from collections.abc import Callable

from keras_bert_app.errors import UserError

SPLITS = ("train", "dev", "test")


@dataclasses.dataclass(frozen=True)
class Task:
    """One task.

    Attributes:
        name: by which --task knows it. summary: for the list of tasks.
        family: the module that has label_names, featurize, make_head, make_objective, decode, score, write_predictions
            and mistakes (tasks.sequences says what they do).
        kind: of the family's kinds.
        read: function (path, run, has_labels) -> list of the family's examples; it raises UserError with file:line.
        files: dict split -> names of which the first that is there is read; further splits are scored beside "dev".
        labels: names of the classes in their order, where the task fixes them.
        metrics: what is scored, of tasks.metrics; the first decides which checkpoint is the best.
        defaults: fields of FinetuningConfig that this task has other defaults for.
    """

    name: str
    summary: str
    family: types.ModuleType
    kind: str
    read: Callable
    files: dict
    metrics: tuple
    labels: tuple = ()
    defaults: dict = dataclasses.field(default_factory=dict)

    def path(self, data_dir, split):
        """The file of a split.

        Raises:
            UserError: there is none.
        """
        names = self.files.get(split)
        if names is None:
            raise UserError(f"--split={split}: task {self.name} has {', '.join(self.files)}")
        for name in names:
            path = os.path.join(data_dir, name)
            if os.path.exists(path):
                return path
        there = ", ".join(sorted(os.listdir(data_dir))[:10]) if os.path.isdir(data_dir) else "no such directory"
        raise UserError(f"--data_dir={data_dir}: task {self.name} expects {' or '.join(names)} there (found: {there})")

    def extra_splits(self, data_dir):
        """Splits besides SPLITS whose file is there: scored at the end of a run too."""
        return [split for split, names in self.files.items()
                if split not in SPLITS and any(os.path.exists(os.path.join(data_dir, name)) for name in names)]

    def read_split(self, data_dir, split, run, has_labels=True, most=0):
        """The examples of a split.

        Args:
            most: of them, the first; 0 for all.

        Raises:
            UserError: the file is not there, cannot be read as what it should be, or holds no example.
        """
        return self.read_file(self.path(data_dir, split), run, has_labels, most)

    def read_file(self, path, run, has_labels=True, most=0):
        """The examples of one file; see read_split."""
        if not os.path.exists(path):
            raise UserError(f"{path}: there is no such file")
        examples = self.read(path, run, has_labels)
        if not examples:
            raise UserError(f"{path}: holds no example of task {self.name}")
        return examples[:most] if most else examples
