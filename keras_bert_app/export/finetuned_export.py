"""Exports a fine-tuned run. The exports answer its task for raw text and for rows of ids."""

import dataclasses
import json
import os
from collections.abc import Callable

import tensorflow as tf

from keras_bert_app.config.finetuning_config import FinetuningConfig
from keras_bert_app.errors import UserError
from keras_bert_app.export import litert_export, saved_models
from keras_bert_app.export.choice_answers import ChoiceModule
from keras_bert_app.export.question_answers import QuestionAnsweringModule
from keras_bert_app.export.rerank_answers import RerankModule
from keras_bert_app.export.sequence_answers import SequenceModule
from keras_bert_app.export.specs import shape_text
from keras_bert_app.export.tagging_answers import TaggingModule
from keras_bert_app.export.text_answers import TextToTextModule
from keras_bert_app.interop.hub import is_handle
from keras_bert_app.interop.weights import check_finite
from keras_bert_app.modeling.execution import PLAIN
from keras_bert_app.runs import checkpoints, seeds, work_directory
from keras_bert_app.runs.work_directory import ExistingRun
from keras_bert_app.tasks import results
from keras_bert_app.tasks.families import (
    multiple_choice,
    question_answering,
    reranking,
    sequences,
    tagging,
    text_to_text,
    text_vectors,
)
from keras_bert_app.tasks.scoring import FinetunedRun
from keras_bert_app.training import strategies

# The most windows of a long text. The limit bounds the time for one text. With the default doc_stride of 128 the
# windows hold about 8,000 tokens.
MAX_WINDOWS = 64


class IdsModule(tf.Module):
    """A module with only the signature over ids of another module.

    A program can load it without the kernels of tensorflow-text.

    Args:
        module: tf.Module of a task, with a signature "ids".
    """

    def __init__(self, module: tf.Module):
        super().__init__(name=f"{module.name}_ids")
        self.about = dataclasses.replace(module.about, kind="ids", examples={})
        self.model_variables = module.model_variables
        self.exported = {"serving_default": module.exported["ids"]}


def is_finetuned(path: str | os.PathLike) -> bool:
    """Returns whether a directory holds a fine-tuning run, or several seeds of one.

    Args:
        path: str. A directory, or a handle such as hf://.

    Returns:
        bool. False for a handle.
    """
    return not is_handle(str(path)) and FinetuningConfig.KEY in seeds.configuration(path)


def refuse_single_checkpoint(path: str) -> None:
    """Refuses a single checkpoint of a fine-tuning run.

    An export takes the best checkpoint, with the values that were tuned for it.

    Args:
        path: str. A work directory or a checkpoint.

    Raises:
        UserError: the path is a checkpoint of a fine-tuning run.
    """
    if checkpoints.is_checkpoint_name(path) and not work_directory.is_started(path):
        directory, _ = checkpoints.find(path)
        if is_finetuned(directory):
            raise UserError(
                f"--workdir={path}: is one checkpoint of a fine-tuned run, but the export takes the run's best "
                f"weights; give --workdir={directory}"
            )


def export_finetuned(
    workdir: str, export_dir: str, max_windows: int = MAX_WINDOWS, has_litert: bool = False
) -> tuple[str, str]:
    """Exports the best weights of a run as EXPORT_DIR/VERSION and EXPORT_DIR_ids/VERSION.

    Args:
        workdir: str. The work directory of the run. If it has several seeds, the best one is exported.
        export_dir: str. The directory of the versions.
        max_windows: int. The most windows of a long text, for tagging and question answering.
        has_litert: bool. Whether to write a LiteRT model into the ids export.

    Returns:
        (directory of the raw-text export, directory of the ids export).

    Raises:
        UserError: the directory holds no fine-tuning run, the run has not saved anything yet, or EXPORT_DIR has
            versions of another kind or task.
    """
    export_dir = str(export_dir).rstrip("/")
    if not export_dir:
        raise UserError("--export_dir is empty; name a directory such as saved_models/my_task")
    # The export computes in float32 on one device. The precision and devices of the training run do not matter.
    finetuned = FinetunedRun(workdir, {"precision": "float32"}, strategies.make_strategy("one_device"))
    if has_litert and finetuned.task.family is text_to_text:
        raise UserError("--litert: the loop that writes a text has no LiteRT model; leave out --litert")
    saved_models.refuse_another_kind(export_dir, finetuned.task.kind, finetuned.task.name)
    saved_models.refuse_another_kind(f"{export_dir}_ids", "ids", finetuned.task.name)
    existing = ExistingRun.read(finetuned.directory)
    check_finite({variable.path: variable.numpy() for variable in finetuned.model.weights}, finetuned.checkpoint)

    def make_module(execution=PLAIN):
        return _module(finetuned, existing.note("inputs"), max_windows, execution)

    module = make_module()
    files = {
        "config.json": (json.dumps(finetuned.model.config.to_dict(), indent=2) + "\n").encode(),
        "vocab.txt": existing.vocabulary(),
    }
    if (target_vocabulary := existing.target_vocabulary()) is not None:
        files["target_vocab.txt"] = target_vocabulary
    facts = _facts(finetuned)
    version = saved_models.next_version(export_dir, f"{export_dir}_ids")
    ids_module = IdsModule(module)
    converted = litert_export.files(lambda execution: IdsModule(make_module(execution))) if has_litert else {}
    # The raw-text export comes last. If it exists, both exports exist.
    exports = (
        saved_models.Export(ids_module, f"{export_dir}_ids", {**files, **converted}, facts),
        saved_models.Export(module, export_dir, files, facts),
    )
    ids, raw_text = saved_models.write_together([export.export_dir for export in exports], version, exports)
    return raw_text, ids


