"""Parts of the start of fine-tuning: teachers, output layer, trained variables, notes for other programs."""

import dataclasses
import io
import sys
from collections.abc import Iterable

import numpy as np
import tensorflow as tf

from keras_bert_app.config.finetuning_config import FinetuningConfig
from keras_bert_app.errors import UserError
from keras_bert_app.interop.weights import Weights
from keras_bert_app.modeling.task_model import CONTEXT_LSTM
from keras_bert_app.modeling.task_models import TaskHead, is_same_head
from keras_bert_app.runs import work_directory
from keras_bert_app.tasks import registry, scoring, vector_teachers
from keras_bert_app.tasks.labelled_data import Data
from keras_bert_app.tasks.ranking_objective import GRADED
from keras_bert_app.tasks.task import RERANK, SIMILARITY, Task
from keras_bert_app.training import strategies
from keras_bert_app.training.optimizers import choice
from pipelines import storage
from pipelines.plurals import counted

# The names that other libraries give to the head of each kind of task.
_FIELD_NAMES = {
    "classification": "sequence_classification",
    "regression": "sequence_classification",
    "multi_label": "sequence_classification",
    "tagging": "token_classification",
    "question_answering": "question_answering",
    "multiple_choice": "multiple_choice",
    "rerank": "sequence_classification",
}

_ANSWERS = "teacher_logits.npy"  # in the work directory of a student

_PROBLEM_TYPES = {
    "classification": "single_label_classification",
    "multi_label": "multi_label_classification",
    "regression": "regression",
}


class Teacher:
    """The answers of fine-tuned runs to training examples. Several runs answer as an ensemble.

    Args:
        strategy: tf.distribute.Strategy.
        stream: File for progress lines; standard output by default.
    """

    def __init__(self, strategy, stream=None):
        self._strategy = strategy
        self._stream = (stream or sys.stdout) if strategy is None or strategies.is_chief(strategy) else None
        self._answered = self._logits = None

    def logits(self, data: Data, run: FinetuningConfig, directories: list[str], size: int = 0) -> np.ndarray:
        """The logits for the training examples, or the vectors of their first texts.

        Several seeds with the same examples share one computation.

        Args:
            data: labelled_data.Data.
            run: FinetuningConfig of the student.
            directories: Work directories of the teaching runs, as seeds.sound returns them; or a model of vectors.
            size: int. Numbers of a vector of the student, for a task of vectors.

        Returns:
            float32 [U, n], or [U, size].

        Raises:
            UserError: the teacher has learned another task or other labels.
        """
        wanted = (directories, data.train.fingerprint())
        if self._answered != wanted:
            if data.task.kind == SIMILARITY:
                answers = vector_teachers.vectors(data, run, size, self._strategy, self._stream)
            else:
                answers = self._logits_of(directories, data, run)
            self._logits, self._answered = answers, wanted
        return self._logits

    def _logits_of(self, directories, data, run):
        teacher = scoring.Ensemble(
            directories, {"global_batch_size": run.global_batch_size}, self._strategy, self._stream
        )
        if (
            teacher.task.kind != data.task.kind
            or teacher.labels != data.labels
            or not registry.may_be_alike(teacher.task.name, data.task.name)
        ):
            raise UserError(
                f"--teacher={run.teacher}: answers {teacher.task.name} with "
                f"{', '.join(teacher.labels[:6]) or 'numbers'}; expected a run of {data.task.name} with "
                f"{', '.join(data.labels[:6]) or 'numbers'}"
            )
        if self._stream:
            unlabelled = (
                f" and {len(data.unlabelled_examples):,} texts without labels" if data.unlabelled_examples else ""
            )
            print(
                f"teacher {run.teacher} ({counted(len(directories), 'run')}) answers "
                f"{len(data.train_examples):,} training examples{unlabelled}",
                file=self._stream,
                flush=True,
            )
        return teacher.logits([*data.train_examples, *data.unlabelled_examples])


