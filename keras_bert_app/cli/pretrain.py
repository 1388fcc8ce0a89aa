"""Pre-trains a BERT (masked language model and next-sentence prediction), a GPT, or LSTMs, on text files.

To train for half an hour on your text:
python -m keras_bert_app.cli.pretrain --recipe=small_budget --train_minutes=30 --input_files='texts/*.txt' \\
    --vocab_file=vocab.txt --workdir=runs/mine

To train a published size on a corpus that prepare_corpus wrote:
python -m keras_bert_app.cli.pretrain --recipe=original --config=base --corpus_dir=corpus --vocab_file=vocab.txt \\
    --workdir=runs/base

To continue with a published model on the texts of your domain:
python -m keras_bert_app.cli.pretrain --recipe=domain --init_checkpoint=hf://google-bert/bert-base-uncased \\
    --input_files='medical/*.txt' --workdir=runs/medical

A run that was stopped goes on with --workdir alone. If its text was still being prepared, give the same command again.
SIGINT (Ctrl-C) and SIGTERM let it finish the steps under way and save. The exit code is 130 or 143 after these
signals, 2 after an error, and 75 after the loss of a device.
"""

import contextlib
import dataclasses
import os
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from absl import flags

from keras_bert_app.cli.common import app, config_flags, flag_groups, written_places
from keras_bert_app.config.bert_config import SIZES, BertConfig
from keras_bert_app.config.lstm_config import LSTM_SIZES
from keras_bert_app.config.pretraining_config import PretrainingConfig
from keras_bert_app.errors import UserError
from keras_bert_app.interop.hub import is_handle
from keras_bert_app.recipes import load_recipe, model_values, recipe_names, run_values
from keras_bert_app.runs.work_directory import ExistingRun
from keras_bert_app.terminal.durations import duration
from keras_bert_app.terminal.progress import LiveLine, shown_while
from pipelines import storage
from pipelines.choices import SYMBOL_FORMATS
from pipelines.text.text_files import expand_files
from pipelines.wordpiece import vocabulary_checks
from pipelines.wordpiece.vocabulary import checked_pieces, load_vocabulary, parse_vocabulary, read_bytes

flags.DEFINE_string("workdir", "", "Directory of the run: configuration, checkpoints, metrics.")
_VOCAB_FILE = flags.DEFINE_string("vocab_file", "", "WordPiece vocabulary; learn_vocab makes one.")
_CONFIG = flags.DEFINE_string(
    "config",
    "",
    f"A published size ({', '.join(SIZES)}), a size of LSTMs ({', '.join(LSTM_SIZES)}) or a bert_config.json.",
)
_RECIPE = flags.DEFINE_string("recipe", "", f"Recipe that sets other defaults: {', '.join(recipe_names())}.")
_given_for_run = config_flags.define_flags(
    dataclasses.fields(PretrainingConfig),
    is_path=("input_files", "corpus_dir", "lexicon_file", "token_groups", "given_vectors"),
)

# Architecture -> flag without a meaning for it -> the reason.
_NOT_READ = {
    "gpt": {
        **dict.fromkeys(("is_causal", "type_vocab_size"), "a gpt is always causal and has no segments"),
        "carry_state": "a gpt has no state",
    },
    "lstm_lm": {
        **dict.fromkeys(("is_causal", "layer_norm_eps"), "an LSTM has no mask of attention and no LayerNorm"),
        "type_vocab_size": "an LSTM has no segments",
        "position_initializer": "an LSTM has no positions",
        "initializer_range": "an LSTM begins with the values of its paper's code",
    },
}

_given_for_model = config_flags.define_model_flags(
    leave_out=("vocab_size", "token_vectors", "token_vectors_shape")  # files decide them
)


