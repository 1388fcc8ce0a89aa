"""Fine-tuning as a function for Python, with the fields of FinetuningConfig as keyword arguments."""

import dataclasses
import os
from typing import Any, TextIO

from keras_bert_app.config.bert_config import SIZES, TRANSFORMER_SIZES, BertConfig
from keras_bert_app.config.finetuning_config import PATHS, PATHS_OR_HANDLES, FinetuningConfig
from keras_bert_app.errors import UserError, nearest
from keras_bert_app.interop.hub import is_handle
from keras_bert_app.tasks import finetuning_start, registry, run_plan
from pipelines import storage
from pipelines.wordpiece import casing, vocabulary_checks
from pipelines.wordpiece.vocabulary import load_vocabulary, read_bytes

_PATHS = PATHS + PATHS_OR_HANDLES
# Fine-tuning limits an evaluation by max_eval_examples and does not read max_eval_steps.
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
    """Fine-tunes a BERT on labelled files, or resumes the run of a directory.

    The function does the same as the finetune command.

    Args:
        workdir: str or os.PathLike. Directory of the run.
        task: str. A name of list_tasks, such as "classification".
        data_dir: str or os.PathLike. The directory of the task's files, or the one file of its training examples.
        init_checkpoint: str or os.PathLike. The pre-trained model, in any layout that load_pretrained reads.
        config: without init_checkpoint: BertConfig, a published size or the path of a bert_config.json.
        vocab_file: without init_checkpoint: the WordPiece vocabulary.
        random_init: bool. Whether to take only the shape and vocabulary of init_checkpoint, for a baseline.
        num_seeds: int. Number of runs. Several runs have consecutive seeds and live in WORKDIR/seed-N.
        stream: file for progress lines; standard output by default.
        **settings: further fields of FinetuningConfig, such as learning_rate=3e-5.

    Returns:
        dict of results, the content of WORKDIR/results.json: scores of the best weights next to those of a baseline.

    Raises:
        UserError: an argument or a file does not fit. The message names it and says how to correct it.
        Interrupted: SIGINT (Ctrl-C) or SIGTERM came. The run is saved; the same call resumes it.

    Example:
        finetune("runs/teams", "classification", "tickets", "runs/mine", text_columns=("subject", "body"))
    """
    given = {"task": task, "data_dir": data_dir, "init_checkpoint": init_checkpoint}
    wanted = {name: _typed(name, value) for name, value in {**settings, **given}.items() if value or name in settings}
    FinetuningConfig(**wanted)  # reports a bad value before any file is read
    source = source_of(wanted.get("init_checkpoint", ""), not random_init, config, _text(vocab_file))
    return finetuning_start.launch(_text(workdir), wanted, num_seeds, source, stream)


def list_tasks() -> dict[str, str]:
    """The tasks of finetune: dict name -> a description that names the files in data_dir."""
    tasks = {}
    for name, task in registry.TASKS.items():
        files = dict.fromkeys(names[0].replace("{all}", "*") for names in task.files.values())
        tasks[name] = f"{task.summary}; files {', '.join(files)}"
    return tasks


def source_of(
    init_checkpoint: str, takes_weights: bool, config: BertConfig | str | None, vocab_file: str
) -> run_plan.Source:
    """The Source of a fine-tuning run.

    Args:
        init_checkpoint: the model to start from, or "".
        takes_weights: whether the run uses the weights of init_checkpoint. If not, the run uses only the shape and
            the vocabulary of that model.
        config: without init_checkpoint: BertConfig, a published size or the path of a bert_config.json. None or ""
            to resume a run. A size takes do_lower_case from the entries of the vocabulary.
        vocab_file: without init_checkpoint: the path of the vocabulary.

    Raises:
        UserError: the arguments contradict each other.
        DataError: the vocabulary cannot work with do_lower_case of config.
    """
    if init_checkpoint and (config or vocab_file):
        raise UserError(
            "--init_checkpoint has its own configuration and vocabulary; leave out --config and --vocab_file"
        )
    if not takes_weights and not init_checkpoint:
        raise UserError("--random_init takes the shape of --init_checkpoint, which is missing")
    if bool(config) != bool(vocab_file):
        raise UserError("--config and --vocab_file go together; give both of them, or give --init_checkpoint")
    if not config:
        return run_plan.Source(init_checkpoint or None, takes_weights)
    pieces = load_vocabulary(vocab_file)
    if not isinstance(config, BertConfig):
        config = (
            BertConfig.of_size(config, vocab_size=len(pieces), do_lower_case=casing.fits(pieces, True))
            if config in SIZES | TRANSFORMER_SIZES or not storage.exists(config)
            else BertConfig.from_json_file(config, print)
        )
    vocabulary_checks.verify(pieces, config.tokenizer, config.do_lower_case, _text(vocab_file))
    return run_plan.Source(None, False, config, read_bytes(vocab_file))


def _typed(name, value):
    """A value in the form of FinetuningConfig: tuples for lists, absolute paths.

    Raises:
        UserError: there is no such field.
    """
    if name not in FIELDS:
        raise UserError(f"{name} is not an argument of finetune: {nearest(name, FIELDS)}")
    if FIELDS[name].type is tuple:
        values = value if isinstance(value, list | tuple) else (value,)
        return tuple(_path(name, _text(each)) for each in values)
    return _path(name, _text(value)) if name in _PATHS else value


def _path(name, value):
    return storage.absolute(value) if name in _PATHS and value and not is_handle(value) else value


def _text(value):
    """A path, a name or the number of a column as str."""
    return os.fspath(value) if isinstance(value, os.PathLike) else str(value)
