"""The labelled examples of a fine-tuning run, and what a model is given of them."""

import dataclasses

from keras_bert_app.errors import UserError
from keras_bert_app.tasks import registry
from keras_bert_app.tasks.task import Examples


@dataclasses.dataclass
class Data:
    """The labelled examples of a run and what became of them.

    Attributes:
        others: dict of the further dev splits that are there -> (examples, Features).
    """

    task: object
    labels: tuple
    train_examples: list
    dev_examples: list
    train: object
    dev: object
    others: dict


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
    if run.swap_pairs:
        train_examples = with_swapped_pairs(train_examples, task)
    dev_examples = task.read_split(run.data_dir, "dev", run, most=run.max_eval_examples)
    others = {split: task.read_split(run.data_dir, split, run).first_of_groups(run.max_eval_examples) for split in task.extra_splits(run.data_dir)
              if split.startswith("dev")}

    def featurized(examples):
        return task.family.featurize(task, examples, tokenizer, run, labels)

    return Data(task, labels, train_examples, dev_examples, featurized(train_examples), featurized(dev_examples),
                {split: (examples, featurized(examples)) for split, examples in others.items()})


def with_swapped_pairs(examples, task):
    """Examples, then each pair in the other order.

    Raises:
        UserError: they are no pairs.
    """
    if single := next((example for example in examples if getattr(example, "text_b", None) is None), None):
        raise UserError(f"--swap_pairs: {task.name} is not over pairs of texts ({single.place}); leave it out")
    return Examples([*examples, *(dataclasses.replace(example, text_a=example.text_b, text_b=example.text_a)
                                  for example in examples)], examples.left_out)
