"""What the training step's own kernels take against TensorFlow's ops: each part forward and backward, both ways in turn.

python -m benchmarks.step.kernel_time
python -m benchmarks.step.kernel_time --sizes=base --precisions=bfloat16 --rows=8

A part is what a step makes of one layer's arrays: --rows texts of --length tokens, or the predicted places of them. "Ops" are what one
would write in Keras and TensorFlow, with the gradients that TensorFlow derives; "kernels" are ours, as a step has them where parts are
compiled. Dropout is in both; without it results and gradients are compared first. An optimizer's kernels: benchmarks.step.update_time.
"""

import dataclasses
import math

from absl import flags

from benchmarks.common.report import draw_bars, in_words, keep
from benchmarks.common.this_machine import machine
from benchmarks.common.this_machine import precisions as precisions_here
from benchmarks.common.turns import in_turn, milliseconds, ratio, timed
from keras_bert_app.cli.common import app
from keras_bert_app.config.bert_config import BertConfig
from keras_bert_app.errors import UserError

flags.DEFINE_list("sizes", ["small"], "Published sizes.")
_ROWS = flags.DEFINE_integer("rows", 32, "Rows.", lower_bound=1)
_LENGTH = flags.DEFINE_integer("length", 128, "Tokens of a row.", lower_bound=2)
_PRECISIONS = flags.DEFINE_list("precisions", [], "Compute types; by default those that the CPU multiplies.")
_ROUNDS = flags.DEFINE_integer("rounds", 7, "Rounds in which both run in turn.", lower_bound=1)
_SECONDS = flags.DEFINE_float("seconds", 0.5, "About how long each runs in a round.", lower_bound=0.01)
_OUTPUT_FILE = flags.DEFINE_string(
    "output_file", "", "Where to write every figure as JSON; table and picture beside it."
)

# Of results and gradients, relative to the largest value of each.
_AGREEMENT = {"float32": 1e-4, "bfloat16": 5e-2}
_RATE = 0.1
_HEAD = "| size | part | precision | ops, ms | kernels, ms | of the ops' time, median | lowest to highest |"


def main(arguments):
    del arguments
    (sizes,), precisions = app.required("sizes"), _PRECISIONS.value or precisions_here()
    configs = {size: BertConfig.of_size(size) for size in sizes}
    for precision in precisions:
        if precision not in _AGREEMENT:
            raise UserError(f"--precisions={precision}: expected of {', '.join(_AGREEMENT)}")
    with app.quiet_start():
        import tensorflow as tf  # noqa: F401
    figures = {"machine": machine(("tensorflow", "keras")), "rows": _ROWS.value, "length": _LENGTH.value, "sizes": {}}
    lines = [_HEAD, "|---" * 7 + "|"]
    print("\n".join([in_words(figures["machine"]), "", *lines]), flush=True)
    for size, config in configs.items():
        figures["sizes"][size] = {}
        for part in parts_of(config, _ROWS.value, _LENGTH.value):
            for precision in ["float32"] if part.is_wide else precisions:
                found = measured(part, precision, _ROUNDS.value, _SECONDS.value)
                figures["sizes"][size].setdefault(part.name, {})[precision] = found
                lines.append(line(size, part.name, precision, found))
                print(lines[-1], flush=True)
    keep(_OUTPUT_FILE.value, figures, lines, lambda path: draw(figures["sizes"], path))


@dataclasses.dataclass(frozen=True)
class Part:
    """A part of the training step in both ways.

    Attributes:
        ops, kernel: functions of (dropout rate, seed or None, *tensors) to a tensor.
        shapes: of the tensors; vectors are float32 whatever the compute type.
        is_wide: whether all of them are.
        classes: 0, or of how many the labels are, int32 [shapes[0][0]], which come last.
    """

    name: str
    ops: object
    kernel: object
    shapes: list
    is_wide: bool = False
    classes: int = 0

    def tensors(self, precision):
        """Random ones, the same each time."""
        import tensorflow as tf

        floats = [
            tf.cast(
                tf.random.stateless_normal(shape, [7, number]),
                "float32" if self.is_wide or len(shape) == 1 else precision,
            )
            for number, shape in enumerate(self.shapes)
        ]
        if not self.classes:
            return floats
        return [*floats, tf.random.stateless_uniform(self.shapes[0][:1], [7, 99], maxval=self.classes, dtype=tf.int32)]