def learn_from(answers: np.ndarray, data: Data) -> None:
    """Adds the teacher's logits or vectors to the training features.

    Examples without a label get the most likely answer of the teacher as their label.

    Args:
        answers: float32 [U, n]. The result of Teacher.logits.
        data: labelled_data.Data. The function changes data.train.
    """
    if data.task.kind == SIMILARITY:
        data.train.labels["teacher_vectors"] = answers
        return
    data.train.labels["teacher_logits"] = answers
    likeliest = {
        "classification": lambda logits: logits.argmax(axis=1),
        "regression": lambda logits: logits[:, 0],
        "multi_label": lambda logits: logits > 0,
    }[data.task.kind]
    num_labelled = len(data.train_examples)
    data.train.labels["labels"][num_labelled:] = likeliest(answers[num_labelled:])


def keep_answers(workdir: str, logits: np.ndarray) -> None:
    """Writes the teacher's logits, so that a resumed run continues with exactly the same answers.

    Args:
        workdir: str. Work directory of the student.
        logits: float32 [U, n].
    """
    file = io.BytesIO()
    np.save(file, logits)
    storage.make_directories(workdir)
    storage.write_whole(work_directory.path_in(workdir, _ANSWERS), file.getvalue())


def kept_answers(workdir: str, data: Data) -> np.ndarray | None:
    """Reads the logits that keep_answers wrote.

    Args:
        workdir: str. Work directory of the student.
        data: labelled_data.Data.

    Returns:
        float32 [U, n]; None if the file is missing, damaged, or has another number of units.
    """
    try:
        with storage.open_file(work_directory.path_in(workdir, _ANSWERS)) as file:
            logits = np.load(io.BytesIO(file.read()), allow_pickle=False)
    except (OSError, tf.errors.OpError, ValueError, EOFError):
        return None
    return logits if len(logits) == data.train.num_units else None


def in_units_of(head: TaskHead, data: Data, begun: dict | None = None, ranking_loss: str = "") -> TaskHead:
    """The Head of a run, which learns standardized labels if the labels are numbers.

    The offset of the head is the mean of the training labels, and its scale is their standard deviation.
    The learning rates of fine-tuning move the weights of an output layer by hundredths. Without standardized labels,
    the layer would never reach values in the hundreds. Labels with a fixed range (STS-B, 0 to 5) stay unchanged, as is
    usual. A reranker that learns grades has the lowest grade as its offset, and the distance to the highest one as its
    scale (ranking_objective.answers).

    Args:
        head: Head or Decoder. The function returns it unchanged for other kinds of tasks.
        data: labelled_data.Data.
        begun: dict. config.json of a run that resumes and keeps its units; None for a new run.
        ranking_loss: str. The loss of a reranker.
    """
    if data.task.kind == RERANK and ranking_loss != GRADED:
        return head
    if data.task.kind not in ("regression", RERANK) or data.task.value_range:
        return head
    if begun is not None:
        units = {name: begun["head"][name] for name in ("scale", "offset")}
    elif data.task.kind == RERANK:
        values = data.known_labels()  # of two grades at least; see drawn_examples
        units = {"scale": float(np.ptp(values)), "offset": float(values.min())}
    else:
        values = data.known_labels().astype(np.float64)
        units = {"scale": float(values.std()) or 1.0, "offset": float(values.mean())}
    return dataclasses.replace(head, **units)


def begin_with_label_shares(model, data: Data) -> None:
    """Sets the bias of a new multi-label output layer to the log odds of each label.

    This follows Lin et al. 2017, section 3.3. Most labels are rare. With a bias of 0, every label would start with a
    probability of 0.5. The learning rates of fine-tuning move the bias only by hundredths.

    Args:
        model: BertTaskModel.
        data: labelled_data.Data. Its labelled training examples give the shares.
    """
    if data.task.kind == "multi_label":
        labels = data.known_labels()
        share = (labels.sum(axis=0) + 0.5) / (len(labels) + 1.0)
        model.classifier.bias.assign(np.log(share / (1.0 - share)))


