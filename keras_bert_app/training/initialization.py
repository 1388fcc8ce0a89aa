"""Where a run's weights come from: its newest checkpoint, else --init_checkpoint, else from scratch."""

import numpy as np

from keras_bert_app.errors import UserError
from keras_bert_app.interop import load
from keras_bert_app.interop.weights import part_of
from keras_bert_app.runs import checkpoints

# Where a run that has done nothing yet stands, by the keys of a checkpoint's manifest.
_BEGINNING = {"step": 0, "position": None, "unlogged": [], "seconds": 0.0}


def initialize(workdir, run, model, optimizer, num_columns, initial=None):
    """Gives a run's model and optimizer their values.

    Args:
        model: has parts, the names of its parts. num_columns: of a row of steps.columns. initial: (Weights, lines) to
            start from, as interop.load.load_weights gives them; by default those of run.init_checkpoint, if it names any.

    Returns:
        (where the run stands, as a checkpoint's manifest has it; lines that say where the weights come from).

    Raises:
        UserError: a damaged checkpoint, or weights that do not fit.
    """
    saved = checkpoints.list_checkpoints(workdir)
    if saved:
        manifest = checkpoints.restore(saved[-1], model, optimizer)
        # Rows of an earlier version lack the last three columns.
        unlogged = [[*row, -1.0, 0.0, 0.0][:num_columns] for row in manifest["unlogged"]]
        return (
            {**_BEGINNING, **manifest, "position": tuple(manifest["position"]), "unlogged": unlogged},
            f"resumed at step {manifest['step']:,} from {saved[-1]}",
        )
    if initial or run.init_checkpoint:
        weights, lines = initial or load.load_weights(run.init_checkpoint)
        return _BEGINNING, "\n".join([*_assign(model, weights, run), *lines])
    broken_off = checkpoints.unfinished(workdir)
    return _BEGINNING, f"from scratch, seed {run.seed}" + (
        f"; the saving of {', '.join(broken_off)} was broken off" if broken_off else ""
    )


def begin_with_sines(model):
    """Gives the position embeddings of a new model the values of Vaswani et al. 2017, section 3.5, in its initializer_range.

    They are learned like any others. What a head finds at one distance then helps it at all positions, where random vectors
    have nothing in common (BUILD.md, "Choices with their trials").
    """
    (table,) = (variable for variable in model.weights if variable.path.endswith("position_embeddings"))
    positions, width = table.shape
    columns = np.arange(width)
    angles = np.arange(positions)[:, None] / 10_000.0 ** (columns // 2 * 2 / width)
    values = np.where(columns % 2, np.cos(angles), np.sin(angles)) * np.sqrt(2.0) * model.config.initializer_range
    table.assign(values.astype(np.float32))


def check_fits(wanted, weights, run):
    """Raises UserError where weights cannot be a start. Args: wanted: dict path -> shape of the model's variables."""
    found = {path: tensor.shape for path, tensor in weights.tensors.items()}
    faults = [
        f"{path} expected {list(shape)}, found {list(found[path])}"
        for path, shape in wanted.items()
        if tuple(found.get(path, shape)) != tuple(shape)
    ]
    # A part is taken whole or not at all: a layer or a table that only one side has would be lost, or start at random.
    parts, given = {part_of(path) for path in wanted}, {part_of(path) for path in found}
    faults += [f"{path} has no place in it" for path in found if path not in wanted and part_of(path) in parts]
    faults += [f"{path} is not in it" for path in wanted if path not in found and part_of(path) in given]
    if faults:
        more = f" and {len(faults) - 5} more" if len(faults) > 5 else ""
        raise UserError(
            f"--init_checkpoint={run.init_checkpoint}: does not fit this run's model: {'; '.join(faults[:5])}{more}"
            "; leave --config and its keys out, or make such a model by convert (--keep_layers, "
            "--tie_word_embeddings, --max_position_embeddings)"
        )


def _assign(model, weights, run):
    """Gives the model the weights that it starts from; what they do not hold stays as it was initialized."""
    check_fits({variable.path: variable.shape for variable in model.weights}, weights, run)
    left = load.assign(model, weights)
    lines = [
        f"{len(model.weights) - len(left)} weights from {run.init_checkpoint or weights.origin}, optimizer and steps new"
    ]
    if left:
        lines.append(f"  from scratch, seed {run.seed}: {', '.join(sorted({part_of(path) for path in left}))}")
    not_trained = sorted({part_of(path) for path in weights.tensors} - set(model.parts))
    if not_trained:
        lines.append(f"  left out, since this run does not train it: {', '.join(not_trained)}")
    return lines
