"""What a fine-tuning run begins with and takes over from earlier models, which of its variables learn and when, and what it leaves for
the next."""

import dataclasses
import io
import sys

import numpy as np
import tensorflow as tf

from keras_bert_app.errors import UserError
from keras_bert_app.runs import work_directory
from keras_bert_app.tasks import registry, scoring
from keras_bert_app.training import strategies
from keras_bert_app.training.optimizers import choice

# Under which name other libraries know the head of a kind of task.
_FIELD_NAMES = {
    "classification": "sequence_classification",
    "regression": "sequence_classification",
    "multi_label": "sequence_classification",
    "tagging": "token_classification",
    "question_answering": "question_answering",
    "multiple_choice": "multiple_choice",
}

_ANSWERS = "teacher_logits.npy"  # in the work directory of a student

_PROBLEM_TYPES = {
    "classification": "single_label_classification",
    "multi_label": "multi_label_classification",
    "regression": "regression",
}


class Teacher:
    """What a fine-tuned run answers to training examples; runs of several seeds answer as one, by the mean of their logits (an ensemble).

    Args:
        strategy: tf.distribute.Strategy. stream: where progress goes; standard output by default.
    """

    def __init__(self, strategy, stream=None):
        self._strategy = strategy
        self._stream = (stream or sys.stdout) if strategy is None or strategies.is_chief(strategy) else None
        self._asked = self._logits = None

    def logits(self, data, run, directories):
        """float32 [U, n] of the training examples, which are answered once though several seeds learn from them.

        Args:
            directories: of the runs that teach, as of seeds.sound.

        Raises:
            UserError: one has learned another task, or other labels.
        """
        asked = (directories, data.train.fingerprint())
        if self._asked != asked:
            self._logits, self._asked = self._logits_of(directories, data, run), asked
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
                f"--teacher={run.teacher}: answers {teacher.task.name} with {', '.join(teacher.labels[:6]) or 'numbers'};"
                f" expected a run of {data.task.name} with {', '.join(data.labels[:6]) or 'numbers'}"
            )
        if self._stream:
            unlabelled = (
                f" and {len(data.unlabelled_examples):,} texts without labels" if data.unlabelled_examples else ""
            )
            print(
                f"{run.teacher} teaches by {len(directories)} {'run' if len(directories) == 1 else 'runs'}: {len(data.train_examples):,} training "
                f"examples{unlabelled} are answered",
                file=self._stream,
                flush=True,
            )
        return teacher.logits([*data.train_examples, *data.unlabelled_examples])


def learn_from(answers, data):
    """Gives the training features what teachers answered, and to those without a label the likeliest of these answers for one.

    Args:
        answers: float32 [U, n], as Teacher.logits has them. data: labelled_data.Data.
    """
    data.train.labels["teacher_logits"] = answers
    likeliest = {
        "classification": lambda logits: logits.argmax(axis=1),
        "regression": lambda logits: logits[:, 0],
        "multi_label": lambda logits: logits > 0,
    }[data.task.kind]
    num_labelled = len(data.train_examples)
    data.train.labels["labels"][num_labelled:] = likeliest(answers[num_labelled:])


def keep_answers(workdir, logits):
    """Writes what a run's teachers answered, so that it need not ask again when it goes on, and goes on with the very same."""
    file = io.BytesIO()
    np.save(file, logits)
    tf.io.gfile.makedirs(str(workdir))
    work_directory.write_whole(work_directory.path_in(workdir, _ANSWERS), file.getvalue())


def kept_answers(workdir, data):
    """float32 [U, n] that keep_answers wrote; None where it is not there, as of runs of earlier versions, or is damaged."""
    try:
        with tf.io.gfile.GFile(work_directory.path_in(workdir, _ANSWERS), "rb") as file:
            logits = np.load(io.BytesIO(file.read()), allow_pickle=False)
    except (tf.errors.OpError, ValueError, EOFError):
        return None
    return logits if len(logits) == data.train.num_units else None


def in_units_of(head, data, begun=None):
    """The Head of a run over numbers of any size, which learns deviations from the mean of the training values in units of their own.

    At the rates of fine-tuning the weights of an output layer move by hundredths: values of hundreds would never be reached. Those of a
    task with a range (STS-B, 0 to 5) are learned as they are, as elsewhere.

    Args:
        head: Head, which is given back of other kinds of tasks. data: labelled_data.Data. begun: config.json, a dict, of a run that goes
            on as it began; None for a new one.
    """
    if data.task.kind != "regression" or data.task.value_range:
        return head
    if begun is not None:
        units = {name: begun.get("head", {}).get(name, getattr(head, name)) for name in ("scale", "offset")}
    else:
        values = data.known_labels().astype(np.float64)
        units = {"scale": float(values.std()) or 1.0, "offset": float(values.mean())}
    return dataclasses.replace(head, **units)


