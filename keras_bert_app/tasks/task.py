"""Task: the files of a task, the reader of its examples, and the family for its kind of answer."""

import dataclasses
import glob
import itertools
import os
import types
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

from keras_bert_app.config.finetuning_config import WINDOWED, FinetuningConfig
from keras_bert_app.errors import UserError
from keras_bert_app.tasks import sampling, split_files

SPLITS = ("train", "dev", "test")
TEXT_TO_TEXT = "text_to_text"  # the kind of tasks whose answers are texts
SIMILARITY = "similarity"  # the kind of tasks whose answers are vectors
RERANK = "rerank"  # the kind of tasks whose answers are rankings of documents
# Fields that describe the layers under an output layer, how fast these learn, and what they learn besides the labels.
HEAD_FIELDS = (
    "layers",
    "mix_layer_norm",
    "mix_rate_factor",
    "bilstm_units",
    "token_vector_size",
    "states_at",
    "context_vectors",
    "classifier_dropout",
    "consistency_weight",
    "language_model_weight",
)
# Fields of tasks whose answers are texts.
TEXT_TO_TEXT_FIELDS = (
    "source",
    "target",
    "target_vocab_file",
    "decoder",
    "recurrent_encoder",
    "attention",
    "context",
    "decoder_layers",
    "decoder_init",
    "shared_weights",
    "max_target_length",
    "label_smoothing",
    "batch_tokens",
    "teacher_forcing",
    "teacher_forcing_schedule",
    "num_beams",
    "length_penalty",
    "temperature",
    "top_k",
    "top_p",
)
# Fields of tasks whose answers are vectors.
SIMILARITY_FIELDS = (
    "vector_loss",
    "vector_temperature",
    "symmetric_loss",
    "triplet_margin",
    "deletion_ratio",
    "vector_sizes",
    "mine_negatives",
    "mine_range",
    "mine_margin",
    "mine_after",
    "similarity_metric",
    "query_prompt",
    "document_prompt",
)
# Fields of tasks whose answers are rankings.
RERANK_FIELDS = ("ranking_loss", "list_size", "ranking_metric")
# Fields of FinetuningConfig that only some tasks read.
SELECTIVE = (
    "text_columns",
    "label_column",
    "header",
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
    "tag_layer",
    *HEAD_FIELDS,
    *TEXT_TO_TEXT_FIELDS,
    *SIMILARITY_FIELDS,
    *RERANK_FIELDS,
)

_WINDOW_FIELDS = ("max_windows", "doc_stride")
_TEACHER_FIELDS = ("unlabelled_files", "distillation_weight", "distillation_temperature")
# Kinds of tasks that can also learn from the answers of a teacher.
TAUGHT = ("classification", "regression", "multi_label")


class Examples(list):
    """The examples of one file or of several files.

    Attributes:
        left_out: dict. Maps a description of skipped rows, such as "rows without a gold label", to their number.
        remarks: list of str. Lines for the log about how the files were read.
        sources: list or None. The source of each example, if the examples are a part that was divided by these
            sources. A few documents would otherwise look like single sentences.
    """

    def __init__(
        self, examples: Iterable[Any] = (), left_out: dict[str, int] | None = None, remarks: Iterable[str] = ()
    ):
        super().__init__(examples)
        self.left_out, self.remarks, self.sources = dict(left_out or {}), list(remarks), None

    def of(self, examples: Iterable[Any]) -> "Examples":
        """Makes Examples from other examples of the same files, with the same left_out and remarks."""
        return Examples(examples, self.left_out, self.remarks)

    def first(self, most: int) -> "Examples":
        """At most the first `most` examples; all examples if `most` is 0."""
        return self.of(self[:most]) if most else self

    def first_of_groups(self, most: int) -> "Examples":
        """At most the first `most` examples of each group; all examples if `most` is 0."""
        members = {}
        for example in self:
            members.setdefault(getattr(example, "group", ""), []).append(example)
        return self.of(itertools.chain.from_iterable(group[:most] for group in members.values())) if most else self

    def notes(self) -> list[str]:
        """Lines for the log about the rows that were left out, and about how the files were read."""
        return [*(f"{count:,} {what} were left out" for what, count in self.left_out.items()), *self.remarks]


