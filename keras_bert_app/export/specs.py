"""Parts that all exports share: inputs of signatures, variables, and descriptions."""

import dataclasses

import tensorflow as tf

_IDS = ("input_word_ids", "input_mask", "input_type_ids")
# One row for an example, and several rows for an example.
FROM_IDS = [tf.TensorSpec([None, None], tf.int32, name=name) for name in _IDS]
FROM_GROUPS = [tf.TensorSpec([None, None, None], tf.int32, name=name) for name in _IDS]


def text_spec(name: str = "text") -> tf.TensorSpec:
    """Describes an input that is a batch of strings.

    Args:
        name: str. The name of the input.
    """
    return tf.TensorSpec([None], tf.string, name=name)


def variables(model) -> list[tf.Variable]:
    """Lists the TensorFlow variables of a model.

    A Keras object would put its Python side into the SavedModel.

    Args:
        model: a Keras model or layer.
    """
    return [variable.value for variable in model.weights]


def available_outputs(outputs: dict, *names: str) -> dict:
    """Selects those outputs that the model has. A part that was never trained or loaded gives no output.

    Args:
        outputs: dict from name to tensor.
        *names: str. The names to select.
    """
    return {name: outputs[name] for name in names if name in outputs}


def shape_text(config) -> str:
    """Writes the line of a model card about the shape of a model.

    Args:
        config: BertConfig. The shape.
    """
    heads = sorted(set(config.head_counts))
    return (
        f"{config.num_hidden_layers} layers x {config.hidden_size}, "
        f"{' to '.join(map(str, (heads[0], heads[-1])[: len(heads)]))} "
        f"heads, vocabulary of {config.vocab_size:,}, {'uncased' if config.do_lower_case else 'cased'}"
    )


@dataclasses.dataclass(frozen=True)
class About:
    """The content of export.json: the description of an export.

    Attributes:
        kind: str. The kind of answers, such as "fill_mask" or "classification".
        examples: dict from signature to dict from input to the values of a small batch. People read the examples, and
            servers warm up with them.
        task: str. The name of the task, or "".
        labels: tuple of str. The labels in the order of the outputs, or ().
        max_seq_length: int. The most tokens of a row, or 0.
    """

    kind: str
    examples: dict
    task: str = ""
    labels: tuple = ()
    max_seq_length: int = 0


def about_run(finetuned, examples: dict) -> About:
    """Describes the export of a fine-tuned run.

    Args:
        finetuned: tasks.scoring.FinetunedRun. The run.
        examples: dict. See About.
    """
    return About(finetuned.task.kind, examples, finetuned.task.name, finetuned.labels, finetuned.run.max_seq_length)
