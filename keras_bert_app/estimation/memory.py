"""Memory of a training step on one replica, in bytes.

It follows keras_bert_app.modeling and keras_bert_app.training tensor by tensor, as TensorFlow runs them without XLA
or with its kernels for parts (--jit_compile=parts), and as XLA compiles them whole for a TPU; of a step that it compiles whole
for another device it tells what that takes without, which is more. What changes there changes here (tests/estimation compares
with the traced step, benchmarks/estimate_check with the allocator of a running one, BUILD.md, "TPU", with compiled programs).
"""

import dataclasses
import math
import typing

from keras_bert_app.config.training_config import is_hidden_matrix
from keras_bert_app.estimation.counts import parameters, weight_shapes

_FLOAT = 4  # of weights, gradients, slots, normalization, softmax and losses, whatever the compute type
_COMPUTE = {"float32": 4, "bfloat16": 2}
# Arrays that the backward pass of an activation reads, its output left out and with it.
_READ_BY_ACTIVATION = {"gelu_tanh": (4, 4), "gelu_exact": (3, 3), "relu": (0, 1), "silu": (1, 1), "tanh": (0, 1)}


@dataclasses.dataclass(frozen=True)
class Memory:
    """Bytes of one replica.

    Attributes:
        weights, slots: there all the time, float32.
        activations: what the forward pass keeps for the backward pass, with copies of the weights in the compute type,
            and sums of gradients over parts of the rows.
        logits: what the masked-LM head has beside them when the backward pass begins: gradients of logits, which on a TPU are
            part of the products that read them, and of the table.
        gradients: what there is of them when the weights are updated.
    """

    weights: int
    slots: int
    activations: int
    logits: int
    gradients: int

    @property
    def peak(self):
        """The most at one time: activations have gone when all gradients have come."""
        return self.weights + self.slots + max(self.activations + self.logits, self.gradients)


def training_memory(config, run, parts, rows, multiplies_bfloat16=True, is_tpu=False):
    """Memory of a step in which a replica has `rows` rows at a time.

    Args:
        run: PretrainingConfig, resolved. parts: of the model. multiplies_bfloat16: whether the device has products of
            bfloat16; where it has none, TensorFlow takes copies in float32. is_tpu: whether XLA compiles it whole for a TPU.
    """
    weights = _FLOAT * sum(parameters(config, parts).values())
    table = _FLOAT * config.vocab_size * config.hidden_size
    of_logit = 0 if is_tpu else _FLOAT
    if run.precision == "bfloat16" and not is_tpu:
        of_logit += _COMPUTE["bfloat16"] + (0 if multiplies_bfloat16 else _FLOAT)
    is_in_parts = run.gradient_accumulation_steps > 1
    # Clipping is in the kernel of the update, or its results stand beside the gradients, one array more at a time.
    sets = 1 if is_tpu else (1 if run.jit_compile == "parts" else 2) + is_in_parts
    return Memory(
        weights=weights,
        slots=_FLOAT * slot_numbers(config, run.optimizer, parts),
        # In a loop over parts there are the sums so far; the first part's gradients stay to its end beside them, but on a TPU.
        activations=activations(config, run, parts, rows, is_tpu) + is_in_parts * (1 if is_tpu else 2) * weights,
        # The logits' gradients, and in the compute type; that of the table.
        logits=of_logit * rows * run.max_predictions_per_seq * config.vocab_size + table,
        gradients=sets * weights + table,
    )


def slot_numbers(config, optimizer, parts):
    """How many numbers an optimizer keeps beside the weights."""
    shapes = {path: shape for of_part in weight_shapes(config, parts).values() for path, shape in of_part.items()}
    if optimizer == "muon":  # its momentum and the norm of its update, or AdamW's two
        return sum(
            math.prod(shape) + 1 if is_hidden_matrix(path, shape) else 2 * math.prod(shape)
            for path, shape in shapes.items()
        )
    if optimizer != "adafactor":
        return 2 * sum(map(math.prod, shapes.values()))
    # Means of rows and of columns (query, key and value are three matrices), or all of a vector; the norm of an update.
    return sum(
        1 + (shape[0] if len(shape) == 1 else shape[0] * (3 if "query_key_value" in path else 1) + shape[1])
        for path, shape in shapes.items()
    )