@dataclasses.dataclass(frozen=True)
class Task:
    """One task.

    Attributes:
        name: The value of --task.
        summary: One line for the list of tasks.
        family: The module with the functions of this kind of answer; the package keras_bert_app.tasks.families lists
            these functions.
        kind: One of the kinds of the family, such as "classification".
        read: Function (path, run, has_labels) -> list of the family's examples. It raises UserError with file:line.
        files: dict split -> names or glob patterns. The task reads the first one that exists. A run also scores the
            splits whose names begin with "dev_", in addition to "dev". Only one file may fit a pattern, unless the
            pattern has {language} or {all}. {language} stands for the run's language, or for any language if the run
            names none. {source} stands for the run's source; see bound. {all} stands for any text. The task reads all
            files that fit such a pattern.
        metrics: Names in tasks.metrics. The first one chooses the best checkpoint.
        labels: Names of the classes in order, if the task fixes them.
        defaults: Fields of FinetuningConfig for which this task has its own defaults.
        tune: Function (dev examples, predictions) -> dict of the fields of FinetuningConfig that only decode reads,
            with the values that score best. All later predictions of the run use these values. None: no such field.
        part: Function (split, examples, run) -> the examples of the split, if one file holds several splits. None:
            every file holds one split.
        reads: The fields of SELECTIVE that this task reads, in addition to READS of its family.
        answer_files: dict name of an input file -> name under which the task's server expects the answers. All other
            answers go to predictions.tsv.
        value_range: (lowest, highest) number that the server accepts. () if the answers are no numbers or any number
            is valid.
        settle: Function (run, path of the training examples) -> FinetuningConfig. The function decides all settings
            that the flags left open. The task then reads all files with these settings. None: the flags leave
            nothing open.
        is_ordered: Whether the answer to a pair of texts depends on the order of the texts.
        metrics_of: Function (run) -> the metrics, if they depend on the run. None: they do not.
        baseline: Function (task, train_examples, examples, labels) -> (description, predictions) of a baseline without
            a model. None: the baseline of the family.
        can_score: Function (labelled example) -> whether its answer can have a score. None: every answer has one.
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
    metrics_of: Callable | None = None
    baseline: Callable | None = None
    can_score: Callable | None = None

    def settled(self, run: FinetuningConfig) -> FinetuningConfig:
        """The configuration that decides the settings which the flags left open; see the attribute settle."""
        if not self.settle:
            return run
        task = self if self.metrics_of else self.bound(run)  # metrics can depend on what is settled here
        return self.settle(run, task.path(run.data_dir, "train", run.language))

    def bound(self, run: FinetuningConfig) -> "Task":
        """The Task of a run, with its metrics and the names of its files.

        Names of files that have {source} get the run's source, or are left out without one.

        Args:
            run: FinetuningConfig.

        Raises:
            UserError: the run names neither a source nor the columns of a table, or both, or one language twice.
        """
        if self.metrics_of:
            return dataclasses.replace(self, metrics=self.metrics_of(run))
        if not any("{source}" in name for names in self.files.values() for name in names):
            return self
        if not (run.source or run.text_columns):
            raise UserError(
                "--source and --target are missing; give the endings of the files of texts, such as --source=de "
                "--target=en, or the columns of a table by --text_columns and --label_column"
            )
        _check_languages(run)
        source = glob.escape(run.source)
        files = {
            split: tuple(name.replace("{source}", source) for name in names if source or "{source}" not in name)
            for split, names in self.files.items()
        }
        return dataclasses.replace(self, files=files)

    def classes(self, example: Any) -> tuple[str, ...]:
        """The names of the classes of an example; () if it has none."""
        return self.family.classes(self, example)

    def check_options(self, run: FinetuningConfig, names: Collection[str] | None = None) -> None:
        """Checks that this task reads every field that differs from its default.

        Args:
            run: FinetuningConfig.
            names: Names of the fields that the user gave. None: check all fields.

        Raises:
            UserError: a field has no effect on this task, or two fields contradict each other.
        """
        defaults = {field.name: field.default for field in dataclasses.fields(run)}
        asked_for = [
            name for name in defaults if (names is None or name in names) and getattr(run, name) != defaults[name]
        ]
        for name in asked_for:
            self._check_option(run, name)
        if run.has_many_lengths and run.iterations_per_loop > 1:
            raise UserError(
                f"--iterations_per_loop={run.iterations_per_loop}: batches of different lengths run one per call; "
                "leave it out, or give --nolength_buckets"
            )

    def _check_option(self, run, name):
        """Raises UserError if this task does not read a field whose value is not the default."""
        if name == "dev_fraction" and self.has_file(run.data_dir, "dev"):
            dev_file = os.path.basename(self.path(run.data_dir, "dev"))
            raise UserError(
                f"--dev_fraction={run.dev_fraction:g}: {run.data_dir} has {dev_file} for dev; leave out "
                "--dev_fraction, or remove the file"
            )
        if name in SELECTIVE and name not in (*self.family.READS, *self.reads):
            raise UserError(f"--{name}={_as_flag(getattr(run, name))}: task {self.name} does not read it; leave it out")
        if name in _WINDOW_FIELDS and "long_documents" in self.family.READS and run.long_documents not in WINDOWED:
            raise UserError(
                f"--{name}={getattr(run, name)}: --long_documents={run.long_documents} has one row for each text; "
                f"leave out --{name}, or give --long_documents={' or '.join(WINDOWED)}"
            )
        if name == "teacher" and self.kind not in (*TAUGHT, SIMILARITY):
            raise UserError(
                f"--teacher={run.teacher}: task {self.name} cannot learn from a teacher; leave it out: a teacher "
                f"is for tasks of {', '.join(kind.replace('_', '-') for kind in TAUGHT)}, or vectors"
            )
        if name in _TEACHER_FIELDS and self.kind == SIMILARITY:
            raise UserError(
                f"--{name}={_as_flag(getattr(run, name))}: vectors are learned from the teacher alone, from the texts "
                "of the training file; leave it out"
            )
        if name in _TEACHER_FIELDS and not run.teacher:
            raise UserError(
                f"--{name}={_as_flag(getattr(run, name))}: there is no --teacher to learn from; give a teacher, or "
                f"leave out --{name}"
            )
        if name == "swap_pairs" and self.is_ordered:
            raise UserError(
                f"--swap_pairs: the answers of task {self.name} depend on the order of the texts; leave it out"
            )
        if name == "distillation_temperature" and self.kind == "regression":
            raise UserError(
                f"--{name}={getattr(run, name)}: task {self.name} learns numbers, which have no temperature; leave it "
                "out"
            )

    def path(self, data_dir: str, split: str, language: str = "", dev_fraction: float = 0.0) -> str:
        """The path of a split's file, or a glob pattern; the arguments are those of split_files.path_of."""
        return split_files.path_of(self.name, self.files, data_dir, split, language, dev_fraction)

    def has_file(self, data_dir: str, split: str) -> bool:
        """Whether a directory has a file of a split."""
        return split_files.has_file(self.files, data_dir, split)

    def extra_splits(self, data_dir: str) -> list[str]:
        """The splits other than SPLITS whose files exist. At its end, a run scores those that begin with "dev"."""
        return [split for split in self.files if split not in SPLITS and self.has_file(data_dir, split)]

    def read_split(
        self, data_dir: str, split: str, run: FinetuningConfig, has_labels: bool = True, most: int = 0
    ) -> Examples:
        """Reads the examples of a split.

        Args:
            data_dir: str. Directory of the task's files.
            split: str. A key of files.
            run: FinetuningConfig.
            has_labels: bool. Whether the file must have labels.
            most: int. Number of examples to keep, from the first one on; 0 for all.

        Raises:
            UserError: the file is missing, is faulty, or holds no example.
        """
        # Training and the choice of the best weights use the run's language only; scores cover all languages.
        language = run.language if split in ("train", "dev") else ""
        path = self.path(data_dir, split, language, run.dev_fraction)
        return self.read_file(path, run, has_labels, most, split)

    def read_file(
        self, path: str, run: FinetuningConfig, has_labels: bool = True, most: int = 0, split: str | None = None
    ) -> Examples:
        """Reads the examples of a file, or of all files that fit a pattern.

        Args:
            path: str. A file or a glob pattern.
            run: FinetuningConfig.
            has_labels: bool. Whether the file must have labels.
            most: int. Number of examples to keep, from the first one on; 0 for all.
            split: str or None. The split whose part of the file is taken; None for the whole file.

        Raises:
            UserError: see read_split.
        """
        paths = [path] if os.path.exists(path) else sorted(glob.glob(path))
        if not paths:
            raise UserError(f"{path}: there is no such file")
        if os.path.isdir(path):
            raise UserError(f"{path}: is a directory; give one file of examples of task {self.name}")
        examples, left_out, remarks = [], {}, {}
        for each in paths:
            examples_of_file = self.read(each, run, has_labels)
            examples += examples_of_file
            remarks.update(dict.fromkeys(getattr(examples_of_file, "remarks", ())))
            for what, count in getattr(examples_of_file, "left_out", {}).items():
                left_out[what] = left_out.get(what, 0) + count
        if split and self.part:
            examples = self.part(split, examples, run)
        if not examples:
            without = "".join(f"; left out: {count:,} {what}" for what, count in left_out.items())
            raise UserError(f"{path}: holds no example of task {self.name}{without}")
        if split in ("train", "dev") and run.dev_fraction:
            examples = self._part_of_training_examples(path, split, examples, run.dev_fraction)
        return Examples(examples, left_out, remarks).first(most)

    def _part_of_training_examples(self, path, split, examples, share):
        """The examples of one split: dev has the held-out examples, and train has the other examples."""
        is_dev = sampling.held_out(examples, share, self.classes, self.family.sources(examples))
        part = [
            example for example, is_held_out in zip(examples, is_dev, strict=True) if is_held_out == (split == "dev")
        ]
        if not part:
            raise UserError(
                f"--dev_fraction={share:g}: {path} has {len(examples):,} examples of too few different texts to "
                f"divide, so that no example is left for {split}; give separate files for training and dev"
            )
        return part


