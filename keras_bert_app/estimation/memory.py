"""Memory of a training step on one replica, in bytes.

The count follows keras_bert_app.modeling and keras_bert_app.training tensor by tensor. Change this module when those
packages change. It knows four kinds of step: without XLA, with --jit_compile=parts, and compiled whole for a TPU or a
GPU. For --jit_compile=step on a CPU it counts a step without XLA, which takes more memory.

Three comparisons check the count. tests/estimation compares it with the traced step, and
benchmarks.step.estimate_check with the allocator of a running step. docs/results/accelerators.md compares it with
compiled programs.
"""

import dataclasses
import math
from collections.abc import Callable, Sequence

from keras_bert_app.config.bert_config import BertConfig
from keras_bert_app.config.pretraining_config import PretrainingConfig
from keras_bert_app.config.training_config import is_hidden_matrix
from keras_bert_app.estimation.counts import parameters, weight_shapes

# Bytes per value of weights, gradients, slots, normalization, softmax and losses, whatever the compute type.
_FLOAT = 4
_COMPUTE = {"float32": 4, "bfloat16": 2, "float16": 2}
# How many arrays the backward pass of an activation reads: (without the activation's output, with its output).
_READ_BY_ACTIVATION = {"gelu_tanh": (4, 4), "gelu_exact": (3, 3), "relu": (0, 1), "silu": (1, 1), "tanh": (0, 1)}


@dataclasses.dataclass(frozen=True)
class Memory:
    """Bytes of one replica.

    Attributes:
        weights: int. The float32 weights, which stay all the time.
        slots: int. The float32 slots of the optimizer, which stay all the time.
        activations: int. Values that the forward pass keeps for the backward pass, copies of the weights in the compute
            type, and sums of gradients over parts of the rows.
        logits: int. Gradients of the logits and of the word embeddings when the backward pass begins. A TPU keeps no
            gradients of the logits, because the products that read them compute them.
        gradients: int. The gradients at the update of the weights.
    """

    weights: int
    slots: int
    activations: int
    logits: int
    gradients: int

    @property
    def peak(self) -> int:
        """The largest number of bytes at one time. The activations are gone when all gradients exist."""
        return self.weights + self.slots + max(self.activations + self.logits, self.gradients)


def training_memory(
    config: BertConfig,
    run: PretrainingConfig,
    parts: Sequence[str],
    rows: int,
    multiplies_bfloat16: bool = True,
    device: str = "CPU",
) -> Memory:
    """Computes the memory of a step in which a replica has `rows` rows at a time.

    Args:
        config: BertConfig.
        run: PretrainingConfig, resolved.
        parts: sequence of str. Parts of the model.
        rows: int. B.
        multiplies_bfloat16: bool. Whether the device multiplies bfloat16. If not, TensorFlow makes copies in float32.
        device: str. "TPU", "GPU" or "CPU". A TPU compiles every step whole.

    Returns:
        Memory.
    """
    is_tpu = device == "TPU"
    weights = _FLOAT * sum(parameters(config, parts).values())
    table = _FLOAT * config.vocab_size * config.hidden_size
    logit_bytes = 0 if is_tpu else _FLOAT
    if run.precision != "float32" and not is_tpu:
        is_copied = run.precision == "bfloat16" and not multiplies_bfloat16
        logit_bytes += _COMPUTE[run.precision] + is_copied * _FLOAT
    is_in_parts = run.gradient_accumulation_steps > 1
    # The update's kernel clips with --jit_compile=parts and on a TPU. Otherwise clipped gradients need a second set.
    sets = 1 if is_tpu else (1 if run.jit_compile == "parts" else 2) + is_in_parts
    return Memory(
        weights=weights,
        slots=_FLOAT * slot_numbers(config, run.optimizer, parts),
        # A loop over parts keeps the sums so far. Except on a TPU, the gradients of the first part also stay until the
        # loop ends.
        activations=activations(config, run, parts, rows, device) + is_in_parts * (1 if is_tpu else 2) * weights,
        # The gradients of the logits in float32 and in the compute type, and the gradient of the word embeddings.
        logits=logit_bytes * rows * run.max_predictions_per_seq * config.vocab_size + table,
        gradients=sets * weights + table,
    )


