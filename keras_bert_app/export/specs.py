"""What the functions of exports take, the variables that they hold, and what is told of them."""

import dataclasses

import tensorflow as tf

_IDS = ("input_word_ids", "input_mask", "input_type_ids")
# Rows, and rows of which several belong to one example.
FROM_IDS = [tf.TensorSpec([None, None], tf.int32, name=name) for name in _IDS]
FROM_GROUPS = [tf.TensorSpec([None, None, None], tf.int32, name=name) for name in _IDS]


def text_spec(name="text"):
    """A batch of strings."""
    return tf.TensorSpec([None], tf.string, name=name)


def variables(model):
    """The variables alone: a Keras object would drag its Python side into the SavedModel."""
    return [variable.value for variable in model.weights]


def shape_text(config):
    """What a model card tells of a model's shape. Args: config: BertConfig."""
    heads = sorted(set(config.head_counts))
    return (
        f"{config.num_hidden_layers} layers x {config.hidden_size}, {' to '.join(map(str, (heads[0], heads[-1])[: len(heads)]))} "
        f"heads, vocabulary of {config.vocab_size:,}, {'uncased' if config.do_lower_case else 'cased'}"
    )


@dataclasses.dataclass(frozen=True)
class About:
    """What export.json tells of an export.

    Attributes:
        kind: what it answers, such as "fill_mask" or "classification". examples: dict signature -> dict input -> values of a
            small batch, for people, and for servers to warm up with. task, labels, max_seq_length: where there are any;
            the labels stand in the order of the outputs.
    """

    kind: str
    examples: dict
    task: str = ""
    labels: tuple = ()
    max_seq_length: int = 0


def about_run(finetuned, examples):
    """What is told of the export of a fine-tuned run. Args: finetuned: tasks.scoring.FinetunedRun."""
    return About(finetuned.task.kind, examples, finetuned.task.name, finetuned.labels, finetuned.run.max_seq_length)