def main(arguments):
    (workdir,) = app.required("workdir")
    recipe = load_recipe(_RECIPE.value) if _RECIPE.value else None
    given = _given_for_run()
    if (source := given.get("init_checkpoint")) and not is_handle(source):
        given["init_checkpoint"] = config_flags.absolute(source)
    existing = ExistingRun.read(workdir)
    # A complete command may begin again if the earlier start saved no checkpoint.
    is_whole = source or ((_CONFIG.value or recipe) and _VOCAB_FILE.value)
    goes_on = existing.is_started and (existing.has_begun or not is_whole)
    wanted = run_values(recipe, given, is_resumed=goes_on)
    if not goes_on:  # `resumed` below checks the values for a run that goes on
        PretrainingConfig(**wanted)  # reports a bad value before anything is read
        if existing.is_started:
            existing.config()  # raises if the directory is not a run but, for example, the model to start from
    vocabulary, initial = _read_vocabulary(), None
    if goes_on:
        model_config, run = existing.resumed(_wanted_model(vocabulary, existing, recipe, wanted), wanted, vocabulary)
    else:
        model_config, run, vocabulary, initial = _new_run(existing, recipe, wanted, vocabulary)
    run.checked_against(model_config)
    _check_text(run, goes_on)
    if run.input_files and not storage.exists(os.path.join(workdir, "corpus", "manifest.json")):
        expand_files(run.input_files)
    with _quiet_start():
        from keras_bert_app.training import pretraining_start
    # A run that continues, or that already trains for a given time, needs no advice.
    flags_for_time = "" if goes_on else "--train_minutes=60" if recipe else "--recipe=small_budget --train_minutes=60"
    pretraining_start.launch(
        workdir, model_config, run, vocabulary, initial, existing=existing, flags_for_time=flags_for_time
    )


def _new_run(existing: ExistingRun, recipe: ModuleType | None, wanted: dict[str, Any], vocabulary: bytes | None):
    """Returns (BertConfig, PretrainingConfig, vocabulary, (Weights, lines) or None) of a new run."""
    run = PretrainingConfig(**wanted).resolved()
    run.check_read(_given_for_run())
    if run.allow_missing and not run.init_checkpoint:
        raise UserError(
            f"--allow_missing={','.join(run.allow_missing)}: has no meaning without --init_checkpoint; leave out "
            "--allow_missing"
        )
    initial = None
    if run.init_checkpoint:
        with _quiet_start():
            from keras_bert_app.training.pretraining_start import load_initial
        initial = load_initial(run)
        if vocabulary is None and initial[0].vocabulary is not None:
            vocabulary = initial[0].vocabulary
            pieces = checked_pieces(vocabulary, f"of {run.init_checkpoint}")
            _verify(pieces, initial[0].config, f"of {run.init_checkpoint}")
    if vocabulary is None:
        raise UserError(
            f"--vocab_file is missing, and --workdir={existing.directory} holds no run to resume; "
            "make a vocabulary with learn_vocab"
        )
    model_config = _wanted_model(vocabulary, existing, recipe, wanted, initial and initial[0].config)
    for name, reason in _NOT_READ.get(model_config.architecture if model_config else "", {}).items():
        if name in {**_given_for_model(), **_given_for_run()}:
            raise UserError(f"--{name}: {reason}; leave --{name} out")
    if model_config and run.dupe_factor and run.carries_state(model_config):
        raise UserError(
            f"--dupe_factor={run.dupe_factor}: rows that continue each other are the same in all epochs; leave out "
            "--dupe_factor, or add --nocarry_state"
        )
    if model_config is None:
        raise UserError(f"--config is missing; name one of {', '.join((*SIZES, *LSTM_SIZES))}, or a bert_config.json")
    if initial:
        _check_same_arithmetic(model_config, initial[0].config, run.init_checkpoint)
    if _VOCAB_FILE.value:
        _verify(load_vocabulary(_VOCAB_FILE.value), model_config, _VOCAB_FILE.value)
    run = _with_format(run, model_config.tokenizer)
    if run.lexicon_file and not storage.exists(run.lexicon_file):
        raise UserError(f"--lexicon_file={run.lexicon_file}: there is no such file; give one phrase a line")
    return model_config, run, vocabulary, initial


def _with_format(run, tokenizer):
    """The run with the format of its tokenizer's text. Raises UserError for flags without a meaning for symbols."""
    if tokenizer != "symbols":
        return run
    config_flags.check_casing_flag(tokenizer)
    if run.input_format not in ("auto", *SYMBOL_FORMATS):
        raise UserError(
            f"--input_format={run.input_format}: would change lines of symbols; leave it out, also for JSON lines"
        )
    return dataclasses.replace(run, input_format="symbols") if run.input_format == "auto" else run


def _verify(pieces, config, name):
    vocabulary_checks.verify(pieces, config.tokenizer, config.do_lower_case, name)


