"""Parts that all exports share: inputs of signatures, variables, and descriptions."""

import dataclasses

import tensorflow as tf

from keras_bert_app.modeling.execution import PLAIN, Execution

_IDS = ("input_word_ids", "input_mask", "input_type_ids")
# FROM_IDS has one row for each example, FROM_GROUPS has several rows for each example.
FROM_IDS = [tf.TensorSpec([None, None], tf.int32, name=name) for name in _IDS]
FROM_GROUPS = [tf.TensorSpec([None, None, None], tf.int32, name=name) for name in _IDS]


def text_spec(name: str = "text") -> tf.TensorSpec:
    """Describes an input that is a batch of strings.

    Args:
        name: str. The name of the input.

    Returns:
        tf.TensorSpec of string [B].
    """
    return tf.TensorSpec([None], tf.string, name=name)


def checked_ids(config, input_word_ids, input_mask, input_type_ids, execution: Execution = PLAIN) -> dict:
    """Checks rows of ids in graph. Numbers outside of the tables would give meaningless answers.

    Args:
        config: BertConfig. The shape of the model.
        input_word_ids: int32 [..., S]. The ids of the pieces.
        input_mask: int32 [..., S]. 1 for a piece, 0 for padding.
        input_type_ids: int32 [..., S]. The segment of each piece.
        execution: Execution. Only graphs of plain ops contain the checks, because LiteRT has no op for them.

    Returns:
        dict of the three tensors, which are the inputs of an encoder.
    """
    inputs = {"input_word_ids": input_word_ids, "input_mask": input_mask, "input_type_ids": input_type_ids}
    if execution is not PLAIN:
        return inputs
    shape, most = tf.shape(input_word_ids), config.max_position_embeddings
    checks = [tf.debugging.Assert(shape[-1] <= most, [f"expected rows of at most {most} tokens; they have", shape[-1]])]
    for (name, values), size in zip(inputs.items(), (config.vocab_size, 2, config.type_vocab_size), strict=True):
        checks += [
            tf.debugging.Assert(
                tf.reduce_all(tf.shape(values) == shape),
                [f"{name}: expected the shape of input_word_ids,", shape, "but the shape is", tf.shape(values)],
            ),
            inside(name, values, size),
        ]
    with tf.control_dependencies(checks):
        return {name: tf.identity(values) for name, values in inputs.items()}


def inside(name: str, values, size) -> tf.Operation:
    """Makes the op that checks that numbers are from 0 to size - 1.

    Args:
        name: str. The name of the input.
        values: int32 tensor. The numbers.
        size: int or int32 scalar. The number of rows of a table, or of places of a row.

    Returns:
        tf.Operation that fails with an error message if a number is outside.
    """
    return tf.debugging.Assert(
        tf.reduce_all((values >= 0) & (values < size)),
        [
            f"{name}: expected numbers from 0 to",
            size - 1,
            "but they go from",
            tf.reduce_min(values),
            "to",
            tf.reduce_max(values),
        ],
    )


def variables(model) -> list[tf.Variable]:
    """Lists the TensorFlow variables of a model.

    A module keeps these variables, because a Keras object would add its Python objects to the SavedModel.

    Args:
        model: Keras model or layer.

    Returns:
        list of tf.Variable.
    """
    return [variable.value for variable in model.weights]


def available_outputs(outputs: dict, *names: str) -> dict:
    """Selects the outputs that the model has. A part that was never trained or loaded gives no output.

    Args:
        outputs: dict from name to tensor.
        *names: str. The names to select.

    Returns:
        dict from name to tensor.
    """
    return {name: outputs[name] for name in names if name in outputs}


def shape_text(config) -> str:
    """Writes the line of a model card about the shape of a model.

    Args:
        config: BertConfig. The configuration of the model.

    Returns:
        str.
    """
    casing = "uncased" if config.do_lower_case else "cased" if config.tokenizer == "wordpiece" else "symbols"
    if config.architecture == "lstm_lm":
        directions = "both directions" if config.is_bidirectional else "one direction"
        return (
            f"{config.num_hidden_layers} layers of LSTMs x {config.hidden_size}, {config.intermediate_size} units, "
            f"{directions}, vocabulary of {config.vocab_size:,}, {casing}"
        )
    heads = sorted(set(config.head_counts)) or [config.num_attention_heads]  # An encoder may have no layer.
    return (
        f"{config.num_hidden_layers} layers x {config.hidden_size}, "
        f"{' to '.join(map(str, (heads[0], heads[-1])[: len(heads)]))} "
        f"heads, vocabulary of {config.vocab_size:,}, {casing}"
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

    Returns:
        About.
    """
    return About(finetuned.task.kind, examples, finetuned.task.name, finetuned.labels, finetuned.run.max_seq_length)
