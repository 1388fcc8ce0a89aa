"""The initial weights of a run."""

from typing import Any

import numpy as np

from keras_bert_app.config.weight_shapes import part_of
from keras_bert_app.errors import UserError
from keras_bert_app.interop.weights import Weights
from keras_bert_app.modeling.character_vectors import CharacterVectors, numbers_of_characters
from keras_bert_app.runs import checkpoints
from keras_bert_app.training.start import Start
from pipelines.wordpiece.tokenizer import BertTokenizer
from pipelines.wordpiece.vocabulary import SPECIAL_PIECES

# The state of a run that has done nothing yet, under the keys of a checkpoint's manifest.
_BEGINNING = {"step": 0, "position": None, "unlogged": [], "seconds": 0.0}


def initialize(start: Start, model: Any, optimizer: Any) -> tuple[dict[str, Any], str]:
    """Sets the initial values of a run's model and optimizer.

    Args:
        start: Start.
        model: model whose attribute parts has the names of its parts.
        optimizer: Optimizer.

    Returns:
        (state of the run under the keys of a checkpoint's manifest, lines that say where the weights come from).

    Raises:
        UserError: a checkpoint is damaged, or weights do not fit.
    """
    # The order: 1. the newest checkpoint of the work directory, 2. the weights of --init_checkpoint, 3. from scratch.
    if start.existing.has_begun:
        newest = start.existing.checkpoints[-1]
        manifest = checkpoints.restore(newest, model, optimizer)
        state = {**_BEGINNING, **manifest, "position": tuple(manifest["position"])}
        return state, f"resumed at step {manifest['step']:,} from {newest}"
    if start.weights is not None:
        return _BEGINNING, "\n".join([*_assign(model, start.weights, start.run), *start.weight_lines])
    lines = f"from scratch, seed {start.run.seed}"
    if start.existing.unfinished:
        lines += f"; the saving or removal of {', '.join(start.existing.unfinished)} was interrupted"
    return _BEGINNING, lines


def begin_with_sines(model: Any) -> None:
    """Sets position embeddings to sines, scaled to initializer_range (Vaswani et al. 2017, section 3.5).

    Training changes these embeddings like all other weights. The dot product of two of these vectors depends only on
    the distance of their positions. The dot product of random vectors depends on chance (docs/decisions.md).

    Args:
        model: model with one or more variables whose paths end in position_embeddings.
    """
    for table in (variable for variable in model.weights if variable.path.endswith("position_embeddings")):
        positions, width = table.shape
        columns = np.arange(width)
        angles = np.arange(positions)[:, None] / 10_000.0 ** (columns // 2 * 2 / width)
        values = np.where(columns % 2, np.cos(angles), np.sin(angles)) * np.sqrt(2.0) * model.config.initializer_range
        table.assign(values.astype(np.float32))


def begin_with_characters(model: Any, tokenizer: BertTokenizer) -> None:
    """Sets the characters of the pieces in the parts of a model that make vectors of characters.

    These are the embeddings of an LSTM and the token features of a head. Other models stay the same.

    Args:
        model: model with an encoder.
        tokenizer: BertTokenizer of the model.
    """
    features = getattr(model, "token_features", None)
    for part in (model.encoder.embeddings, features and features.characters):
        if isinstance(part, CharacterVectors):
            part.characters.assign(numbers_of_characters(tokenizer.vocabulary, part.config, SPECIAL_PIECES))


def check_fits(wanted: dict[str, tuple[int, ...]], weights: Weights, init_checkpoint: str) -> None:
    """Checks that a run can start from weights.

    Args:
        wanted: dict path -> shape of the model's variables.
        weights: Weights.
        init_checkpoint: value of --init_checkpoint, for the message.

    Raises:
        UserError: shapes differ, or the weights have only some variables of a part.
    """
    shapes = {path: tensor.shape for path, tensor in weights.tensors.items()}
    faults = [
        f"{path} expected {list(shape)}, found {list(shapes[path])}"
        for path, shape in wanted.items()
        if tuple(shapes.get(path, shape)) != tuple(shape)
    ]
    # A run loads a part as a whole or not at all. Otherwise a layer that only the weights have would be lost, and a
    # layer that only the model has would start with random values.
    parts, given = {part_of(path) for path in wanted}, {part_of(path) for path in shapes}
    faults += [f"{path} is not in the model" for path in shapes if path not in wanted and part_of(path) in parts]
    faults += [f"{path} is not in the weights" for path in wanted if path not in shapes and part_of(path) in given]
    if faults:
        more = f" and {len(faults) - 5} more" if len(faults) > 5 else ""
        raise UserError(
            f"--init_checkpoint={init_checkpoint}: does not fit this run's model: {'; '.join(faults[:5])}{more}"
            "; leave out --config and its keys, or adapt the model with convert (--keep_layers, "
            "--tie_word_embeddings, --max_position_embeddings)"
        )


def _assign(model, weights, run):
    """Copies weights that fit into the model. Other variables keep their values. Returns lines to print."""
    from keras_bert_app.interop.load import assign  # loads the readers of all layouts, which other starts do not need

    left = assign(model, weights)
    source = run.init_checkpoint or weights.origin
    lines = [f"{len(model.weights) - len(left)} weights from {source}, optimizer and steps new"]
    if left:
        lines.append(f"  from scratch, seed {run.seed}: {', '.join(sorted({part_of(path) for path in left}))}")
    not_trained = sorted({part_of(path) for path in weights.tensors} - set(model.parts))
    if not_trained:
        lines.append(f"  left out, because this run does not train these parts: {', '.join(not_trained)}")
    return lines
