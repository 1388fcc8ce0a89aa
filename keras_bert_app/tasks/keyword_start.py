"""Fine-tuning as a function, for callers from Python: the fields of FinetuningConfig are its keyword arguments."""

import dataclasses
import os
from typing import Any, TextIO

from keras_bert_app.config.bert_config import SIZES, BertConfig
from keras_bert_app.config.finetuning_config import FinetuningConfig
from keras_bert_app.errors import UserError, nearest
from keras_bert_app.interop.hub import is_handle
from keras_bert_app.tasks import finetuning_start, registry
from pipelines import storage
from pipelines.wordpiece.vocabulary import load_vocabulary, read_bytes

PATHS = ("data_dir", "unlabelled_files", "init_checkpoint", "teacher")
# max_eval_examples limits an evaluation, so that max_eval_steps has no meaning here.
FIELDS = {field.name: field for field in dataclasses.fields(FinetuningConfig) if field.name != "max_eval_steps"}


def finetune(
    workdir: str | os.PathLike,
    task: str = "",
    data_dir: str | os.PathLike = "",
    init_checkpoint: str | os.PathLike = "",
    *,
    config: BertConfig | str | None = None,
    vocab_file: str | os.PathLike = "",
    random_init: bool = False,
    num_seeds: int = 1,
    stream: TextIO | None = None,
    **settings: Any,
) -> dict[str, Any]:
    """Fine-tunes a BERT on labelled files, as the finetune command does, or goes on with the run of a directory.

    Args:
        workdir: str or os.PathLike. Directory of the run.
        task: str. A name of list_tasks, such as "classification".
        data_dir: str or os.PathLike. The directory of the task's files.
        init_checkpoint: str or os.PathLike. The pre-trained model, in any layout that load_pretrained reads.
        config: without init_checkpoint: BertConfig, a published size or the path of a bert_config.json.
        vocab_file: without init_checkpoint: the WordPiece vocabulary.
        random_init: bool. Whether to take only the shape and vocabulary of init_checkpoint, for a baseline.
        num_seeds: int. Runs, each with a seed one higher, in WORKDIR/seed-N.
        stream: where progress goes; standard output by default.
        **settings: further fields of FinetuningConfig, such as learning_rate=3e-5.

    Returns:
        dict of results, as WORKDIR/results.json has it: the scores of the best weights, beside those of a baseline.

    Raises:
        UserError: something does not fit. The message names the argument and how to mend it.
        Interrupted: SIGINT (Ctrl-C) or SIGTERM came. The run is saved; the same call goes on with it.

    Example:
        finetune("runs/teams", "classification", "tickets", "runs/mine", text_columns=("subject", "body"))
    """
    given = {"task": task, "data_dir": data_dir, "init_checkpoint": init_checkpoint}
    wanted = {name: _typed(name, value) for name, value in {**settings, **given}.items() if value or name in settings}
    FinetuningConfig(**wanted)  # a bad value is named before anything is read
    source = source_of(wanted.get("init_checkpoint", ""), not random_init, config, _text(vocab_file))
    return finetuning_start.launch(_text(workdir), wanted, num_seeds, source, stream)


def list_tasks() -> dict[str, str]:
    """The tasks of finetune: dict name -> what it is, and the files that it expects in data_dir."""
    tasks = {}
    for name, task in registry.TASKS.items():
        files = dict.fromkeys(names[0].replace("{all}", "*") for names in task.files.values())
        tasks[name] = f"{task.summary}; files {', '.join(files)}"
    return tasks


def source_of(
    init_checkpoint: str, takes_weights: bool, config: BertConfig | str | None, vocab_file: str
) -> finetuning_start.Source:
    """The Source of a fine-tuning.

    Args:
        init_checkpoint: the model to start from, or "".
        takes_weights: whether its weights are used, and not its shape and vocabulary alone.
        config: without init_checkpoint: BertConfig, a published size or the path of a bert_config.json. None or "" for
            a run that goes on.
        vocab_file: without init_checkpoint: the path of the vocabulary.

    Raises:
        UserError: the arguments contradict each other.
    """
    if init_checkpoint and (config or vocab_file):
        raise UserError(
            "--init_checkpoint brings its configuration and vocabulary; leave out --config and --vocab_file"
        )
    if not takes_weights and not init_checkpoint:
        raise UserError("--random_init takes the shape of --init_checkpoint, which is missing")
    if bool(config) != bool(vocab_file):
        raise UserError("--config and --vocab_file go together; or give --init_checkpoint")
    if not config:
        return finetuning_start.Source(init_checkpoint or None, takes_weights)
    num_pieces = len(load_vocabulary(vocab_file))
    if not isinstance(config, BertConfig):
        config = (
            BertConfig.of_size(config, vocab_size=num_pieces)
            if config in SIZES or not storage.exists(config)
            else BertConfig.from_json_file(config, print)
        )
    return finetuning_start.Source(None, False, config, read_bytes(vocab_file))


def _typed(name, value):
    """A value as FinetuningConfig has it: tuples for lists, absolute paths.

    Raises:
        UserError: there is no such field.
    """
    if name not in FIELDS:
        raise UserError(f"{name} is no argument of finetune: {nearest(name, FIELDS)}")
    if FIELDS[name].type is tuple:
        values = value if isinstance(value, list | tuple) else (value,)
        return tuple(_path(name, _text(each)) for each in values)
    return _path(name, _text(value)) if name in PATHS else value


def _path(name, value):
    return storage.absolute(value) if name in PATHS and value and not is_handle(value) else value


def _text(value):
    """str for a path; numbers of columns as text, too."""
    return os.fspath(value) if isinstance(value, os.PathLike) else str(value)
