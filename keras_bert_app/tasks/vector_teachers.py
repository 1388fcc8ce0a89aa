"""The vectors of a teacher, from which a run of sentence vectors learns (--vector_loss=distill)."""

import dataclasses
import os
from typing import TextIO

import numpy as np
import tensorflow as tf

from keras_bert_app.config.bert_config import PARTS
from keras_bert_app.config.finetuning_config import FinetuningConfig
from keras_bert_app.config.prompts import NO_PROMPTS, ROLES, Prompts
from keras_bert_app.errors import UserError
from keras_bert_app.interop import hub, load
from keras_bert_app.interop.huggingface import sentence_transformers_files
from keras_bert_app.modeling.vector_model import VectorHead, VectorModel
from keras_bert_app.runs.shared_tokenizer import tokenizer_of
from keras_bert_app.serving import saved_model_files
from keras_bert_app.tasks import predicting, scoring, similarity_runs
from keras_bert_app.tasks.families import text_vectors
from keras_bert_app.tasks.families.text_vectors import Example
from keras_bert_app.tasks.labelled_data import Data
from keras_bert_app.terminal.progress import Progress
from keras_bert_app.training import forward, strategies
from pipelines.plurals import counted
from pipelines.wordpiece.tokenizer import BertTokenizer

_POOLINGS = ("mean", "max", "cls")


@dataclasses.dataclass(frozen=True)
class _Teacher:
    model: VectorModel
    tokenizer: BertTokenizer
    max_seq_length: int
    prompts: Prompts
    size: int  # numbers of a vector


def vectors(
    data: Data, run: FinetuningConfig, size: int, strategy: tf.distribute.Strategy | None, stream: TextIO | None
) -> np.ndarray:
    """The teacher's vectors of the first texts of the training examples.

    Args:
        data: labelled_data.Data.
        run: FinetuningConfig of the student, which names the teacher.
        size: int. Numbers of a vector of the student.
        strategy: tf.distribute.Strategy; None for the one that the run names.
        stream: file for progress lines; None for no lines.

    Returns:
        float32 [U, size], of length 1; see of_size.

    Raises:
        UserError: there is no such model, or its pooling is not one of a run of sentence vectors.
    """
    strategy = strategy or strategies.make_strategy(run.strategy)
    run = strategies.with_precision(run, strategy)
    teacher = _load(run, strategy)
    # The teacher reads a text with its own prompt for the role that the text has for the student.
    keys = [(text_vectors.roles(example, len(example.texts))[0], example.texts[0]) for example in data.train_examples]
    texts = list(dict.fromkeys(keys))
    prompts = {f"{role}_prompt": teacher.prompts.of_role(role) for role in ROLES}
    run = dataclasses.replace(run, max_seq_length=teacher.max_seq_length, **prompts)
    examples = [Example("", (text,), None, "", role) for role, text in texts]
    features = data.task.family.featurize(data.task, examples, teacher.tokenizer, run, (), has_labels=False)
    config = teacher.model.config
    if stream:
        pooling = "[CLS]" if teacher.model.head.vector_pooling == "cls" else teacher.model.head.vector_pooling
        words = teacher.prompts.words()
        print(
            f"teacher {run.teacher}: vectors of {teacher.size} numbers ({pooling} of the last layer) of "
            f"{counted(len(texts), 'text')}{f', {words}' if words else ''}",
            file=stream,
            flush=True,
        )
    execution, shapes = scoring.compilation(strategy, run, config, features)
    call = forward.make_prediction_call(strategy, teacher.model, execution, data.task.family.make_answers(run))
    progress = Progress("texts", features.num_units, int(features.work().sum()), stream) if stream else None
    found = predicting.unit_logits(
        call, teacher.model, features, run, run.global_batch_size, progress=progress, **shapes
    )
    if progress:
        progress.end()
    found = np.concatenate(found)[:, : teacher.size]
    found /= np.maximum(np.linalg.norm(found, axis=1, keepdims=True), 1e-12)
    found, share = of_size(found, size)
    if stream and size < teacher.size:
        print(
            f"  the {size} main directions of these vectors are learned; they hold {share:.1%} of their squares",
            file=stream,
            flush=True,
        )
    rows = {key: row for row, key in enumerate(texts)}
    return found[[rows[key] for key in keys]]


def of_size(rows: np.ndarray, size: int) -> tuple[np.ndarray, float]:
    """Vectors of another size whose cosines are as close as possible to those of the given ones.

    Fewer numbers: the projection on the main directions, the eigenvectors of the largest eigenvalues of the matrix of
    second moments (without the mean taken away, so that cosines stay). More numbers: zeros follow.

    Args:
        rows: float32 [N, D], of length 1.
        size: int.

    Returns:
        (float32 [N, size] of length 1, share of the squares of all numbers that the projection keeps).
    """
    if size >= rows.shape[1]:
        return np.pad(rows, [(0, 0), (0, size - rows.shape[1])]), 1.0
    wide = rows.astype(np.float64)
    values, directions = np.linalg.eigh(wide.T @ wide)
    directions = directions[:, ::-1][:, :size]
    # The sign of an eigenvector is arbitrary; this one does not depend on the library.
    directions *= np.sign(directions[np.abs(directions).argmax(axis=0), np.arange(size)])
    projected = wide @ directions
    lengths = np.maximum(np.linalg.norm(projected, axis=1, keepdims=True), 1e-12)
    return (projected / lengths).astype(np.float32), float(values[::-1][:size].sum() / values.sum())


def _load(run, strategy):
    """The _Teacher that a run names."""
    path = run.teacher
    fetched, _ = hub.fetch(path)
    if saved_model_files.holds_export(fetched):
        raise UserError(f"--teacher={path}: is an export; give the model or the run that it was made from")
    own = similarity_runs.own_steps(path)
    pooling, length, folder = (own.pooling, own.max_seq_length, own.folder) if own else ("mean", 0, "")
    if pooling not in _POOLINGS:
        raise UserError(f"--teacher={path}: pools by {pooling}; expected a model that pools by {', '.join(_POOLINGS)}")
    weights, _ = load.load_weights(os.path.join(fetched, folder) if folder else path, allow_missing=PARTS[1:])
    if weights.vocabulary is None:
        raise UserError(f"--teacher={path}: has no vocab.txt; put the model's vocab.txt there")
    if own:
        sentence_transformers_files.check_case(own, weights.config.do_lower_case, weights.origin)
    if weights.config.has_columns:
        raise UserError(f"--teacher={path}: reads channels or positions of lines, which texts do not have")
    with strategy.scope():
        model = VectorModel(
            weights.config,
            VectorHead(pooling),
            dtype=strategies.KERAS_POLICIES[run.precision],
            encoder_has_dropout=False,
        )
        load.assign(model, weights)
    positions = weights.config.max_position_embeddings
    tokenizer = tokenizer_of(weights.vocabulary, weights.config)
    prompts, size = (own.prompts, own.truncate_dim) if own else (NO_PROMPTS, None)
    width = weights.config.hidden_size
    return _Teacher(model, tokenizer, min(length or positions, positions), prompts, min(size or width, width))