def slot_numbers(config: BertConfig, optimizer: str, parts: Sequence[str]) -> int:
    """Counts the numbers that an optimizer keeps besides the weights.

    Args:
        config: BertConfig.
        optimizer: str. A value of --optimizer.
        parts: sequence of str. Parts of the model.

    Returns:
        int: float32 numbers.
    """
    shapes = {path: shape for part in weight_shapes(config, parts).values() for path, shape in part.items()}
    if optimizer == "muon":  # momentum and the norm of the update for a hidden matrix, else the two slots of AdamW
        return sum(
            math.prod(shape) + 1 if is_hidden_matrix(path, shape) else 2 * math.prod(shape)
            for path, shape in shapes.items()
        )
    if optimizer != "adafactor":
        return 2 * sum(map(math.prod, shapes.values()))
    # Adafactor keeps the means of rows and of columns of a matrix, all values of a vector, and the norm of each update.
    # Query, key and value are three matrices.
    return sum(
        1 + (shape[0] if len(shape) == 1 else shape[0] * (3 if "query_key_value" in path else 1) + shape[1])
        for path, shape in shapes.items()
    )


def activations(
    config: BertConfig, run: PretrainingConfig, parts: Sequence[str], rows: int, device: str = "CPU"
) -> int:
    """Computes the bytes that the forward pass keeps for the backward pass.

    Args:
        config: BertConfig.
        run: PretrainingConfig, resolved.
        parts: sequence of str. Parts of the model.
        rows: int. B.
        device: str. "TPU", "GPU" or "CPU".

    Returns:
        int: bytes of one replica.
    """
    is_tpu, is_gpu_step = device == "TPU", device == "GPU" and run.jit_compile == "step"
    kept_by_compilation = {"parts": _kept_in_parts, "step": _kept_on_gpu if is_gpu_step else _kept}.get(
        run.jit_compile, _kept
    )
    kept = (_kept_on_tpu if is_tpu else kept_by_compilation)(config, run)
    size, hidden = _COMPUTE[run.precision], config.hidden_size
    token_bytes, row_bytes, step_bytes = kept.embeddings, kept.pooler if "pooler" in parts else 0, kept.step
    if size != _FLOAT and not is_tpu:  # copies of the kernels and of the word embeddings in the compute type
        kernels = sum(
            math.prod(shape)
            for shapes in weight_shapes(config, parts).values()
            for path, shape in shapes.items()
            if path.endswith("kernel")
        )
        step_bytes += size * kernels + size * config.vocab_size * hidden
    if config.head_counts:
        *others, last = config.head_counts
        token_bytes += sum(
            kept.attending(num_heads) + kept.attended(num_heads) for num_heads in others
        ) + kept.attended_in_last(last)
        row_bytes += (run.max_predictions_per_seq + 1) * kept.attending(last)  # [CLS] and the predictions
        if size == _FLOAT and not (
            is_tpu or is_gpu_step
        ):  # slices of the last layer's kernel and bias for query, key and value
            step_bytes += size * 3 * (hidden + 1) * last * config.head_size
    prediction_bytes = run.max_predictions_per_seq * kept.prediction
    return rows * (run.max_seq_length * token_bytes + prediction_bytes + row_bytes) + step_bytes


@dataclasses.dataclass(frozen=True)
class _Kept:
    """Bytes that the forward pass keeps for the backward pass.

    Three of them depend on the number of heads of a layer.

    Attributes:
        embeddings: bytes per token in the embeddings.
        prediction: bytes per prediction.
        pooler: bytes per row.
        attending: function of the number of heads. Bytes per position that attends to others.
        attended: function of the number of heads. Bytes per position that others attend to.
        attended_in_last: function of the number of heads. The same as attended, for the last layer.
        step: bytes per step, whatever the number of rows.
    """

    embeddings: int
    prediction: int
    pooler: int
    attending: Callable[[int], int]
    attended: Callable[[int], int]
    attended_in_last: Callable[[int], int]
    step: int = 0


