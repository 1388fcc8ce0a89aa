"""What a task is: where its examples come from, and the family of tasks that says what becomes of them."""

import dataclasses
import glob
import itertools
import os
import types
from collections.abc import Callable

from keras_bert_app.config.finetuning_config import WINDOWED
from keras_bert_app.errors import UserError

SPLITS = ("train", "dev", "test")
# Fields of FinetuningConfig that only some tasks read.
SELECTIVE = (
    "text_columns",
    "label_column",
    "tag_scheme",
    "language",
    "fold",
    "long_documents",
    "max_windows",
    "doc_stride",
    "max_query_length",
    "max_answer_length",
    "n_best_size",
    "null_score_diff_threshold",
    "document_context",
    "pooling",
)

_OF_WINDOWS = ("max_windows", "doc_stride")
_OF_TEACHERS = ("unlabelled_files", "distillation_weight", "distillation_temperature")
# Kinds of tasks that can learn a teacher's answers too.
TAUGHT = ("classification", "regression", "multi_label")


class Examples(list):
    """Examples of a file, or of several.

    Attributes:
        left_out: dict of what is no example -> how many there were, such as rows without a gold label.
    """

    def __init__(self, examples=(), left_out=None):
        super().__init__(examples)
        self.left_out = dict(left_out or {})

    def first(self, most):
        """The first ones, so many at most; 0 for all."""
        return Examples(self[:most], self.left_out) if most else self

    def first_of_groups(self, most):
        """As first, but so many of each group."""
        members = {}
        for example in self:
            members.setdefault(getattr(example, "group", ""), []).append(example)
        return (
            Examples(itertools.chain.from_iterable(group[:most] for group in members.values()), self.left_out)
            if most
            else self
        )

    def notes(self):
        """What to say of them."""
        return [f"{count:,} {what} were left out" for what, count in self.left_out.items()]