@contextlib.contextmanager
def _quiet_start() -> Iterator[None]:
    """Does the same as app.quiet_start, and shows for how long TensorFlow has been loading."""
    line = LiveLine()
    with shown_while(lambda seconds: line.show(lambda: f"loading TensorFlow {duration(seconds)}")), app.quiet_start():
        yield
    line.clear()


def _check_text(run: PretrainingConfig, goes_on: bool) -> None:
    """Raises UserError unless the flags name exactly one text."""
    if bool(run.input_files) == bool(run.corpus_dir):
        raise UserError("give the text as --input_files or as --corpus_dir, but not as both")
    if len(set(run.corpus_dir)) < len(run.corpus_dir):
        raise UserError(f"--corpus_dir={','.join(run.corpus_dir)}: names a directory twice; name each once")
    for name in ("input_format", "text_field", "holdout_fraction", "strict"):
        if run.corpus_dir and not goes_on and name in _given_for_run():
            raise UserError(
                f"--{name}={getattr(run, name)}: is for --input_files; prepare_corpus has fixed it in --corpus_dir, "
                f"so leave out --{name}"
            )


def _read_vocabulary():
    """Returns the checked content of --vocab_file, or None without this flag."""
    if not _VOCAB_FILE.value:
        return None
    load_vocabulary(_VOCAB_FILE.value)
    return read_bytes(_VOCAB_FILE.value)


def _wanted_model(vocabulary, existing, recipe, wanted, initial_config=None):
    """Returns the BertConfig that the user wants, or None if nothing names one.

    --config names the model, else --init_checkpoint, else the recipe. The recipe's keys, then the model's flags, change
    its values.
    """
    name = _CONFIG.value or (recipe.CONFIG if recipe and not wanted.get("init_checkpoint") else "")
    if initial_config and not name:
        num_pieces = len(parse_vocabulary(vocabulary)[0])
        if num_pieces > initial_config.vocab_size:
            raise UserError(
                f"--vocab_file={_VOCAB_FILE.value} has {num_pieces:,} entries, but --init_checkpoint="
                f"{wanted['init_checkpoint']} has {initial_config.vocab_size:,} rows; convert --vocab_file adds rows"
            )
        return initial_config.replace(**_changes(recipe, initial_config.architecture))
    earlier = existing.config()[0] if existing.is_started else None
    vocab_size = earlier.vocab_size if earlier else None
    if vocabulary is not None:
        vocab_size = len(parse_vocabulary(vocabulary)[0])
    if not name:
        return earlier.replace(**_changes(recipe, earlier.architecture)) if earlier else None
    if name in SIZES or name in LSTM_SIZES:
        changes = _changes(recipe, "lstm_lm" if name in LSTM_SIZES else "bert")
        return BertConfig.of_size(name, **({"vocab_size": vocab_size} if vocab_size else {}), **changes)
    if "." not in os.path.basename(name) and not storage.exists(name):
        BertConfig.of_size(name)  # the error names the nearest size
    config = BertConfig.from_json_file(name, print)
    config = config.replace(**_changes(recipe, config.architecture))
    # A table may have more rows than the vocabulary has entries. With fewer rows, ids would read out of bounds.
    if vocab_size is not None and vocab_size > config.vocab_size:
        raise UserError(
            f"--vocab_file={_VOCAB_FILE.value} has {vocab_size:,} entries, but --config={name} has "
            f"vocab_size {config.vocab_size:,}; raise vocab_size in that file"
        )
    return config


def _changes(recipe, architecture):
    """The values of the model's keys that the recipe or the flags give."""
    return model_values(recipe, architecture) | _given_for_model()


def _check_same_arithmetic(config, source, init_checkpoint):
    """Raises UserError if the weights need another value of a key that changes the outputs but not the shapes."""
    for name in (
        "architecture",
        "num_attention_heads",
        "hidden_act",
        "layer_norm_eps",
        "tokenizer",  # before do_lower_case, which follows from it
        "do_lower_case",
        "is_causal",
        "channels",
        "positions",
        "token_vectors",
        "token_fusion",
    ):
        ours, theirs = getattr(config, name), getattr(source, name)
        if ours != theirs:
            raise UserError(
                f"{name} {ours!r} was given, but --init_checkpoint={init_checkpoint} has {theirs!r}; "
                "leave out --config and the flags of its keys, so that --init_checkpoint gives these values"
            )


if __name__ == "__main__":
    app.run(main, __doc__, writes={"workdir": written_places.RUN}, grouped=flag_groups.PRETRAIN)