def _kept(config, run):
    """Bytes of a step without XLA."""
    size, hidden = _COMPUTE[run.precision], config.hidden_size
    drops, drops_probabilities = config.hidden_dropout_prob > 0, config.attention_probs_dropout_prob > 0
    norm = _FLOAT * (hidden + 1)
    activation, activation_with_output = _READ_BY_ACTIVATION[config.hidden_act]
    mask = hidden if drops else 0  # one byte for each value
    # Probabilities in float32, and either their copy after dropout with its mask, or their copy in the compute type.
    probability_bytes = _FLOAT + (size + 1 if drops_probabilities else size if size != _FLOAT else 0)

    def attending(num_heads):
        # The scaled query, the outputs of the heads, and the input of the attention and of the feed-forward network.
        states = size * (2 * num_heads * config.head_size + 2 * hidden)
        inner = size * config.intermediate_size * (1 + activation)  # 1: the next product reads the output
        return states + inner + 2 * (norm + mask) + num_heads * run.max_seq_length * probability_bytes

    def attended(num_heads):  # query, key and value
        return size * 3 * num_heads * config.head_size

    def attended_in_last(num_heads):  # key and value, and the states that they are computed from
        return size * (2 * num_heads * config.head_size + hidden)

    return _Kept(
        norm + mask + _FLOAT * (config.type_vocab_size + 1),
        size * hidden * (2 + activation_with_output) + norm + _FLOAT * (config.vocab_size + 2),
        2 * size * hidden,
        attending,
        attended,
        attended_in_last,
    )


def _kept_in_parts(config, run):
    """Bytes of a step with --jit_compile=parts: the inputs of its kernels and of its matrix products."""
    size, hidden = _COMPUTE[run.precision], config.hidden_size

    def attending(num_heads):
        # A head keeps the query before and after scaling, the output, the scores, the probabilities after dropout, and
        # the sum of a softmax. A layer keeps the product and the sum of both halves, the inner product, its activation.
        head_bytes = _FLOAT + size * (3 * config.head_size + 2 * run.max_seq_length)
        return num_heads * head_bytes + size * (4 * hidden + 2 * config.intermediate_size)

    def attended(num_heads):  # key and value, as one product and as separate arrays
        return size * 4 * num_heads * config.head_size

    def attended_in_last(num_heads):  # in addition the states that key and value are computed from
        return attended(num_heads) + size * hidden

    # Word and segment embeddings of a token, its one-hot segment, its word id, and the mask. The sum of the embeddings
    # is the input of the first layer. This count has the sum instead of the last layer's output.
    embedding_bytes = _FLOAT * (2 * hidden + config.type_vocab_size + 2)
    # Logits in float32, and in the compute type as the product gives them.
    logits_bytes = (_FLOAT + (0 if size == _FLOAT else size)) * config.vocab_size
    return _Kept(
        embedding_bytes,
        4 * size * hidden + logits_bytes + 4 * _FLOAT,
        3 * size * hidden,
        attending,
        attended,
        attended_in_last,
        step=_FLOAT * run.max_seq_length * hidden,  # position embeddings, which are an input of a kernel
    )


def _kept_on_tpu(config, run):
    """Bytes of a step that XLA compiles whole for a TPU. XLA recomputes values that are cheap to compute."""
    size, hidden = _COMPUTE[run.precision], config.hidden_size

    def attending(num_heads):
        # The query, the outputs of the heads, the inner product, the sums of both halves; the sums of softmax and of
        # LayerNorm.
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


def _kept_on_gpu(config, run):
    """Bytes of a step that XLA compiles whole for a GPU.

    A GPU keeps the same values as a TPU, and also the outputs of gelu and of both LayerNorms, which products read.
    """
    size, hidden = _COMPUTE[run.precision], config.hidden_size
    on_tpu = _kept_on_tpu(config, run)

    def attending(num_heads):
        return on_tpu.attending(num_heads) + size * (config.intermediate_size + 2 * hidden)

    return dataclasses.replace(on_tpu, attending=attending)
