"""Whether loaded weights compute what their source's own implementation computes: layer by layer, head by head.

The other side is that implementation, run as a process of its own (the *_reference.py of each layout), or else the values stored in a
parity.npz beside the source, which write_golden and those scripts write alike.
"""

import importlib.metadata
import os
import subprocess
import sys
import tempfile

import numpy as np

from keras_bert_app.errors import UserError
from keras_bert_app.interop import parity_files, tf_checkpoints
from keras_bert_app.interop.keras_hub.keras_hub_objects import HEAD_COMPUTES
from keras_bert_app.interop.load import assign, build_model
from keras_bert_app.interop.weights import POOLED_TASKS
from keras_bert_app.modeling.heads import MaskedLMHead

HIDDEN_LIMIT = 1e-5  # of hidden states and pooled output, float32
LOGITS_LIMIT = 1e-4
# Format -> the packages that hold its own implementation.
PACKAGES = {
    "huggingface": ("torch", "transformers"),
    "google_tf1": ("bert-tensorflow",),
    "keras_hub": ("keras-hub",),
    "model_garden": ("tf-models-official",),
}
# The scripts that run a reference implementation, relative to this file.
_REFERENCES = {
    "huggingface": "huggingface/huggingface_reference.py",
    "google_tf1": "google_tf1/google_reference.py",
    "keras_hub": "keras_hub/keras_hub_reference.py",
    "model_garden": "model_garden/model_garden_reference.py",
}
_ROUNDING = 16 * 2.0**-23
_NUM_ROWS, _MAX_LENGTH, _MAX_PREDICTIONS = 3, 48, 7