def activations(config, run, parts, rows, is_tpu=False):
    """Bytes that the forward pass of so many rows leaves for the backward pass."""
    kept = (_kept_on_tpu if is_tpu else _kept_in_parts if run.jit_compile == "parts" else _kept)(config, run)
    size, hidden = _COMPUTE[run.precision], config.hidden_size
    of_token, of_row, of_step = kept.embeddings, kept.pooler if "pooler" in parts else 0, kept.step
    if size != _FLOAT and not is_tpu:  # kernels and the table in the compute type
        of_step += (
            size
            * sum(
                math.prod(shape)
                for of_part in weight_shapes(config, parts).values()
                for path, shape in of_part.items()
                if path.endswith("kernel")
            )
            + size * config.vocab_size * hidden
        )
    if config.head_counts:
        *others, last = config.head_counts
        of_token += sum(
            kept.attending(num_heads) + kept.attended(num_heads) for num_heads in others
        ) + kept.attended_in_last(last)
        of_row += (run.max_predictions_per_seq + 1) * kept.attending(last)  # [CLS] and the predictions
        if size == _FLOAT and not is_tpu:  # the thirds of its kernel and bias of query, key and value
            of_step += size * 3 * (hidden + 1) * last * config.head_size
    return rows * (run.max_seq_length * of_token + run.max_predictions_per_seq * kept.prediction + of_row) + of_step


@dataclasses.dataclass(frozen=True)
class _Kept:
    """Bytes that the backward pass reads: of a token's embeddings, of a prediction, of a row's pooler; by a layer's number of heads, of a
    place that attends, and of one that is attended to, in the last layer too; of a step, whatever its rows."""

    embeddings: int
    prediction: int
    pooler: int
    attending: typing.Callable
    attended: typing.Callable
    attended_in_last: typing.Callable
    step: int = 0


def _kept(config, run):
    """The _Kept of TensorFlow's own ops."""
    size, hidden = _COMPUTE[run.precision], config.hidden_size
    drops, drops_probabilities = config.hidden_dropout_prob > 0, config.attention_probs_dropout_prob > 0
    norm = _FLOAT * (hidden + 1)
    beside_output, with_output = _READ_BY_ACTIVATION[config.hidden_act]
    mask = hidden if drops else 0  # one byte for each value
    # Probabilities in float32; beside them those left by dropout and its mask, or the same in the compute type.
    of_probability = _FLOAT + (size + 1 if drops_probabilities else size if size != _FLOAT else 0)

    def attending(num_heads):
        # The scaled query, what the heads gave; the states before either half.
        states = size * (2 * num_heads * config.head_size + 2 * hidden)
        inner = size * config.intermediate_size * (1 + beside_output)  # the next product reads the output
        return states + inner + 2 * (norm + mask) + num_heads * run.max_seq_length * of_probability

    def attended(num_heads):  # query, key and value as they came out
        return size * 3 * num_heads * config.head_size

    def attended_in_last(num_heads):  # key and value, and the states that they are of
        return size * (2 * num_heads * config.head_size + hidden)

    return _Kept(
        norm + mask + _FLOAT * (config.type_vocab_size + 1),
        size * hidden * (2 + with_output) + norm + _FLOAT * (config.vocab_size + 2),
        2 * size * hidden,
        attending,
        attended,
        attended_in_last,
    )


def _kept_in_parts(config, run):
    """As _kept, of a step with --jit_compile=parts: what goes into each kernel, and what goes into a product."""
    size, hidden = _COMPUTE[run.precision], config.hidden_size

    def attending(num_heads):
        # The query as a product and scaled, what the heads gave; each half's product and its sum; the inner product and its
        # activation; scores, what dropout left of probabilities, and their sums.
        of_head = _FLOAT + size * (3 * config.head_size + 2 * run.max_seq_length)
        return num_heads * of_head + size * (4 * hidden + 2 * config.intermediate_size)

    def attended(num_heads):  # key and value as a product and apart
        return size * 4 * num_heads * config.head_size

    def attended_in_last(num_heads):  # and the states that they are of
        return attended(num_heads) + size * hidden

    # Rows of two tables, which row of the second it was, and which word; the mask. What comes of them is the first layer's
    # input, which is counted in place of the last one's output.
    of_embeddings = _FLOAT * (2 * hidden + config.type_vocab_size + 2)
    # Logits as they came out of the product, where the losses do not take the same.
    of_logits = (_FLOAT + (0 if size == _FLOAT else size)) * config.vocab_size
    return _Kept(
        of_embeddings,
        4 * size * hidden + of_logits + 4 * _FLOAT,
        3 * size * hidden,
        attending,
        attended,
        attended_in_last,
        step=_FLOAT * run.max_seq_length * hidden,
    )  # the positions, which go into a kernel


def _kept_on_tpu(config, run):
    """As _kept, of a step that XLA compiles whole for a TPU: what is cheap to compute it computes anew."""
    size, hidden = _COMPUTE[run.precision], config.hidden_size

    def attending(num_heads):
        # Query and what the heads gave; the inner product; each half's sum. Sums of softmax and of LayerNorms.
        kept = size * (2 * num_heads * config.head_size + config.intermediate_size + 2 * hidden)
        return kept + _FLOAT * (num_heads + 4)

    def attended(num_heads):  # key and value
        return size * 2 * num_heads * config.head_size

    return _Kept(
        _FLOAT * hidden,
        3 * size * hidden + size * config.vocab_size + 4 * _FLOAT,
        3 * size * hidden,
        attending,
        attended,
        attended,
    )