@dataclasses.dataclass(frozen=True)
class Task:
    """One task.

    Attributes:
        name: by which --task knows it. summary: for the list of tasks.
        family: the module that has READS (of SELECTIVE), label_names, input_names, featurize, texts, make_head, make_objective, decode, score, baseline,
            answers, write_predictions and mistakes (tasks.sequences says what they do).
        kind: of the family's kinds.
        read: function (path, run, has_labels) -> list of the family's examples; it raises UserError with file:line.
        files: dict split -> names, or patterns as of glob, of which the first that is there is read; further splits are
            scored beside "dev". Only one file may fit a pattern; but {language} in a name stands for the run's language, or
            any, {all} for anything, and all files that fit are read.
        labels: names of the classes in their order, where the task fixes them.
        metrics: what is scored, of tasks.metrics; the first decides which checkpoint is the best.
        defaults: fields of FinetuningConfig that this task has other defaults for.
        tune: function (dev examples, predictions) -> dict of the fields of FinetuningConfig, of those that only decode reads,
            with which they score best; the run's predictions are made with them from then on. None: there are none.
        part: function (split, examples, run) -> those of the split, where one file holds several. None: it holds one.
        reads: those of SELECTIVE that it reads, beside READS of its family.
        answer_files: dict name of a file -> that under which the task's server takes its answers; for others: predictions.tsv.
        settle: function (run, path of the training examples) -> FinetuningConfig in which what flags left to be guessed is
            found; all files are read by it from then on. None: nothing is guessed.
        value_range: (lowest, highest) number that the server takes; () where there are no numbers, or any may be.
        is_ordered: whether the answer to a pair of texts is another one in the other order.
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
    tune: Callable | None = None
    part: Callable | None = None
    reads: tuple = ()
    answer_files: dict = dataclasses.field(default_factory=dict)
    value_range: tuple = ()
    settle: Callable | None = None
    is_ordered: bool = False

    def settled(self, run):
        """A FinetuningConfig by which all files of a run are read alike, as Task.settle finds it in the training examples."""
        return self.settle(run, self.path(run.data_dir, "train", run.language)) if self.settle else run

    def check_options(self, run, names=None):
        """Raises UserError where a FinetuningConfig has another value than the default for what this task does not read.

        Args:
            names: of the fields that were asked for; None for all.
        """
        defaults = {field.name: field.default for field in dataclasses.fields(run)}
        asked_for = [
            name for name in defaults if (names is None or name in names) and getattr(run, name) != defaults[name]
        ]
        for name in asked_for:
            if name in SELECTIVE and name not in (*self.family.READS, *self.reads):
                raise UserError(
                    f"--{name}={_as_flag(getattr(run, name))}: task {self.name} does not read it; leave it out"
                )
            if name in _OF_WINDOWS and "long_documents" in self.family.READS and run.long_documents not in WINDOWED:
                raise UserError(
                    f"--{name}={getattr(run, name)}: --long_documents={run.long_documents} has one row for each text; leave it out, "
                    f"or take {' or '.join(WINDOWED)}"
                )
            if name == "teacher" and self.kind not in TAUGHT:
                raise UserError(
                    f"--teacher={run.teacher}: task {self.name} cannot be distilled; leave it out: a teacher is for tasks "
                    f"of {', '.join(kind.replace('_', '-') for kind in TAUGHT)}"
                )
            if name in _OF_TEACHERS and not run.teacher:
                raise UserError(
                    f"--{name}={_as_flag(getattr(run, name))}: there is no --teacher to learn from; give one, or leave it out"
                )
            if name == "swap_pairs" and self.is_ordered:
                raise UserError(
                    f"--swap_pairs: the answers of task {self.name} hang on the order of the texts; leave it out"
                )
            if name == "distillation_temperature" and self.kind == "regression":
                raise UserError(
                    f"--{name}={getattr(run, name)}: task {self.name} learns numbers, which have no temperature; leave it out"
                )
        if "pooling" in self.family.READS and not run.encoder_layers and run.pooling == "cls" and not run.bilstm_units:
            raise UserError(
                "--encoder_layers=0: the vector of [CLS] knows nothing of the text then; give --pooling=mean, max "
                "or concat, or --bilstm_units"
            )
        if run.has_many_lengths and run.iterations_per_loop > 1:
            raise UserError(
                f"--iterations_per_loop={run.iterations_per_loop}: batches of many lengths are taken one a call; leave it "
                "out, or give --nolength_buckets"
            )

    def path(self, data_dir, split, language=""):
        """The file of a split, or a pattern where there are several.

        Args:
            language: of the files that have one in their names; "" for all.

        Raises:
            UserError: there is none, or several that fit a pattern.
        """
        names = self.files.get(split)
        if names is None:
            raise UserError(f"--split={split}: task {self.name} has {', '.join(self.files)}")
        patterns = [_filled(name, language) for name in names]
        for name, pattern in zip(names, patterns):
            paths = _fitting(data_dir, pattern)
            if len(paths) > 1 and name == pattern:
                raise UserError(
                    f"--data_dir={data_dir}: {', '.join(map(os.path.basename, paths))} all fit {name}; leave one there"
                )
            if paths:
                return paths[0] if len(paths) == 1 else os.path.join(glob.escape(data_dir), pattern)
        there = ", ".join(sorted(os.listdir(data_dir))[:10]) if os.path.isdir(data_dir) else "no such directory"
        raise UserError(
            f"--data_dir={data_dir}: task {self.name} expects {' or '.join(patterns)} there (found: {there})"
        )

    def extra_splits(self, data_dir):
        """Splits besides SPLITS whose file is there: scored at the end of a run too."""
        return [
            split
            for split, names in self.files.items()
            if split not in SPLITS and any(_fitting(data_dir, _filled(name)) for name in names)
        ]

    def read_split(self, data_dir, split, run, has_labels=True, most=0):
        """The examples of a split.

        Args:
            most: of them, the first; 0 for all.

        Raises:
            UserError: the file is not there, cannot be read as what it should be, or holds no example.
        """
        # Which others there are is for scoring: training and the choice of the best weights keep to the run's language.
        language = run.language if split in ("train", "dev") else ""
        return self.read_file(self.path(data_dir, split, language), run, has_labels, most, split)

    def read_file(self, path, run, has_labels=True, most=0, split=None):
        """The Examples of a file, or of all files that a pattern fits; see read_split.

        Args:
            split: the one whose part is taken; None for all of it.
        """
        paths = [path] if os.path.exists(path) else sorted(glob.glob(path))
        if not paths:
            raise UserError(f"{path}: there is no such file")
        examples, left_out = [], {}
        for each in paths:
            found = self.read(each, run, has_labels)
            examples += found
            for what, count in getattr(found, "left_out", {}).items():
                left_out[what] = left_out.get(what, 0) + count
        if split and self.part:
            examples = self.part(split, examples, run)
        if not examples:
            raise UserError(f"{path}: holds no example of task {self.name}")
        return Examples(examples, left_out).first(most)


def names_in_answers(examples):
    """The names under which examples are answered: of several groups, whose names may be the same, after that of the group."""
    groups = [getattr(example, "group", "") for example in examples]
    return (
        [f"{group}:{example.guid}" if group else example.guid for group, example in zip(groups, examples)]
        if len(set(groups)) > 1
        else [example.guid for example in examples]
    )


def _as_flag(value):
    return ",".join(value) if isinstance(value, tuple) else value


def _filled(name, language=""):
    """The pattern that a name of Task.files stands for."""
    return name.replace("{language}", language or "*").replace("{all}", "*")


def _fitting(data_dir, pattern):
    """Paths in a directory that fit a pattern."""
    return sorted(glob.glob(os.path.join(glob.escape(data_dir), pattern)))