def parts_of(config, rows, length):
    """The Parts of a configuration for so many rows of so many tokens."""
    import tensorflow as tf

    from keras_bert_app.modeling import attention, backend, heads, layers
    from keras_bert_app.training import losses

    epsilon, gelu = config.layer_norm_eps, layers.activation(config.hidden_act)

    def dropout(x, rate, seed):
        return x if seed is None else tf.nn.experimental.stateless_dropout(x, rate, seed=seed)

    def norm_ops(rate, seed, x, values, bias, gamma, beta):
        total = tf.cast(x + dropout(values + tf.cast(bias, values.dtype), rate, seed), "float32")
        mean, variance = tf.nn.moments(total, axes=[-1], keepdims=True)
        return tf.cast(tf.nn.batch_normalization(total, mean, variance, beta, gamma, epsilon), x.dtype)

    def norm_kernel(rate, seed, *tensors):
        return backend.fused(layers.residual_layer_norm, *tensors, seed, rate=rate, epsilon=epsilon)

    def gelu_kernel(rate, seed, *tensors):
        return backend.fused(layers.activated, *tensors, activation=gelu)

    def softmax_ops(rate, seed, scores, mask):
        return dropout(
            tf.cast(tf.nn.softmax(tf.cast(scores + tf.stop_gradient(mask), "float32")), scores.dtype), rate, seed
        )

    def softmax_kernel(rate, seed, scores, mask):
        return attention.attention_weights(scores, tf.stop_gradient(mask), seed, rate)

    tokens, num_heads = rows * length, config.num_attention_heads
    predicted = rows * math.ceil(0.15 * length)
    wide, inner = [tokens, config.hidden_size], [tokens, config.intermediate_size]
    yield Part(
        f"LayerNorm of residual, dropout and bias, {tokens:,} x {config.hidden_size:,}",
        norm_ops,
        norm_kernel,
        [wide, wide, *[[config.hidden_size]] * 3],
    )
    yield Part(
        f"{config.hidden_act} and bias, {tokens:,} x {config.intermediate_size:,}",
        lambda rate, seed, x, bias: gelu(x + tf.cast(bias, x.dtype)),
        gelu_kernel,
        [inner, [config.intermediate_size]],
    )
    yield Part(
        f"bias alone, {tokens:,} x {config.intermediate_size:,}",
        lambda rate, seed, x, bias: x + tf.cast(bias, x.dtype),
        lambda rate, seed, *tensors: layers.with_bias(*tensors),
        [inner, [config.intermediate_size]],
    )
    yield Part(
        f"softmax and dropout of attention, {rows} x {num_heads} x {length} x {length}",
        softmax_ops,
        softmax_kernel,
        [[rows, num_heads, length, length], [rows, 1, 1, length]],
    )
    yield Part(
        f"cross-entropy, {predicted:,} x {config.vocab_size:,}",
        lambda rate, seed, logits, labels: tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits),
        lambda rate, seed, *tensors: losses.cross_entropies(*tensors),
        [[predicted, config.vocab_size]],
        is_wide=True,
        classes=config.vocab_size,
    )
    yield Part(
        f"logits' product with the word table, {predicted:,} x {config.hidden_size:,} x {config.vocab_size:,}",
        lambda rate, seed, x, table: tf.matmul(x, tf.transpose(table)),  # as Keras has it in ReversibleEmbedding
        lambda rate, seed, *tensors: heads.product_with_rows(*tensors),
        [[predicted, config.hidden_size], [config.vocab_size, config.hidden_size]],
    )


def measured(part, precision, rounds, seconds):
    """ "ops" and "kernels" -> for each round the seconds of a part's calls.

    Raises:
        UserError: they do not compute the same.
    """
    tensors = part.tensors(precision)
    check_same(
        part.name,
        precision,
        call_of(part.ops, "none", tensors, None)(None),
        call_of(part.kernel, "parts", tensors, None)(None),
    )
    return in_turn(
        {
            "ops": timed(call_of(part.ops, "none", tensors, _RATE), None),
            "kernels": timed(call_of(part.kernel, "parts", tensors, _RATE), None),
        },
        rounds,
        seconds,
    )


def call_of(function, compiled, tensors, rate):
    """A function that gives the result for the tensors and the gradients of those that have one. Args: rate: None for no dropout."""
    import tensorflow as tf

    from keras_bert_app.modeling import backend

    result = function(0.0, None, *tensors)
    upstream = tf.cast(tf.random.stateless_normal(result.shape, [7, 100]), result.dtype)

    @tf.function(autograph=False)
    def both_ways(seed, upstream, *tensors):
        floats = [tensor for tensor in tensors if tensor.dtype.is_floating]
        with backend.compiled(compiled), tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(floats)
            result = function(rate or 0.0, None if rate is None else seed, *tensors)
        gradients = tape.gradient(result, floats, upstream)
        return [result, *(gradient for gradient in gradients if gradient is not None)]

    seed = tf.constant([1, 2])
    return lambda _: both_ways(seed, upstream, *tensors)


def check_same(name, precision, ops, kernels):
    """Raises UserError where results or gradients differ."""
    if len(ops) != len(kernels):
        raise UserError(
            f"{name}: {len(ops) - 1} gradients of the ops, {len(kernels) - 1} of the kernels; expected as many"
        )
    for number, (expected, values) in enumerate(zip(ops, kernels, strict=True)):
        expected, values = (tensor.numpy().astype("float32") for tensor in (expected, values))
        difference = abs(values - expected).max() / abs(expected).max()
        if not difference <= _AGREEMENT[precision]:
            what = f"gradient {number}" if number else "result"
            raise UserError(
                f"{name}, {precision}: the {what} of the kernels differs from that of the ops by {difference:.1e} of the "
                f"largest value; expected {_AGREEMENT[precision]:g} at most: not the same work"
            )


def line(size, name, precision, seconds):
    """A Markdown line. Args: seconds: of `measured`."""
    times, least, most = ratio(seconds["kernels"], seconds["ops"])
    ops, kernels = (milliseconds(seconds[way])[0] for way in ("ops", "kernels"))
    return f"| {size} | {name} | {precision} | {ops:.1f} | {kernels:.1f} | {times:.2f} | {least:.2f} to {most:.2f} |"


def draw(sizes, path):
    """Bars of both ways, a panel for each part; the ops' are grey."""
    panels = {
        f"{size}: {name}".replace(", ", ",\n"): {
            f"{precision}, {way}": milliseconds(rounds)
            for precision, ways in found.items()
            for way, rounds in ways.items()
        }
        for size, parts in sizes.items()
        for name, found in parts.items()
    }
    draw_bars(
        panels,
        "Parts of a training step, forward and backward\nmilliseconds, less is better",
        path,
        lambda name: name.endswith("kernels"),
    )


if __name__ == "__main__":
    app.run(main, __doc__)