def begin_with_label_shares(model, data):
    """Gives a new output layer over label sets the log odds of each label in the training examples (Lin et al. 2017, section 3.3).

    Most labels are rare. A bias that begins at 0, where all are as likely as not, moves by hundredths at the rates of fine-tuning.
    """
    if data.task.kind == "multi_label":
        held = data.known_labels()
        share = (held.sum(axis=0) + 0.5) / (len(held) + 1.0)
        model.classifier.bias.assign(np.log(share / (1.0 - share)))


def with_new_layers(weights, lines, model, count):
    """(Weights, lines) with the model's own values, random as yet, for the `count` highest layers and the pooler.

    What the highest layers have learned is the nearest to their former task, and may be a worse start than none (Zhang et al. 2020,
    Revisiting Few-sample BERT Fine-tuning, section 5).
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
        [*lines, f"  begun anew: {', '.join(parts)}"],
    )


def trained_variables(model, run):
    """dict path -> tf.Variable of what a run trains: all but the embeddings and lowest layers that are frozen.

    The pooler is learned with the output layer: where the start had none it is random.
    """
    frozen = ()
    if run.freeze_layers:
        num_layers = run.freeze_layers if run.freeze_layers > 0 else model.config.num_hidden_layers
        frozen = ("encoder/embeddings/", *(f"encoder/layer_{index}/" for index in range(num_layers)))
    return {
        variable.path: variable.value for variable in model.trainable_variables if not variable.path.startswith(frozen)
    }


def first_steps(paths, run, num_layers):
    """dict path -> step from which on it is trained: gradual unfreezing, one layer more each so many steps."""
    if not run.gradual_unfreezing:
        return {}
    return {path: run.gradual_unfreezing * (num_layers + 1 - choice.depth(path, num_layers)) for path in paths}


def says_what_it_answers(weights, task):
    """Whether an output layer of unknown origin may be known by its labels for one of a task: where they are names, and not numbers alone.

    Of tags, of an answer's two ends and of choices the layer's shape says it.
    """
    if weights.task != "sequence_classification":
        return True
    is_of_kind = weights.problem_type in ("", _PROBLEM_TYPES.get(task.kind))
    return is_of_kind and bool(weights.labels) and not all(label.isdecimal() for label in weights.labels)


def of_the_same_task(weights, lines, head, task, labels):
    """(Weights, lines) with the output layer, where it is this head for these labels, and else without it."""
    tensors, own = weights.tensors, weights.own_head
    if own:
        as_ours = {**own.description, "dropout": head.dropout, "scale": head.scale, "offset": head.offset}
        is_ours = own.labels == labels and as_ours == dataclasses.asdict(head)
        if is_ours:
            tensors, lines = {**tensors, **own.tensors}, [line for line in lines if line != own.left_out]
        of, its_labels = "another kind" if own.labels == labels else "other labels", own.labels
    else:
        is_ours = head.is_plain and weights.task == _FIELD_NAMES[task.kind] and weights.labels == labels
        tensors = {path: tensor for path, tensor in tensors.items() if is_ours or not path.startswith("classifier/")}
        of, its_labels = weights.task, weights.labels
    if of and not is_ours:
        lines = [*lines, f"  left out: the output layer, of {of} ({', '.join(its_labels[:6]) or 'no labels'})"]
    if is_ours:
        tensors = {**tensors, **_in_units(tensors, head)}
        and_labels = f" and labels ({', '.join(labels[:6])})" if labels else ""
        lines = [*lines, f"  kept: the output layer, of the same kind{and_labels}"]
    return dataclasses.replace(weights, tensors=tensors), lines


def _in_units(tensors, head):
    """The output layer of numbers as they are, as one whose numbers are in the units of a Head."""
    return {
        "classifier/kernel": tensors["classifier/kernel"] / np.float32(head.scale),
        "classifier/bias": ((tensors["classifier/bias"] - head.offset) / head.scale).astype(np.float32),
    }


def notes_for_others(data, head):
    """Keys of config.json by which other programs, and convert, know the output layer; and our own description of it."""
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
