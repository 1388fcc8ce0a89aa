"""Pre-trains a BERT (masked language model and next-sentence prediction) on text files.

python -m keras_bert_app.cli.pretrain --input_files='texts/*.txt' --vocab_file=vocab.txt --config=mini --workdir=runs/mine

A run that was stopped goes on with --workdir alone.
"""

import dataclasses
import os

from absl import flags

from keras_bert_app.cli import app
from keras_bert_app.config import SIZES, BertConfig
from keras_bert_app.errors import UserError
from keras_bert_app.run_config import PretrainingConfig
from keras_bert_app.training import workdir as workdirs
from pipelines.readers import expand_files
from pipelines.vocab import load_vocabulary, read_bytes

flags.DEFINE_string("workdir", "", "Directory of the run: configuration, checkpoints, metrics.")
_VOCAB_FILE = flags.DEFINE_string("vocab_file", "", "WordPiece vocabulary; learn_vocab makes one.")
_CONFIG = flags.DEFINE_string("config", "", f"A published size ({', '.join(SIZES)}) or a bert_config.json.")
_DEFINE = {str: flags.DEFINE_string, int: flags.DEFINE_integer, float: flags.DEFINE_float, bool: flags.DEFINE_bool,
           tuple: flags.DEFINE_list}
for _field in dataclasses.fields(PretrainingConfig):
    _choices = f" One of: {', '.join(_field.metadata['choices'])}." if _field.metadata["choices"] else ""
    _default = f" Default: {_field.default}." if _field.default not in ("", ()) else ""
    # No default of its own: a flag that is not given is taken from the run that is resumed, or from the dataclass.
    _DEFINE[_field.type](_field.name, None, f"{_field.metadata['help']}{_choices}{_default}")

# Keys of the model's config that a flag may change; vocab_size follows from the vocabulary.
_MODEL_FIELDS = [field for field in dataclasses.fields(BertConfig) if field.name != "vocab_size"]
for _field in _MODEL_FIELDS:
    _DEFINE[_field.type](_field.name, None, f"In place of the {_field.name} of --config.")


def main(arguments):
    if arguments:
        raise UserError(f"unexpected argument {arguments[0]!r}; this command takes flags only")
    (workdir,) = app.required("workdir")
    wanted = _wanted_run()
    vocabulary_bytes = _read_vocabulary()
    # A start that never came to a checkpoint may be begun anew by a whole command.
    if workdirs.is_started(workdir) and (workdirs.has_checkpoint(workdir) or not (_CONFIG.value and _VOCAB_FILE.value)):
        model_config, run = workdirs.check_resumable(
            workdir, _wanted_model(vocabulary_bytes, workdir), wanted, vocabulary_bytes)
    else:
        run = PretrainingConfig(**wanted).resolved()
        if vocabulary_bytes is None:
            raise UserError(f"--vocab_file is missing, and --workdir={workdir} holds no run to resume; "
                            "make a vocabulary with learn_vocab")
        model_config = _wanted_model(vocabulary_bytes, workdir)
        if model_config is None:
            raise UserError(f"--config is missing; name one of {', '.join(SIZES)}, or a bert_config.json")
    run.checked_against(model_config)
    if bool(run.input_files) == bool(run.corpus_dir):
        raise UserError("give the text as either --input_files or --corpus_dir, and not as both")
    if run.input_files and not workdirs.exists(workdirs.path_in(workdir, "corpus", "manifest.json")):
        expand_files(run.input_files)
    with app.quiet_start():
        from keras_bert_app.training import launch
    launch.launch(workdir, model_config, run, vocabulary_bytes)


def _wanted_run():
    """The fields of PretrainingConfig that were given as flags; paths made absolute, so that any directory resumes."""
    given = {}
    for field in dataclasses.fields(PretrainingConfig):
        value = flags.FLAGS[field.name].value
        if value is None:
            continue
        if field.name in ("corpus_dir", "init_checkpoint"):
            value = _absolute(value)
        given[field.name] = tuple(map(_absolute, value)) if isinstance(value, list) else value
    PretrainingConfig(**given)  # a bad value is named before anything is read
    return given


def _absolute(path):
    return path if "://" in path or not path else os.path.abspath(path)


def _read_vocabulary():
    """The bytes of --vocab_file after a check, or None when it was not given."""
    if not _VOCAB_FILE.value:
        return None
    load_vocabulary(_VOCAB_FILE.value)
    return read_bytes(_VOCAB_FILE.value)


def _wanted_model(vocabulary_bytes, workdir):
    """The BertConfig that --config, --vocab_file and the model's flags ask for; None when there is no --config."""
    changes = {field.name: flags.FLAGS[field.name].value for field in _MODEL_FIELDS
               if flags.FLAGS[field.name].value is not None}
    is_started = workdirs.is_started(workdir)
    vocab_size = workdirs.read_config(workdir)[0].vocab_size if is_started else None
    if vocabulary_bytes is not None:
        vocab_size = len(load_vocabulary(_VOCAB_FILE.value))
    if not _CONFIG.value:
        return workdirs.read_config(workdir)[0].replace(**changes) if is_started else None
    if _CONFIG.value in SIZES:
        return BertConfig.of_size(_CONFIG.value, **({"vocab_size": vocab_size} if vocab_size else {}), **changes)
    if "." not in os.path.basename(_CONFIG.value) and not workdirs.exists(_CONFIG.value):
        BertConfig.of_size(_CONFIG.value)  # says which size is nearest
    config = BertConfig.from_json_file(_CONFIG.value).replace(**changes)
    # A table with more rows than the vocabulary is harmless; one with fewer is read out of bounds.
    if vocab_size is not None and vocab_size > config.vocab_size:
        raise UserError(f"--vocab_file={_VOCAB_FILE.value} has {vocab_size:,} entries but --config={_CONFIG.value} has "
                        f"vocab_size {config.vocab_size:,}; raise it there")
    return config


if __name__ == "__main__":
    app.run(main, __doc__)
