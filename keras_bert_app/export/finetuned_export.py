"""Export of a fine-tuned run: its task's answers from raw text, and the same from ids."""

import dataclasses
import json

import tensorflow as tf

from keras_bert_app.config.finetuning_config import FinetuningConfig
from keras_bert_app.errors import UserError
from keras_bert_app.export import litert_export, saved_models
from keras_bert_app.export.choice_answers import ChoiceModule
from keras_bert_app.export.question_answers import QuestionAnsweringModule
from keras_bert_app.export.sequence_answers import SequenceModule
from keras_bert_app.export.specs import shape_text
from keras_bert_app.export.tagging_answers import TaggingModule
from keras_bert_app.files import read_json
from keras_bert_app.runs import checkpoints, seeds, work_directory
from keras_bert_app.tasks import results
from keras_bert_app.tasks.families import multiple_choice, question_answering, sequences, tagging
from keras_bert_app.tasks.scoring import FinetunedRun
from keras_bert_app.training import strategies

MAX_WINDOWS = 64  # of a long text: enough for 8,000 tokens, and a bound on the time that one text can cost


class IdsModule(tf.Module):
    """The signature over ids of another module, alone: it loads where tensorflow-text's kernels are missing."""

    def __init__(self, module):
        super().__init__(name=f"{module.name}_ids")
        self.about = dataclasses.replace(module.about, kind="ids", examples={})
        self.model_variables = module.model_variables
        self.exported = {"serving_default": module.exported["ids"]}


def is_finetuned(path):
    """Whether a fine-tuning run, or several seeds of one, live in a directory."""
    try:
        values = read_json(work_directory.path_in(seeds.best_run(str(path)), "config.json"))
    except (UserError, tf.errors.UnimplementedError):  # of a handle, hf:// or a preset's, there is no such file system
        return False
    return FinetuningConfig.KEY in values


def refuse_single_checkpoint(path):
    """Raises UserError where a path is one checkpoint of a fine-tuning run: its answers are made with the best one, as tuned for it."""
    if checkpoints.is_checkpoint_name(path) and not work_directory.is_started(path):
        directory, _ = checkpoints.find(path)
        if is_finetuned(directory):
            raise UserError(
                f"--workdir={path}: is a checkpoint of a fine-tuned run, whose best weights are exported; give --workdir={directory}"
            )


def export_finetuned(workdir, export_dir, max_windows=MAX_WINDOWS, has_litert=False):
    """Writes EXPORT_DIR/VERSION and EXPORT_DIR_ids/VERSION from the best weights of a run.

    Args:
        workdir: of the run; of several seeds the best one is taken. max_windows: most windows of a long text, of tagging
            and question answering. has_litert: whether a LiteRT model is laid beside the ids export.

    Returns:
        (directory of the raw-text export, directory of the ids export).

    Raises:
        UserError: no fine-tuning run lives there, or it has saved nothing yet.
    """
    export_dir = str(export_dir).rstrip("/")
    if not export_dir:
        raise UserError("--export_dir is empty; name a directory such as saved_models/my_task")
    # Answers in the numbers of one machine, whatever the run was trained on.
    finetuned = FinetunedRun(workdir, {"precision": "float32"}, strategies.make_strategy("one_device"))
    values = read_json(work_directory.path_in(finetuned.directory, "config.json"))

    def make():
        return _module(finetuned, values["inputs"], max_windows)

    module = make()
    files = {
        "config.json": (json.dumps(finetuned.model.config.to_dict(), indent=2) + "\n").encode(),
        "vocab.txt": work_directory.read_vocabulary(finetuned.directory),
    }
    facts = _facts(finetuned)
    version = saved_models.next_version(export_dir, f"{export_dir}_ids")
    of_ids = IdsModule(module)
    converted = litert_export.files(lambda: IdsModule(make())) if has_litert else {}
    ids = saved_models.write_saved_model(of_ids, f"{export_dir}_ids", version, {**files, **converted}, facts)
    # The raw-text export comes last: once it is there, both are.
    return saved_models.write_saved_model(module, export_dir, version, files, facts), ids


def _module(finetuned, inputs, max_windows):
    family = finetuned.task.family
    if family is sequences:
        return SequenceModule(finetuned, inputs)
    if family is multiple_choice:
        return ChoiceModule(finetuned, inputs)
    return {tagging: TaggingModule, question_answering: QuestionAnsweringModule}[family](finetuned, max_windows)


def _facts(finetuned):
    """What a model card tells of a run, dict heading -> lines."""
    run, task = finetuned.run, finetuned.task
    found = results.of_best_weights(finetuned.directory)
    facts = {
        "Trained on": [
            f"task {task.name}: {task.summary}",
            f"from {'a pre-trained model' if run.init_checkpoint else 'random weights'}, batches of {run.global_batch_size} examples, "
            f"learning rate {run.learning_rate:g}, seed {run.seed}"
            + (f"; the weights of step {found['best_step']:,} of {found['num_train_steps']:,}" if found else ""),
            shape_text(finetuned.model.config),
        ]
    }
    if found:
        baseline = found["baseline"]
        facts["Scores"] = [
            f"{name} {value:.4f} on {found['dev_examples']:,} development examples; {baseline[name]:.4f} for what "
            f"needs no model ({baseline['what']})"
            for name, value in found["dev"].items()
        ]
    facts["Limits"] = [
        f"texts of the kind, language and casing of the training data; rows of {run.max_seq_length} tokens, and an answer says "
        "when something of a text was not read (truncated)",
        "probabilities are the model's own and were not calibrated",
    ]
    return facts
