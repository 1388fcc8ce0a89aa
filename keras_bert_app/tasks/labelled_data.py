"""The examples of a fine-tuning run, and what a model is given of them."""

import dataclasses

from keras_bert_app.errors import UserError
from keras_bert_app.tasks import registry
from keras_bert_app.tasks.task import Examples


@dataclasses.dataclass
class Data:
    """The examples of a run and what became of them.

    Attributes:
        train_examples: those with labels. unlabelled_examples: others, for which a teacher answers.
        train: Features of the former and, after them, of the latter, whose labels mean nothing before transfer.learn_from.
        others: dict of the further dev splits that are there -> (examples, Features).
    """

    task: object
    labels: tuple
    train_examples: list
    unlabelled_examples: list
    dev_examples: list
    train: object
    dev: object
    others: dict

    def known_labels(self):
        """array [N, ...]: what the training examples with labels are to be answered with."""
        return self.train.labels["labels"][: len(self.train_examples)]


def load_data(run, tokenizer, asked_for=None):
    """Data of a FinetuningConfig.

    Args:
        asked_for: names of the fields whose values the task must read; None for all.

    Raises:
        UserError: a file that is missing or faulty, by file and line.
    """
    task = registry.find(run.task)
    task.check_options(run, asked_for)
    train_examples = task.read_split(run.data_dir, "train", run)
    labels = task.family.label_names(task, train_examples, run)
    train_examples = train_examples.first(run.max_train_examples)  # the labels are those of all
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
    """The examples of --unlabelled_files, with the label of another that holds the place of the teacher's answer."""
    return Examples(
        dataclasses.replace(example, label=train_examples[0].label)
        for path in run.unlabelled_files
        for example in task.read_file(path, run, has_labels=False)
    )


def with_swapped_pairs(examples, task):
    """Examples, then each pair in the other order.

    Raises:
        UserError: they are no pairs.
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