def with_new_layers(weights: Weights, lines: list[str], model, count: int) -> tuple[Weights, list[str]]:
    """Replaces the highest layers and the pooler with the random values of a new model.

    The highest layers are closest to the task of pre-training and may be a worse start than random values
    (Zhang et al. 2020, Revisiting Few-sample BERT Fine-tuning, section 5).

    Args:
        weights: Weights.
        lines: Log lines about the weights.
        model: BertTaskModel with random weights.
        count: int. Number of layers to replace.

    Returns:
        (Weights, log lines).
    """
    num_layers = model.config.num_hidden_layers
    parts = [
        *(f"encoder/layer_{index}" for index in range(num_layers - count, num_layers)),
        *(["encoder/pooler"] if model.head.has_pooler else []),
    ]
    new = {
        variable.path: variable.numpy()
        for variable in model.weights
        if variable.path.startswith(tuple(f"{part}/" for part in parts))
    }
    return (
        dataclasses.replace(weights, tensors={path: new.get(path, tensor) for path, tensor in weights.tensors.items()}),
        [*lines, f"  reinitialized: {', '.join(parts)}"],
    )


def with_decoder(weights: Weights, lines: list[str], model, run: FinetuningConfig) -> tuple[Weights, list[str]]:
    """Gives a decoder its first weights, if the weights have none for it.

    Args:
        weights: Weights.
        lines: Log lines about the weights.
        model: TextToTextModel with random weights.
        run: FinetuningConfig. Its decoder_init says whether the decoder starts from the encoder's layers.

    Returns:
        (Weights, log lines).
    """
    if model.head.vocab_size:  # the output layer of the weights has other pieces
        tensors = {path: tensor for path, tensor in weights.tensors.items() if not path.startswith("masked_lm/")}
        weights = dataclasses.replace(weights, tensors=tensors)
    has_decoder = any(path.startswith("decoder/") for path in weights.tensors)
    if run.decoder_init == "scratch":
        tensors = {path: tensor for path, tensor in weights.tensors.items() if not path.startswith("decoder/")}
        dropped = " instead of those of the earlier run" if has_decoder else ""
        return dataclasses.replace(weights, tensors=tensors), [*lines, f"  decoder: random weights{dropped}"]
    if run.decoder != "transformer" or has_decoder:
        return weights, lines
    tensors = model.decoder_tensors(weights.tensors)
    num_layers = len(model.decoder.decoder_layers)
    taken = [
        number
        for number in range(num_layers)
        if (path := f"encoder/layer_{number}/attention/query_key_value/kernel") in weights.tensors
        and weights.tensors[path] is tensors.get(path.replace("encoder/", "decoder/", 1))
    ]
    new = f", {counted(num_layers - len(taken), 'layer')} new" if len(taken) < num_layers else ""
    line = f"  decoder: {counted(len(taken), 'layer')} from those of the encoder{new}; attention to the encoder is new"
    return dataclasses.replace(weights, tensors={**weights.tensors, **tensors}), [*lines, line]


def trained_variables(model, run: FinetuningConfig) -> dict[str, tf.Variable]:
    """The variables that a run trains: dict path -> variable, without frozen embeddings and layers.

    The run always trains the output layer and the pooler, because the pooler is random if the initial weights have
    none. It trains the LSTM of context vectors unless the whole encoder is frozen.

    Args:
        model: BertTaskModel.
        run: FinetuningConfig.
    """
    frozen = ()
    if run.freeze_layers:
        num_layers = run.freeze_layers if run.freeze_layers > 0 else model.config.num_hidden_layers
        frozen = ("encoder/embeddings/", *(f"encoder/layer_{index}/" for index in range(num_layers)))
    if run.freeze_layers < 0:
        frozen = (*frozen, "encoder/final_layer_norm/", f"{CONTEXT_LSTM}/")
    return {
        variable.path: variable.value for variable in model.trainable_variables if not variable.path.startswith(frozen)
    }