def head_options(run: FinetuningConfig) -> dict[str, Any]:
    """The fields of a Head that do not depend on the kind of answer.

    Args:
        run: FinetuningConfig.
    """
    return {
        "layers": run.layers,
        "has_layer_norm": run.mix_layer_norm,
        "bilstm_units": run.bilstm_units,
        "token_vector_size": run.token_vector_size,
        "states_at": run.states_at,
        "dropout": run.classifier_dropout,
    }


def names_in_answers(examples: Sequence[Any]) -> list[str]:
    """The names of examples in files of answers.

    Groups may use the same names. If there are several groups, the name of an example with a group is
    GROUP:NAME.
    """
    groups = [getattr(example, "group", "") for example in examples]
    return (
        [f"{group}:{example.guid}" if group else example.guid for group, example in zip(groups, examples, strict=True)]
        if len(set(groups)) > 1
        else [example.guid for example in examples]
    )


def distinct_names(examples: Sequence[Any]) -> list[str]:
    """The names of examples in one file with the answers to several files, which may use the same names.

    A name that occurs again has a number behind it: "NAME (2)", "NAME (3)" and so on.

    Args:
        examples: the examples of all files.
    """
    names = names_in_answers(examples)
    known, numbers = set(names), {}
    for place, name in enumerate(names):
        numbers[name] = number = numbers.get(name, 0) + 1
        if number == 1:
            continue
        while f"{name} ({number})" in known:
            number += 1
        numbers[name], names[place] = number, f"{name} ({number})"
        known.add(names[place])
    return names


def _as_flag(value):
    return ",".join(value) if isinstance(value, tuple) else value


def _check_languages(run):
    """Raises UserError if --source and --target do not name the endings of two files."""
    for name, ending in (("source", run.source), ("target", run.target)):
        if ending.startswith("."):
            raise UserError(f"--{name}={ending}: give the ending without the dot: {ending.lstrip('.')}")
    if run.source and run.text_columns:
        raise UserError(
            f"--source={run.source} and --text_columns={','.join(run.text_columns)} were both given; --source is for "
            "files such as train.de, --text_columns for tables; leave out one of them"
        )
    if run.source and run.source == run.target:
        raise UserError(f"--source={run.source} --target={run.target}: both are the same files; give two languages")
