"""Data: the examples of a fine-tuning run and their Features."""

import dataclasses
from collections.abc import Collection

import numpy as np

from keras_bert_app.config.finetuning_config import FinetuningConfig
from keras_bert_app.errors import UserError
from keras_bert_app.tasks import registry
from keras_bert_app.tasks.features import Features
from keras_bert_app.tasks.task import Examples, Task


@dataclasses.dataclass
class Data:
    """The examples of a run and their features.

    Attributes:
        task: Task.
        labels: Names of the model's outputs; () for outputs without names.
        train_examples: Training examples with labels.
        unlabelled_examples: Training examples without labels, which a teacher answers.
        dev_examples: The dev examples.
        train: Features of train_examples, followed by those of unlabelled_examples. The labels of the latter are
            placeholders until transfer.learn_from sets them.
        dev: Features of dev_examples.
        others: dict split -> (examples, Features) of the additional dev splits whose files exist.
    """

    task: Task
    labels: tuple
    train_examples: list
    unlabelled_examples: list
    dev_examples: list
    train: Features
    dev: Features
    others: dict

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
    task = registry.find(run.task)
    task.check_options(run, asked_for)
    train_examples = task.read_split(run.data_dir, "train", run)
    labels = task.family.label_names(task, train_examples, run)
    train_examples = train_examples.first(run.max_train_examples)  # the labels come from all training examples
    unlabelled = _unlabelled_examples(run, task, train_examples)
    if run.swap_pairs:
        train_examples, unlabelled = with_swapped_pairs(train_examples, task), with_swapped_pairs(unlabelled, task)
    dev_examples = task.read_split(run.data_dir, "dev", run, most=run.max_eval_examples)
    others = {
        split: task.read_split(run.data_dir, split, run).first_of_groups(run.max_eval_examples)
        for split in task.extra_splits(run.data_dir)
        if split.startswith("dev")
    }

    def featurized(examples):
        return task.family.featurize(task, examples, tokenizer, run, labels)

    train = featurized(Examples([*train_examples, *unlabelled], train_examples.left_out))
    train.notes += [f"{len(unlabelled):,} more without labels"] if unlabelled else []
    return Data(
        task,
        labels,
        train_examples,
        unlabelled,
        dev_examples,
        train,
        featurized(dev_examples),
        {split: (examples, featurized(examples)) for split, examples in others.items()},
    )


def _unlabelled_examples(run, task, train_examples):
    """The examples of --unlabelled_files, with the first training label as a placeholder."""
    return Examples(
        dataclasses.replace(example, label=train_examples[0].label)
        for path in run.unlabelled_files
        for example in task.read_file(path, run, has_labels=False)
    )


def with_swapped_pairs(examples: Examples, task: Task) -> Examples:
    """The examples, followed by every pair in the other order.

    Args:
        examples: Examples of pairs of texts.
        task: Task. Its name is for the error message.

    Raises:
        UserError: an example is no pair.
    """
    if single := next((example for example in examples if getattr(example, "text_b", None) is None), None):
        raise UserError(f"--swap_pairs: {task.name} is not over pairs of texts ({single.place}); leave it out")
    return Examples(
        [
            *examples,
            *(dataclasses.replace(example, text_a=example.text_b, text_b=example.text_a) for example in examples),
        ],
        examples.left_out,
    )
