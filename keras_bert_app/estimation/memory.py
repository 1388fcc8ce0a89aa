"""Memory of a training step on one replica, in bytes.

It follows keras_bert_app.modeling and keras_bert_app.training tensor by tensor, as TensorFlow runs them without XLA:
what changes there changes here (tests/estimation compares with the traced step, benchmarks/estimate_check with the
allocator of a running one).
"""

import dataclasses
import math

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
        logits: what the masked-LM head has beside them when the backward pass begins: gradients of logits and table.
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


def training_memory(config, run, parts, rows, multiplies_bfloat16=True):
    """Memory of a step in which a replica has `rows` rows at a time.

    Args:
        run: PretrainingConfig, resolved. parts: of the model. multiplies_bfloat16: whether the device has products of
            bfloat16; where it has none, TensorFlow takes copies in float32.
    """
    weights = _FLOAT * sum(parameters(config, parts).values())
    table = _FLOAT * config.vocab_size * config.hidden_size
    of_logit = _FLOAT
    if run.precision == "bfloat16":
        of_logit += _COMPUTE["bfloat16"] + (0 if multiplies_bfloat16 else _FLOAT)
    is_in_parts = run.gradient_accumulation_steps > 1
    return Memory(
        weights=weights,
        slots=_FLOAT * slot_numbers(config, run.optimizer, parts),
        # In a loop over parts the first part's gradients stay to its end, beside the sums so far.
        activations=activations(config, run, parts, rows) + (2 * weights if is_in_parts else 0),
        # The logits' gradients once more, scaled, and in the compute type; that of the table, and it transposed.
        logits=of_logit * rows * run.max_predictions_per_seq * config.vocab_size + 2 * table,
        # Before and after clipping, or the loop's two and a part's own; one more array at a time, at most the word table.
        gradients=(3 if is_in_parts else 2) * weights + table)


def slot_numbers(config, optimizer, parts):
    """How many numbers an optimizer keeps beside the weights."""
    shapes = {path: shape for of_part in weight_shapes(config, parts).values() for path, shape in of_part.items()}
    if optimizer != "adafactor":
        return 2 * sum(map(math.prod, shapes.values()))
    # Means of rows and of columns (query, key and value are three matrices), or all of a vector; the norm of an update.
    return sum(1 + (shape[0] if len(shape) == 1 else shape[0] * (3 if "query_key_value" in path else 1) + shape[1])
               for path, shape in shapes.items())


def activations(config, run, parts, rows):
    """Bytes that the forward pass of so many rows leaves for the backward pass."""
    size, hidden, tokens = _COMPUTE[run.precision], config.hidden_size, rows * run.max_seq_length
    drops, drops_probabilities = config.hidden_dropout_prob > 0, config.attention_probs_dropout_prob > 0
    norm = _FLOAT * (hidden + 1)
    beside_output, with_output = _READ_BY_ACTIVATION[config.hidden_act]
    mask = hidden if drops else 0  # one byte for each value
    of_token = norm + mask + _FLOAT * (config.type_vocab_size + 1)  # embeddings
    for num_heads in config.head_counts:
        width = num_heads * config.head_size
        # Query, key and value as they came out, the scaled query, what the heads gave; the states before either half.
        states = size * (5 * width + 2 * hidden)
        inner = size * config.intermediate_size * (1 + beside_output)  # the next product reads the output
        # Probabilities in float32; beside them those left by dropout and its mask, or the same in the compute type.
        copies = size + 1 if drops_probabilities else size if size != _FLOAT else 0
        of_token += states + inner + 2 * (norm + mask) + num_heads * run.max_seq_length * (_FLOAT + copies)
    predictions = rows * run.max_predictions_per_seq
    of_prediction = size * hidden * (2 + with_output) + norm + _FLOAT * (config.vocab_size + 2)
    casts = 0 if size == _FLOAT else size * sum(
        math.prod(shape) for of_part in weight_shapes(config, parts).values() for path, shape in of_part.items()
        if path.endswith("kernel")) + size * config.vocab_size * hidden
    pooled = 2 * size * rows * hidden if "pooler" in parts else 0
    return tokens * of_token + predictions * of_prediction + pooled + casts