def raw_text_function(workdir: str, changes: dict | None = None) -> tuple[Callable, tuple[str, ...]]:
    """Makes the raw-text function of an export in this process, without writing an export.

    Args:
        workdir: str. The work directory of the run. If it has several seeds, the best one answers.
        changes: dict of fields of FinetuningConfig. See FinetunedRun.

    Returns:
        (function of keyword arguments, one string tensor for each input, that returns a dict of tensors; names of the
        inputs).

    Raises:
        UserError: the directory holds no fine-tuning run, or the run has not saved anything yet.
    """
    changes = {"precision": "float32", **(changes or {})}
    finetuned = FinetunedRun(workdir, changes, strategies.make_strategy("one_device"))
    inputs = ExistingRun.read(finetuned.directory).note("inputs")
    max_windows = finetuned.run.max_windows if "max_windows" in changes else MAX_WINDOWS
    return _module(finetuned, inputs, max_windows).exported["serving_default"], tuple(inputs)


def _module(finetuned, inputs, max_windows, execution=PLAIN):
    family = finetuned.task.family
    if family is text_vectors:
        raise UserError(
            f"{finetuned.directory}: is a run of --task=similarity, which gives vectors of texts; give it to embed as "
            "--init_checkpoint, or export it"
        )
    if family is sequences:
        return SequenceModule(finetuned, inputs, execution)
    if family is text_to_text:
        return TextToTextModule(finetuned, execution)
    if family is multiple_choice:
        return ChoiceModule(finetuned, inputs, execution)
    if family is reranking:
        return RerankModule(finetuned, execution)
    return {tagging: TaggingModule, question_answering: QuestionAnsweringModule}[family](
        finetuned, max_windows, execution
    )


def _facts(finetuned):
    """Collects the facts of a model card about a run. Returns a dict from heading to lines."""
    run, task = finetuned.run, finetuned.task
    steps, score_lines = _scores(finetuned.directory)
    facts = {
        "Trained on": [
            f"task {task.name}: {task.summary}",
            f"from {'a pre-trained model' if run.init_checkpoint else 'random weights'}, batches of "
            f"{run.global_batch_size} examples, learning rate {run.learning_rate:g}, seed {run.seed}" + steps,
            shape_text(finetuned.model.config),
        ]
    }
    if score_lines:
        facts["Scores"] = score_lines
    facts["Limits"] = [
        f"texts of the kind, language and casing of the training data; rows of {run.max_seq_length} tokens; the "
        "output `truncated` says whether the model left out a part of a text",
        "probabilities are the model's own and were not calibrated",
    ]
    return facts


def _scores(directory):
    """Returns (words about the step of the best weights, lines about their scores); ("", []) before the run ends."""
    scores = results.read_best_weights(directory)
    if "reported" not in scores:
        return "", []
    try:
        baseline, reported = scores["baseline"], scores["reported"]
        low, high = reported["interval"]
        lines = [
            f"{name} {value:.4f}{f' (95 % interval {low:.4f} to {high:.4f})' if name == scores['metric'] else ''} on "
            f"{reported['examples']:,} examples of {reported['on']}; {baseline['metrics'][name]:.4f} for a baseline "
            f"that needs no model ({baseline['what']})"
            for name, value in reported["metrics"].items()
        ]
        return f"; the weights of step {scores['best']['step']:,} of {scores['num_train_steps']:,}", lines
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        path = work_directory.path_in(directory, "results.json")
        raise UserError(
            f"{path}: is not what finetune writes ({type(error).__name__}: {str(error)[:80]}); restore the run's own "
            "file, or delete it to export without scores"
        ) from None
