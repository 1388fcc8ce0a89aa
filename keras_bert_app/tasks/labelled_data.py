"""Data: the examples of a fine-tuning run and their Features."""

import contextlib
import dataclasses
from collections.abc import Collection, Sequence

import numpy as np

from keras_bert_app.config.finetuning_config import FinetuningConfig
from keras_bert_app.errors import UserError
from keras_bert_app.tasks import dev_halves, registry, sampling
from keras_bert_app.tasks.families import ranking_scores, vector_checks
from keras_bert_app.tasks.features import Features
from keras_bert_app.tasks.task import RERANK, SIMILARITY, Examples, Task

_SHOWN_CLASSES = 6


@dataclasses.dataclass
class Data:
    """The examples of a run and their features.

    Attributes:
        task: Task.
        labels: Names of the model's outputs; () for outputs without names.
        train_examples: Training examples with labels.
        unlabelled_examples: Training examples without labels, which a teacher answers.
        dev_examples: The examples that choose the best weights.
        reported_examples: The examples that the run scores once, at its end, with the best weights.
        reported_on: Description of reported_examples: a half of dev, or the path of a file.
        train: Features of train_examples, followed by those of unlabelled_examples. The labels of the unlabelled
            examples are placeholders until transfer.learn_from sets them.
        dev: Features of dev_examples.
        reported: Features of reported_examples.
        others: dict split -> (examples, Features) of the additional dev splits whose files exist. They have no
            example with a text of dev_examples.
        warnings: lines about classes without examples.
    """

    task: Task
    labels: tuple
    train_examples: list
    unlabelled_examples: list
    dev_examples: list
    reported_examples: list
    reported_on: str
    train: Features
    dev: Features
    reported: Features
    others: dict
    warnings: Sequence[str] = ()

    def known_labels(self) -> np.ndarray:
        """array [N, ...]: the labels of train_examples."""
        return self.train.labels["labels"][: len(self.train_examples)]


def load_data(run: FinetuningConfig, tokenizer, asked_for: Collection[str] | None = None) -> Data:
    """Reads the examples of a run and makes their features.

    Args:
        run: FinetuningConfig.
        tokenizer: A tokenizer of pipelines.wordpiece.
        asked_for: Names of the fields that the task must read. None: all fields that differ from their defaults.

    Raises:
        UserError: a file is missing or faulty; the message has file and line.
    """
    task = registry.find(run.task).bound(run)
    task.check_options(run, asked_for)
    all_examples = task.read_split(run.data_dir, "train", run)
    labels = task.family.label_names(task, all_examples, run)
    train_examples = drawn_examples(all_examples, task, run)
    unlabelled = _unlabelled_examples(run, task, train_examples)
    if run.swap_pairs:
        train_examples, unlabelled = with_swapped_pairs(train_examples, task), with_swapped_pairs(unlabelled, task)
    dev_examples = task.read_split(run.data_dir, "dev", run, most=run.max_eval_examples)
    warnings = _warnings_of_missing_classes(task, run, labels, all_examples, train_examples, dev_examples)
    dev_examples, reported_examples, reported_on = choosing_and_reported(run, task, dev_examples)
    others = {
        split: without(task, task.read_split(run.data_dir, split, run), dev_examples).first_of_groups(
            run.max_eval_examples
        )
        for split in task.extra_splits(run.data_dir)
        if split.startswith("dev")
    }

    def featurized(examples):
        return task.family.featurize(task, examples, tokenizer, run, labels)

    train = featurized(train_examples.of([*train_examples, *unlabelled]))
    if run.max_train_examples and run.max_train_examples < len(all_examples):
        train.notes.append(f"drawn from {len(all_examples):,} by --seed={run.seed}")
    train.notes += [f"{len(unlabelled):,} more without labels"] if unlabelled else []
    reported = featurized(reported_examples)
    uses = [
        (train_examples, "are training examples"),
        *([(dev_examples, "chose the weights")] if run.test_file else []),
    ]
    for others_of_run, use in uses:
        if num_seen := dev_halves.seen(task, reported_examples, others_of_run):
            reported.notes.append(f"{num_seen:,} of the examples {use}, too")
    return Data(
        task,
        labels,
        train_examples,
        unlabelled,
        dev_examples,
        reported_examples,
        reported_on,
        train,
        featurized(dev_examples),
        reported,
        {split: (examples, featurized(examples)) for split, examples in others.items() if examples},
        warnings,
    )


def choosing_and_reported(run: FinetuningConfig, task: Task, dev_examples: Examples) -> tuple[Examples, Examples, str]:
    """Divides labelled examples by their use: those that choose the best weights, and those that are reported.

    Args:
        run: FinetuningConfig. If it has a test_file, the examples of that file are reported.
        task: Task.
        dev_examples: the examples of dev.

    Returns:
        (examples that choose the best weights, examples to report, description of the examples to report).

    Raises:
        UserError: dev has only one example, a part has no example that can be scored, or the test file cannot be read.
    """
    if run.test_file:
        _check_scores(task, run, dev_examples, "")
        return dev_examples, task.read_file(run.test_file, run, split="test"), run.test_file
    halves = dev_halves.split(task, dev_examples)
    for half, name in zip(halves, (dev_halves.CHOOSING, dev_halves.REPORTED), strict=True):
        _check_scores(task, run, half, name)
    return *halves, dev_halves.REPORTED


