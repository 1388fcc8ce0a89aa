"""Compares the outputs of loaded weights with the original implementation, for every layer and head.

The reference outputs come from one of two places:
- from the original implementation, which the script *_reference.py of the layout runs in a separate process;
- from a file parity.npz beside the model, which write_golden has written.
"""

import importlib.metadata
import os
import sys
import tempfile

import numpy as np

from keras_bert_app.config.bert_config import BertConfig
from keras_bert_app.errors import UserError
from keras_bert_app.interop import parity_files
from keras_bert_app.interop.keras_hub.keras_hub_objects import HEAD_COMPUTES
from keras_bert_app.interop.load import assign, build_model
from keras_bert_app.interop.reference import reference_process
from keras_bert_app.interop.weights import POOLED_TASKS, Weights
from keras_bert_app.modeling.heads import MaskedLMHead
from keras_bert_app.runs import tf_checkpoints

HIDDEN_LIMIT = 1e-5  # Largest accepted difference of hidden states and pooled output, float32.
LOGITS_LIMIT = 1e-4
# Layout -> packages of its original implementation.
PACKAGES = {
    "huggingface": ("torch", "transformers"),
    "gpt2": ("torch", "transformers"),
    "google_tf1": ("bert-tensorflow",),
    "keras_hub": ("keras-hub",),
    "model_garden": ("tf-models-official",),
}
# Layout -> the script that runs its original implementation, relative to this file.
_REFERENCES = {
    "huggingface": "huggingface/huggingface_reference.py",
    "gpt2": "gpt2/gpt2_reference.py",
    "google_tf1": "google_tf1/google_reference.py",
    "keras_hub": "keras_hub/keras_hub_reference.py",
    "model_garden": "model_garden/model_garden_reference.py",
}
_ROUNDING = 16 * 2.0**-23  # 16 units in the last place of a float32.
_NUM_ROWS, _MAX_LENGTH, _MAX_PREDICTIONS = 3, 48, 7