def probe_batch(config, seed=0):
    """A batch of random but valid inputs, int32: rows of three lengths, every segment, ids under padding too.

    Small enough that its outputs can be kept beside a model: some 8 MB for BERT-base.

    Returns:
        dict: input_word_ids, input_mask, input_type_ids [B, S], masked_lm_positions [B, P]; slots that a short row does
        not need are 0.
    """
    generator = np.random.RandomState(seed)
    length = min(config.max_position_embeddings, _MAX_LENGTH)
    lengths = np.array([length, (2 * length + 2) // 3, (length + 3) // 4])[:, None]
    steps = np.arange(length)[None, :]
    mask = steps < lengths
    ids = generator.randint(min(1, config.vocab_size - 1), config.vocab_size, mask.shape)
    # The middle row keeps ids under its padding: the mask decides, not the id.
    ids[0::2] *= mask[0::2]
    types = steps * config.type_vocab_size // lengths * mask
    positions = np.zeros((_NUM_ROWS, min(_MAX_PREDICTIONS, length)), np.int32)
    for row, row_length in enumerate(lengths[:, 0]):
        chosen = generator.permutation(row_length)[: positions.shape[1]]
        positions[row, : len(chosen)] = np.sort(chosen)
    inputs = zip(parity_files.INPUTS, (ids, mask, types, positions))
    return {name: np.asarray(values, np.int32) for name, values in inputs}


def our_outputs(weights, batch):
    """What weights compute in this application.

    Args:
        batch: as probe_batch gives it.

    Returns:
        dict of float32 arrays: embedding_output, layer_0 and so on [B, S, H]; of the parts that are there pooled_output
        [B, H], mlm_logits [B, P, V], nsp_logits [B, 2], classifier_logits [B, n] ([B, S, n] in tasks about tokens).
    """
    tensors, outputs = weights.tensors, build_model(weights)(batch)
    found = {
        "embedding_output": outputs["embedding_output"],
        **{f"layer_{index}": state for index, state in enumerate(outputs["encoder_outputs"])},
        **{name: outputs[name] for name in ("pooled_output", "mlm_logits", "nsp_logits") if name in outputs},
    }
    found = {name: np.asarray(values) for name, values in found.items()}
    features = found.get("pooled_output") if weights.task in POOLED_TASKS else np.asarray(outputs["sequence_output"])
    if "classifier/kernel" in tensors and features is not None:
        found["classifier_logits"] = features @ tensors["classifier/kernel"] + tensors["classifier/bias"]
    return found


def compare(ours, theirs):
    """The largest difference of every output, and whether all are within their limits.

    Args:
        ours, theirs: dicts of float32 arrays as our_outputs gives them. Theirs may lack heads, which is said; a hidden
            state that they lack is a fault, and so is what ours lack, since it was not loaded.

    Returns:
        (lines of a table and a verdict, bool).
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
    """(what the table says of an output, whether that is no fault)."""
    is_head = name.endswith("_logits") or name == "pooled_output"
    if theirs is None:
        return "not compared: the other side gives none", is_head
    if ours is None:
        return "the other side gives it, the loaded weights do not", False
    if ours.shape != theirs.shape:
        return f"expected shape {list(theirs.shape)}, found {list(ours.shape)}", False
    # What float32 rounds grows with the values: 16 units in the last place of the largest.
    limit = max(LOGITS_LIMIT if name.endswith("_logits") else HIDDEN_LIMIT, _ROUNDING * float(np.abs(theirs).max()))
    difference = float(np.abs(ours.astype(np.float64) - theirs).max())
    is_same = difference <= limit  # never so of nan
    return (
        f"{difference:>20.1e}{limit:>9.0e}{np.abs(theirs).max():>15.2f}" + ("" if is_same else "  beyond its limit")
    ), is_same


def check(weights, source_format, path, reference_python=""):
    """Compares weights as they were read with the source's own implementation, else with the parity.npz beside it.

    Args:
        weights: as read, before any surgery. source_format: where they come from. path: what was read.
        reference_python: an interpreter that has PACKAGES[source_format]; "" for this one, if it has them.

    Returns:
        (lines: who was compared with, the table, the verdict; whether all is within the limits).

    Raises:
        UserError: there is nothing to compare with, or the other side failed.
    """
    stored = os.path.join(path if os.path.isdir(path) else os.path.dirname(path), parity_files.NAME)
    if source_format in PACKAGES and (reference_python or _is_installed(source_format)):
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
            f"{path}: nothing to compare with: no {packages} here, and no {parity_files.NAME} beside it; "
            "install that, or name an interpreter that has it by --reference_python"
        )
    ours, note = our_outputs(weights, batch), []
    if made_by.startswith("keras_hub ") and "mlm_logits" in ours and "mlm_logits" in theirs:
        plain = np.abs(ours["mlm_logits"] - theirs["mlm_logits"]).max()
        ours["mlm_logits"] = _keras_hub_mlm_logits(weights, batch, ours)
        computed = " and ".join(f"{key} {value}" for key, value in HEAD_COMPUTES.items())
        note = [
            f"mlm_logits are compared as KerasHub's head computes them, with {computed}; as configured here, with "
            f"{weights.config.hidden_act} and {weights.config.layer_norm_eps:g}, they differ by up to {plain:.1e}"
        ]
    lines, is_same = compare(*(_without_padding(outputs, batch["input_mask"]) for outputs in (ours, theirs)))
    return [f"{weights.origin} compared with {made_by}", *lines, *note], is_same


def _without_padding(outputs, mask):
    """Outputs [B, S, ...] with zeros where the mask is 0: nothing reads those, and rounding grows there."""
    return {
        name: values * mask[:, :, None]
        if values.ndim == 3 and values.shape[:2] == mask.shape and name != "mlm_logits"
        else values
        for name, values in outputs.items()
    }


def reference_outputs(config, source_format, path, batch, reference_python=""):
    """What a source's own implementation computes, in a process of its own.

    Args:
        config: BertConfig of the model. source_format, path, reference_python: as for check.
        batch: as probe_batch gives it.

    Returns:
        (dict of float32 arrays under the names of our_outputs, who computed them: "transformers 5.23.0").

    Raises:
        UserError: the process failed; its last line is given.
    """
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), _REFERENCES[source_format])
    if source_format in ("google_tf1", "model_garden"):
        path = tf_checkpoints.find_prefix(path) or path
    interpreter = reference_python or sys.executable
    mend = f"expected an interpreter with {' and '.join(PACKAGES[source_format])} by --reference_python"
    with tempfile.TemporaryDirectory() as directory:
        inputs, outputs = (os.path.join(directory, name) for name in ("inputs.npz", "outputs.npz"))
        parity_files.write(inputs, batch)
        try:
            process = subprocess.run(
                [interpreter, script, os.path.abspath(path), inputs, outputs],
                text=True,
                capture_output=True,
                errors="replace",
                stdin=subprocess.DEVNULL,
            )
        except OSError as error:
            raise UserError(f"--reference_python={interpreter} cannot be run ({error.strerror}); {mend}") from None
        if process.returncode:
            reason = (process.stderr.strip() or f"exit code {process.returncode}").splitlines()[-1]
            raise UserError(f"{path}: its own implementation failed under {interpreter} ({reason}); {mend}")
        _, found, made_by = parity_files.read(outputs, config)
    return found, made_by


def write_golden(weights, directory):
    """Writes parity.npz into a model's directory, for a check where its format's own implementation is not installed.

    Args:
        weights: as read back from the directory, so that nothing is asked for later that its layout cannot hold.
    """
    batch = probe_batch(weights.config)
    parity_files.write(
        os.path.join(directory, parity_files.NAME),
        batch,
        our_outputs(weights, batch),
        f"keras_bert_app on tensorflow {importlib.metadata.version('tensorflow')}",
    )


def _keras_hub_mlm_logits(weights, batch, ours):
    """Logits of the masked-LM head on our last layer, under KerasHub's two constants."""
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