def first_steps(paths: Iterable[str], run: FinetuningConfig, num_layers: int) -> dict[str, int]:
    """dict path -> first step that trains the variable; {} without gradual unfreezing.

    Args:
        paths: Paths of the trained variables.
        run: FinetuningConfig. One more layer is trained every gradual_unfreezing steps.
        num_layers: int. Layers of the encoder.
    """
    if not run.gradual_unfreezing:
        return {}
    return {path: run.gradual_unfreezing * (num_layers + 1 - choice.depth(path, num_layers)) for path in paths}


def says_what_it_answers(weights: Weights, task: Task) -> bool:
    """Whether the labels of an output layer of unknown origin can show that it belongs to a task.

    Labels that are only numbers show nothing. For tagging, question answering and multiple choice, the shape of the
    output layer identifies the head.

    Args:
        weights: Weights.
        task: Task.
    """
    if weights.task != "sequence_classification":
        return True
    is_of_kind = weights.problem_type in ("", _PROBLEM_TYPES.get(task.kind))
    return is_of_kind and bool(weights.labels) and not all(label.isdecimal() for label in weights.labels)


def keep_output_layer(
    weights: Weights, lines: list[str], head: TaskHead, task: Task, labels: tuple[str, ...]
) -> tuple[Weights, list[str]]:
    """Keeps the output layer of the initial weights if it fits the run, and drops it otherwise.

    Args:
        weights: Weights to start from.
        lines: Log lines about the weights.
        head: Head or Decoder of the run.
        task: Task of the run.
        labels: Names of the outputs of the run.

    Returns:
        (Weights, log lines).
    """
    tensors, own = weights.tensors, weights.own_head
    if own:
        is_ours = own.labels == labels and is_same_head(own.description, head)
        if is_ours:
            tensors, lines = {**tensors, **own.tensors}, [line for line in lines if line != own.left_out]
        origin, earlier_labels = "another kind" if own.labels == labels else "other labels", own.labels
    else:
        is_ours = head.is_plain and weights.task == _FIELD_NAMES[task.kind] and weights.labels == labels
        tensors = {path: tensor for path, tensor in tensors.items() if is_ours or not path.startswith("classifier/")}
        origin, earlier_labels = weights.task, weights.labels
    if origin and not is_ours:
        lines = [*lines, f"  left out: the output layer, of {origin} ({', '.join(earlier_labels[:6]) or 'no labels'})"]
    if is_ours:
        has_units = "classifier/kernel" in tensors and task.kind != RERANK  # own_layout reads a reranker without units
        tensors = {**tensors, **(_in_units(tensors, head) if has_units else {})}
        and_labels = f" and labels ({', '.join(labels[:6])})" if labels else ""
        lines = [*lines, f"  kept: the output layer, of the same kind{and_labels}"]
    return dataclasses.replace(weights, tensors=tensors), lines


def _in_units(tensors, head):
    """The tensors of an output layer, converted from plain numbers to the units of a Head."""
    return {
        "classifier/kernel": tensors["classifier/kernel"] / np.float32(head.scale),
        "classifier/bias": ((tensors["classifier/bias"] - head.offset) / head.scale).astype(np.float32),
    }


def notes_for_others(data: Data, head: TaskHead) -> dict:
    """The keys of config.json that describe the output layer to this program and to other programs.

    Args:
        data: labelled_data.Data.
        head: Head or Decoder of the run.
    """
    family = data.task.family
    notes = {
        "head": dataclasses.asdict(head),
        "labels": list(data.labels),
        "inputs": family.input_names(data.train_examples),
    }
    if head.is_plain:
        notes |= {"task": _FIELD_NAMES[data.task.kind]}
        if data.task.kind in _PROBLEM_TYPES:
            notes["problem_type"] = _PROBLEM_TYPES[data.task.kind]
        if data.labels:
            notes["id2label"] = {str(index): label for index, label in enumerate(data.labels)}
    return notes