def probe_batch(config: BertConfig, seed: int = 0) -> dict[str, np.ndarray]:
    """Draws a small batch of random valid inputs.

    The rows have three lengths and use all segments. One row has ids under its padding. For BERT-base the outputs take
    about 8 MB, so they can be stored beside a model.

    Args:
        config: BertConfig. Configuration of the model.
        seed: int. Seed of the random numbers.

    Returns:
        dict of int32 arrays: input_word_ids, input_mask, input_type_ids [B, S], masked_lm_positions [B, P]. Positions
        that a short row does not need are 0.
    """
    generator = np.random.RandomState(seed)
    length = min(config.max_position_embeddings, _MAX_LENGTH)
    lengths = np.array([length, (2 * length + 2) // 3, (length + 3) // 4])[:, None]
    steps = np.arange(length)[None, :]
    mask = steps < lengths
    ids = generator.randint(min(1, config.vocab_size - 1), config.vocab_size, mask.shape)
    # The middle row keeps ids under its padding. This tests that the model uses the mask.
    ids[0::2] *= mask[0::2]
    types = steps * config.type_vocab_size // lengths * mask
    positions = np.zeros((_NUM_ROWS, min(_MAX_PREDICTIONS, length)), np.int32)
    for row, row_length in enumerate(lengths[:, 0]):
        chosen = generator.permutation(row_length)[: positions.shape[1]]
        positions[row, : len(chosen)] = np.sort(chosen)
    inputs = zip(parity_files.INPUTS, (ids, mask, types, positions), strict=True)
    return {name: np.asarray(values, np.int32) for name, values in inputs}


def our_outputs(weights: Weights, batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Computes the outputs of a model in this application.

    Args:
        weights: Weights. Weights of the model.
        batch: dict of int32 arrays. See probe_batch.

    Returns:
        dict of float32 arrays: embedding_output, layer_0, layer_1, ... [B, S, H]. If the weights have these parts, also
        pooled_output [B, H], mlm_logits [B, P, V], nsp_logits [B, 2] and lm_logits [B, S, V]. With a classifier also
        classifier_logits [B, n], or [B, S, n] in tasks about tokens.
    """
    tensors, model_outputs = weights.tensors, build_model(weights)(batch)
    outputs = {
        "embedding_output": model_outputs["embedding_output"],
        **{f"layer_{index}": state for index, state in enumerate(model_outputs["encoder_outputs"])},
        **{
            name: model_outputs[name]
            for name in ("pooled_output", "mlm_logits", "nsp_logits", "lm_logits")
            if name in model_outputs
        },
    }
    outputs = {name: np.asarray(values) for name, values in outputs.items()}
    is_pooled = weights.task in POOLED_TASKS
    features = outputs.get("pooled_output") if is_pooled else np.asarray(model_outputs["sequence_output"])
    if "classifier/kernel" in tensors and features is not None:
        outputs["classifier_logits"] = features @ tensors["classifier/kernel"] + tensors["classifier/bias"]
    return outputs


def compare(ours: dict[str, np.ndarray], theirs: dict[str, np.ndarray]) -> tuple[list[str], bool]:
    """Compares the outputs of two implementations.

    Args:
        ours: dict of float32 arrays. The outputs of this application, see our_outputs. A missing output is a fault,
            because a tensor was not loaded.
        theirs: dict of float32 arrays. The reference outputs. Heads may be missing. A missing hidden state is a fault.

    Returns:
        Tuple (lines, is_same). The lines are a table of the largest differences, and the result. is_same is True if all
        differences are within their limits.
    """
    lines = [f"{'output':<18}{'largest difference':>20}{'limit':>9}{'largest value':>15}"]
    faults, names = [], [*ours, *(name for name in theirs if name not in ours)]
    for name in names:
        line, is_same = _compared(name, ours.get(name), theirs.get(name))
        lines.append(f"{name:<18}{line}")
        faults += [] if is_same else [name]
    if faults:
        lines.append(f"parity: {len(faults)} of {len(names)} outputs are not the same, first {faults[0]}")
    else:
        lines.append(f"parity: {len(ours.keys() & theirs.keys())} outputs are the same within their limits")
    return lines, not faults


def _compared(name, ours, theirs):
    """Compares one output. Returns (text for the table, whether the output is correct)."""
    is_head = name.endswith("_logits") or name == "pooled_output"
    if theirs is None:
        return "not compared: the reference does not give this output", is_head
    if ours is None:
        return "the reference gives this output, the loaded weights do not", False
    if ours.shape != theirs.shape:
        return f"expected shape {list(theirs.shape)}, found {list(ours.shape)}", False
    # The rounding error of float32 grows with the largest value.
    limit = max(LOGITS_LIMIT if name.endswith("_logits") else HIDDEN_LIMIT, _ROUNDING * float(np.abs(theirs).max()))
    difference = float(np.abs(ours.astype(np.float64) - theirs).max())
    is_same = difference <= limit  # False for nan.
    return (
        f"{difference:>20.1e}{limit:>9.0e}{np.abs(theirs).max():>15.2f}" + ("" if is_same else "  beyond its limit")
    ), is_same


def check(weights: Weights, source_format: str, path: str, reference_python: str = "") -> tuple[list[str], bool]:
    """Compares loaded weights with the original implementation, or with parity.npz beside the model.

    Args:
        weights: Weights. The weights as the reader returned them, without later changes such as removed layers.
        source_format: str. Layout that the weights were read from.
        path: str. Path that the weights were read from.
        reference_python: str. Interpreter that has PACKAGES[source_format]. "" means this interpreter, if it has them.

    Returns:
        Tuple (lines, is_same). The lines name the reference and show the table and the result of compare.

    Raises:
        UserError: There are no reference outputs, or the original implementation failed.
    """
    stored = os.path.join(path if os.path.isdir(path) else os.path.dirname(path), parity_files.NAME)
    is_asked = source_format in PACKAGES and bool(reference_python or _is_installed(source_format))
    if is_asked:
        batch = probe_batch(weights.config)
        theirs, made_by = reference_outputs(weights.config, source_format, path, batch, reference_python)
    elif os.path.exists(stored):
        batch, theirs, made_by = parity_files.read(stored, weights.config)
        made_by = f"{parity_files.NAME} of {made_by}"
    elif source_format not in PACKAGES:
        return [f"parity: {source_format} is this application's own layout; there is nothing to compare with"], True
    else:
        packages = " and ".join(PACKAGES[source_format])
        raise UserError(
            f"{path}: nothing to compare with: no {packages} here, and no {parity_files.NAME} beside the model; "
            f"install {packages}, or give an interpreter with {packages} as --reference_python"
        )
    ours, notes = our_outputs(weights, batch), []
    if is_asked and source_format == "keras_hub" and "mlm_logits" in ours and "mlm_logits" in theirs:
        plain = np.abs(ours["mlm_logits"] - theirs["mlm_logits"]).max()
        ours["mlm_logits"] = _keras_hub_mlm_logits(weights, batch, ours)
        computed = " and ".join(f"{key} {value}" for key, value in HEAD_COMPUTES.items())
        notes = [
            f"mlm_logits: computed here as in KerasHub's head, with {computed}; with this model's own values "
            f"{weights.config.hidden_act} and {weights.config.layer_norm_eps:g}, the logits differ by up to {plain:.1e}"
        ]
    lines, is_same = compare(*(_without_padding(outputs, batch["input_mask"]) for outputs in (ours, theirs)))
    return [f"{weights.origin} compared with {made_by}", *lines, *notes], is_same


def _without_padding(outputs, mask):
    """Sets outputs [B, S, ...] at padding to zero. Nothing reads them, so their rounding errors do not matter."""
    return {
        name: values * mask[:, :, None]
        if values.ndim == 3 and values.shape[:2] == mask.shape and name != "mlm_logits"
        else values
        for name, values in outputs.items()
    }


def reference_outputs(
    config: BertConfig, source_format: str, path: str, batch: dict[str, np.ndarray], reference_python: str = ""
) -> tuple[dict[str, np.ndarray], str]:
    """Runs the original implementation of a layout in a separate process.

    Args:
        config: BertConfig. Configuration of the model.
        source_format: str. Layout of the model.
        path: str. Path of the model.
        batch: dict of int32 arrays. See probe_batch.
        reference_python: str. Interpreter that has PACKAGES[source_format]. "" for this interpreter.

    Returns:
        Tuple (outputs, made_by). The outputs are a dict of float32 arrays with the names of our_outputs. made_by names
        the implementation, such as "transformers 5.23.0".

    Raises:
        UserError: The process failed. The message includes the last line of its standard error.
    """
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), _REFERENCES[source_format])
    if source_format in ("google_tf1", "model_garden"):
        path = tf_checkpoints.find_prefix(path) or path
    interpreter = reference_python or sys.executable
    name = f"{path}: its own implementation under {interpreter}"
    mend = f"expected an interpreter with {' and '.join(PACKAGES[source_format])} as --reference_python"
    with (
        tempfile.TemporaryDirectory() as directory,
        reference_process.ReferenceProcess(interpreter, script, name, mend) as process,
    ):
        inputs, outputs = (os.path.join(directory, name) for name in ("inputs.npz", "outputs.npz"))
        parity_files.write(inputs, batch)
        process.ask(model=os.path.abspath(path), inputs_file=inputs, outputs_file=outputs)
        _, theirs, _ = parity_files.read(outputs, config)
    return theirs, " on ".join(f"{package} {version}" for package, version in process.versions.items())


def write_golden(weights: Weights, directory: str | os.PathLike) -> None:
    """Writes parity.npz into a model's directory, for a later check without the original implementation.

    Args:
        weights: Weights, read back from the directory. The file then has only outputs that the layout supports.
        directory: str or os.PathLike. Local directory of the model.
    """
    batch = probe_batch(weights.config)
    parity_files.write(
        os.path.join(directory, parity_files.NAME),
        batch,
        our_outputs(weights, batch),
        f"keras_bert_app on tensorflow {importlib.metadata.version('tensorflow')}",
    )


def _keras_hub_mlm_logits(weights, batch, ours):
    """Computes the masked-LM logits from our last layer as KerasHub does, with the constants of its head."""
    head = MaskedLMHead(weights.config.replace(**HEAD_COMPUTES), seed=0, name="masked_lm")
    head.build()
    assign(head, weights)
    states = ours[f"layer_{weights.config.num_hidden_layers - 1}"]
    table = weights.tensors["encoder/embeddings/word_embeddings"]
    return np.asarray(head(states, table, batch["masked_lm_positions"]))


def _is_installed(source_format):
    try:
        return bool([importlib.metadata.version(package) for package in PACKAGES[source_format]])
    except (KeyError, importlib.metadata.PackageNotFoundError):
        return False