def _check_scores(task, run, examples, half):
    """Raises UserError if a part of dev has no score, so that the run does not end at an evaluation."""
    if task.kind == SIMILARITY:
        vector_checks.check_judged(examples, run, half)
    if not task.can_score:
        return
    path = examples[0].place.rpartition(":")[0]
    advice = "give more queries with both" + (", or --test_file" if half else "")
    if run.max_eval_examples:
        advice += f", or raise --max_eval_examples={run.max_eval_examples}, which keeps the first queries"
    ranking_scores.check(examples, f"{path}, {half}" if half else path, advice)


def without(task: Task, examples: Examples, chosen: Examples) -> Examples:
    """The examples whose sources do not occur among the examples that chose the weights."""
    known = set(task.family.sources(chosen))
    sources = task.family.sources(examples)
    return examples.of(example for example, source in zip(examples, sources, strict=True) if source not in known)


def drawn_examples(examples: Examples, task: Task, run: FinetuningConfig) -> Examples:
    """Draws --max_train_examples training examples by the seed of a run. Each class keeps its share.

    For a reranker the function draws whole queries.

    Args:
        examples: all training examples.
        task: Task.
        run: FinetuningConfig.

    Raises:
        UserError: a reranker cannot learn from the queries that are drawn.
    """
    if task.kind != RERANK:
        return examples.of(sampling.drawn(examples, run.max_train_examples, run.seed, task.classes))
    drawn = sampling.drawn_groups(examples, run.max_train_examples, run.seed, task.family.sources(examples))
    if not drawn:
        raise UserError(
            f"--max_train_examples={run.max_train_examples}: every query has more examples; whole queries are drawn, "
            "so give a higher number"
        )
    labels = {label for example in drawn for label in example.labels}
    if len(labels) < 2:
        raise UserError(
            f"--max_train_examples={run.max_train_examples}: all {len(drawn):,} documents that --seed={run.seed} draws "
            f"have the label {min(labels):g}; give a higher number, so that relevant documents and others are drawn"
        )
    return examples.of(drawn)


def _warnings_of_missing_classes(task, run, labels, all_examples, train_examples, dev_examples):
    """Warnings about classes without a training example or without a dev example."""
    names = sorted({name for example in all_examples for name in task.classes(example)})
    names = list(labels) if set(names) <= set(labels) else names
    raise_train = "; raise --max_train_examples" if run.max_train_examples else ""
    raise_dev = "; raise --max_eval_examples, which keeps the first examples" if run.max_eval_examples else ""
    lines = []
    for split, examples, consequence in (
        ("training", train_examples, f"the model does not learn them{raise_train}"),
        ("dev", dev_examples, f"the dev scores do not count them{raise_dev}"),
    ):
        if absent := sampling.missing(names, examples, task.classes):
            some = f"{', '.join(absent[:_SHOWN_CLASSES])}{' and others' if len(absent) > _SHOWN_CLASSES else ''}"
            lines.append(
                f"warning: {len(absent):,} of {len(names):,} classes have no {split} example ({some}): {consequence}"
            )
    return lines


def _unlabelled_examples(run, task, train_examples):
    """The examples of --unlabelled_files, with the first training label as a placeholder.

    Raises:
        UserError: an unlabelled example has the text of an example of dev or test.
    """
    examples = [example for path in run.unlabelled_files for example in task.read_file(path, run, has_labels=False)]
    _check_not_scored(run, task, examples)
    return Examples(dataclasses.replace(example, label=train_examples[0].label) for example in examples)


def _check_not_scored(run, task, examples):
    """Raises UserError if examples have the texts of scored examples. The names of the files do not matter."""
    scored = {}
    for split in (split for split in task.files if split != "train") if examples else ():
        if split == "dev" and run.dev_fraction or task.has_file(run.data_dir, split):
            scored_examples = _scored_examples(run, task, split)
            for source, example in zip(task.family.sources(scored_examples), scored_examples, strict=True):
                scored.setdefault(source, (split, example.place))
    if examples and run.test_file:
        test = task.read_file(run.test_file, run, split="test")
        for source, example in zip(task.family.sources(test), test, strict=True):
            scored.setdefault(source, ("test", example.place))
    sources = task.family.sources(examples)
    shared = [
        (source, example) for source, example in zip(sources, examples, strict=True) if source in scored and source
    ]
    if shared:
        (source, first), (split, place) = shared[0], scored[shared[0][0]]
        raise UserError(
            f"--unlabelled_files: {len(shared):,} of {len(examples):,} texts are scored, too; the first is "
            f"{first.place}, the same text as {place} of {split}; remove the texts of dev and test"
        )


def _scored_examples(run, task, split):
    """The examples of a split with or without labels; no examples if the task cannot read the files."""
    for has_labels in (True, False):
        with contextlib.suppress(UserError):
            return task.read_split(run.data_dir, split, run, has_labels)
    return Examples()


def with_swapped_pairs(examples: Examples, task: Task) -> Examples:
    """The examples, followed by every pair in the other order.

    Args:
        examples: Examples of pairs of texts.
        task: Task. The error message has its name.

    Raises:
        UserError: an example is not a pair, or the task has other examples.
    """
    if examples and not hasattr(examples[0], "text_b"):
        raise UserError(f"--swap_pairs: task {task.name} has no pairs of equal roles; leave it out")
    if single := next((example for example in examples if example.text_b is None), None):
        raise UserError(f"--swap_pairs: task {task.name} has a single text ({single.place}); leave it out")
    swapped = [dataclasses.replace(example, text_a=example.text_b, text_b=example.text_a) for example in examples]
    return examples.of([*examples, *swapped])
