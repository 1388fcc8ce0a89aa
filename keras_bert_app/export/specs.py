"""Parts that all exports share: inputs of signatures, variables, and descriptions."""

import dataclasses
import inspect
from collections.abc import Callable, Sequence

import tensorflow as tf

from keras_bert_app.config.bert_config import BertConfig
from keras_bert_app.modeling.execution import PLAIN, Execution


def ids_specs(config: BertConfig, has_groups: bool = False) -> list[tf.TensorSpec]:
    """Describes the inputs of a signature over rows of ids.

    Args:
        config: BertConfig. The configuration of the model.
        has_groups: bool. Whether an example has several rows.

    Returns:
        list of tf.TensorSpec in the order of config.input_names: int32 [B, S], or [B, G, S] with groups; float32
        [B, S, width] for a channel of vectors.
    """
    widths = {channel.input_name: channel.width for channel in config.channels if channel.width}
    return [
        tf.TensorSpec(
            [None] * (2 + has_groups) + ([widths[name]] if name in widths else []),
            tf.float32 if name in widths else tf.int32,
            name=name,
        )
        for name in config.input_names
    ]


def text_spec(name: str = "text") -> tf.TensorSpec:
    """Describes an input that is a batch of strings.

    Args:
        name: str. The name of the input.

    Returns:
        tf.TensorSpec of string [B].
    """
    return tf.TensorSpec([None], tf.string, name=name)


def takes_rows(specs: Sequence[tf.TensorSpec]) -> Callable[[Callable], tf.types.experimental.PolymorphicFunction]:
    """Makes a decorator for signatures whose inputs depend on the configuration.

    Args:
        specs: list of tf.TensorSpec. The inputs.

    Returns:
        Function that makes a tf.function of a function of the inputs in this order. The arguments of the tf.function
        have the names of the specs.
    """
    parameters = [inspect.Parameter(spec.name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for spec in specs]

    def make(call):
        def named(*rows):
            return call(*rows)

        named.__signature__ = inspect.Signature(parameters)  # tf.function reads it
        return tf.function(named, input_signature=specs, autograph=False)

    return make


def checked_ids(config: BertConfig, rows: Sequence, execution: Execution = PLAIN) -> dict:
    """Checks rows of ids in graph. Numbers outside of the tables would give meaningless answers.

    Args:
        config: BertConfig. The shape of the model.
        rows: the inputs that ids_specs describes, in their order: the ids of the pieces, the mask (1 for a piece, 0 for
            padding), the segment of each piece, and the inputs of channels and positions.
        execution: Execution. Only graphs of plain ops contain the checks, because LiteRT has no op for them.

    Returns:
        dict of the tensors, which are the inputs of an encoder.
    """
    inputs = dict(zip(config.input_names, rows, strict=True))
    if execution is not PLAIN:
        return inputs
    shape, most = tf.shape(inputs["input_word_ids"]), config.max_position_embeddings
    checks = [tf.debugging.Assert(shape[-1] <= most, [f"expected rows of at most {most} tokens; they have", shape[-1]])]
    sizes = {"input_word_ids": config.vocab_size, "input_mask": 2, "input_type_ids": config.type_vocab_size}
    sizes |= {"input_positions": most} | {channel.input_name: channel.size + 1 for channel in config.channels}
    for name, values in inputs.items():
        is_vector = values.dtype.is_floating
        own_shape = tf.shape(values)[:-1] if is_vector else tf.shape(values)
        checks.append(
            tf.debugging.Assert(
                tf.reduce_all(own_shape == shape),
                [f"{name}: expected the shape of input_word_ids,", shape, "but the shape is", own_shape],
            )
        )
        if not is_vector:
            checks.append(inside(name, values, sizes[name]))
    with tf.control_dependencies(checks):
        return {name: tf.identity(values) for name, values in inputs.items()}


def example_row(config: BertConfig, ids: Sequence[int]) -> dict:
    """Makes the example of a request with one row of ids.

    Args:
        config: BertConfig. The shape of the model.
        ids: list of int.

    Returns:
        dict from the name of an input to a list with one row.
    """
    row = {"input_word_ids": [list(ids)], "input_mask": [[1] * len(ids)]}
    vectors = {channel.input_name: [[[0.0] * channel.width] * len(ids)] for channel in config.channels if channel.width}
    return {name: [[0] * len(ids)] for name in config.input_names} | row | vectors


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
