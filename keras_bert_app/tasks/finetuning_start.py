"""The start of fine-tuning: one run, or one run for each of several seeds."""

import os
from typing import Any, TextIO

import numpy as np
import tensorflow as tf

from keras_bert_app.config.bert_config import BertConfig
from keras_bert_app.config.finetuning_config import FinetuningConfig
from keras_bert_app.config.prompts import NO_PROMPTS, ROLES
from keras_bert_app.config.text_to_text_options import ROWS_MULTIPLE
from keras_bert_app.errors import NotFinite, UserError
from keras_bert_app.interop import hub
from keras_bert_app.interop.huggingface import sentence_transformers_files
from keras_bert_app.modeling.task_head import Head, without_cls
from keras_bert_app.modeling.vector_model import VectorHead
from keras_bert_app.runs import seeds
from keras_bert_app.runs.shared_tokenizer import run_tokenizer
from keras_bert_app.runs.work_directory import ExistingRun
from keras_bert_app.tasks import (
    batch_plans,
    context_lstm,
    mlm_tuning,
    registry,
    result_lines,
    results,
    run_plan,
    transfer,
    vector_start,
)
from keras_bert_app.tasks.families import sequences, tagging, text_vectors, vector_checks
from keras_bert_app.tasks.finetune import TaskData, finetune, has_ended
from keras_bert_app.tasks.labelled_data import load_data
from keras_bert_app.tasks.task import TEXT_TO_TEXT
from keras_bert_app.training import strategies, vocabulary_fit
from keras_bert_app.training.start import Start
from keras_bert_app.vectors.static.word_vector_files import WordVectors
from pipelines.plurals import counted
from pipelines.wordpiece.vocabulary import checked_pieces, read_bytes
from pipelines.wordpiece.vocabulary_checks import check_symbols


def launch(
    workdir: str,
    wanted: dict[str, Any],
    num_seeds: int = 1,
    source: run_plan.Source | tuple = (),
    stream: TextIO | None = None,
) -> dict[str, Any]:
    """Starts or resumes the runs of a work directory.

    Args:
        workdir: the work directory.
        wanted: dict of the fields of FinetuningConfig that the user set. The task's defaults and then the general
            defaults give the other fields.
        num_seeds: number of runs. Several runs live in WORKDIR/seed-N.
        source: Source. If it has a configuration and a vocabulary, a resumed run must have the same.
        stream: file for progress lines; standard output by default.

    Returns:
        dict: the results of a single run, or the results over several seeds (results.over_seeds).

    Raises:
        UserError: an option, a file or the work directory does not fit.
        Interrupted: a signal came. The run is saved.
    """
    source = run_plan.Source(*source)
    plan, directories = run_plan.make_plan(workdir, wanted, num_seeds, source)
    # All seeds share one strategy, because TensorFlow does not release devices.
    strategy = strategies.make_strategy(plan.settings.get("strategy", "auto"))
    teacher, outcomes = transfer.Teacher(strategy, stream), []
    for seed, directory in directories.items():
        run = plan.run(seed)
        existing, initial = plan.existing[seed], None
        if not existing.has_begun and run.init_checkpoint:
            initial = plan.load(run)
        try:
            start = make_start(
                directory,
                plan.model_config,
                run,
                plan.vocabulary,
                initial,
                strategy,
                stream,
                teacher,
                existing,
                _tuning_directory(workdir, directory, run),
                plan.context_units,
                None if existing.has_begun else plan.load_vectors(run),
            )
            outcomes.append(finetune(start))
        except NotFinite as error:
            if num_seeds == 1:
                raise
            # The failure of a seed is a result, too. The other seeds can still be trained.
            print(f"seed {seed}: {error}", file=stream, flush=True)
            outcomes.append({"seed": seed, "failed": str(error)})
    return outcomes[0] if num_seeds == 1 else _over_seeds(workdir, outcomes, strategy, stream)


def make_start(
    workdir: str,
    model_config: BertConfig,
    run: FinetuningConfig,
    vocabulary: bytes,
    initial: run_plan.Loaded | None = None,
    strategy: tf.distribute.Strategy | None = None,
    stream: TextIO | None = None,
    teacher: transfer.Teacher | None = None,
    existing: ExistingRun | None = None,
    tuning_directory: str = "",
    context_units: int = 0,
    word_vectors: WordVectors | None = None,
) -> Start:
    """Checks all options and data, and makes the Start of one fine-tuning run.

    The function writes no files, except for the tuning of masked LM in tuning_directory.

    Args:
        workdir: the work directory.
        model_config: BertConfig.
        run: FinetuningConfig.
        vocabulary: content of the vocabulary file.
        initial: (Weights, lines) of the encoder to start from, or None.
        strategy: tf.distribute.Strategy. None: the strategy that the configuration names.
        stream: file for progress lines; standard output by default.
        teacher: transfer.Teacher, which may already hold the answers that it gave for another seed. None: the
            function makes a new Teacher.
        existing: the content of the work directory. None: the function reads it.
        tuning_directory: the directory in which masked LM is first tuned on the task's texts; "" for no tuning.
        context_units: units of the LSTM that makes context vectors, or 0. A resumed run must get its own number.
        word_vectors: WordVectors of --init_vectors. None: the function reads them for a run that begins.

    Raises:
        UserError: an option, a file or the work directory does not fit.
    """
    strategy, existing = strategy or strategies.make_strategy(run.strategy), existing or ExistingRun.read(workdir)
    given, run = run, registry.find(run.task).settled(strategies.with_precision(run, strategy))
    _check_rows(strategy, run)
    _check_columns(model_config, run)
    tokenizer, target_vocabulary = _tokenizer(existing, run, vocabulary, model_config)
    data = _loaded_data(existing, run, tokenizer, model_config.type_vocab_size)
    fingerprints = {name: getattr(data, name).fingerprint() for name in ("train", "dev", "reported")}
    if existing.has_begun:
        _check_examples(existing, run, data, fingerprints)
    head = _head(existing, data, run, tokenizer, context_units, model_config)
    if not existing.has_begun:
        data.warnings = [*data.warnings, *_fit_of_targets(data.train, run)]
    vectors = _vector_start(existing, run, model_config, vocabulary, word_vectors, data)
    run = _resolved(data, run)
    teachers = _teachers(existing, run)
    teacher = teacher or transfer.Teacher(strategy, stream)
    answers = _answers(existing, workdir, run, data, teacher, teachers, model_config.hidden_size)
    if tuning_directory and not existing.has_begun:
        initial = mlm_tuning.tuned(tuning_directory, given, model_config, vocabulary, initial, strategy, stream)
    weights, lines = initial or (None, ())
    task_data = TaskData(data, head, fingerprints, target_vocabulary, tuple(teachers), answers, vectors)
    run = strategies.with_compilation(run, strategy)
    return Start(workdir, strategy, model_config, run, vocabulary, existing, weights, tuple(lines), task_data, stream)


def _resolved(data, run):
    num_batches = batch_plans.num_batches(data.train, run)
    data.warnings = [*data.warnings, *_small_batches(data, run, num_batches), *_left_prompts(run)]
    run = run.resolved(num_batches)
    if run.mine_negatives and not run.train_minutes and run.num_train_steps <= run.mine_after * num_batches:
        raise UserError(
            f"--mine_negatives={run.mine_negatives}: the run ends after {run.num_train_steps:,} steps, before the "
            f"first mining after {counted(run.mine_after, 'epoch')} of {num_batches:,} steps; give a larger "
            "--num_train_epochs, or a smaller --mine_after"
        )
    return run


def _small_batches(data, run, num_batches):
    """[] or a warning that batches are far from full, because equal texts never meet in one."""
    train, mean = data.train, data.train.num_units / num_batches
    fewest = -(-data.train.num_units // run.global_batch_size)
    if train.text_numbers is None or num_batches == fewest:
        return []
    num_alone = sum(len(batch.units) == 1 for batch in batch_plans.epoch_plan(train, run, 0))
    vector_checks.check_not_alone(data.train_examples, run, num_alone)
    if mean > 0.8 * run.global_batch_size:
        return []
    first, second = train.text_numbers.T
    counts = np.bincount(np.concatenate([first, second[second != first]]))
    units, places = np.nonzero(train.text_numbers == counts.argmax())
    text = " ".join(data.train_examples[train.examples[units[0]]].texts[places[0]].split())
    return [
        f"warning: a batch has {mean:.1f} examples in the mean, and not {run.global_batch_size}, because texts repeat "
        f"and equal texts never meet in a batch; {counted(counts.max(), 'example')} have the text {text[:60]!r}"
    ]


def _left_prompts(run):
    """[] or a warning that the model to start from has prompts and the run has none."""
    path = run.init_checkpoint
    if registry.find(run.task).family is not text_vectors or run.prompts.named or not path or hub.is_handle(path):
        return []
    options = seeds.configuration(path).get(FinetuningConfig.KEY)
    try:
        steps = sentence_transformers_files.read(path)
    except UserError:  # the weights of the folder can start a run, whatever its further steps are
        steps = None
    prompts = steps.prompts if steps else NO_PROMPTS
    if isinstance(options, dict):
        prompts = prompts.changed(*(str(options.get(f"{role}_prompt") or "") for role in ROLES))
    if not prompts.named:
        return []
    return [
        f"warning: {path} has {prompts.words()}, and this run has none; give --query_prompt and --document_prompt to "
        "keep them"
    ]


def _check_columns(model_config, run):
    family = registry.find(run.task).family
    if model_config.has_columns and family not in (sequences, tagging):
        raise UserError(
            f"--task={run.task}: does not read channels or positions of lines, which this model has; take a task of "
            "texts, pairs of texts or tags, or a model without them"
        )
    if model_config.positions == "lines" and family is tagging:
        raise UserError(
            f"--task={run.task}: reads words without their lines, and the model's positions count lines; take a model "
            "without --positions=lines"
        )


def _check_rows(strategy, run):
    """Raises UserError if the batches do not divide over the replicas."""
    strategies.check_batch_size(strategy, run.global_batch_size, run.gradient_accumulation_steps)
    num_parts = strategy.num_replicas_in_sync * run.gradient_accumulation_steps
    if run.batch_tokens and ROWS_MULTIPLE % num_parts:
        raise UserError(
            f"--batch_tokens={run.batch_tokens}: batches have multiples of {ROWS_MULTIPLE} rows, which do not divide "
            f"into {num_parts} equal parts (replicas x --gradient_accumulation_steps); give --global_batch_size instead"
        )


def _tokenizer(existing, run, vocabulary, model_config):
    """(tokenizer of a run, content of the vocabulary file of the target texts).

    The content is None if the vocabulary of the texts serves both.

    Raises:
        DataError: the file is no vocabulary.
        UserError: an option does not fit two vocabularies.
    """
    content = existing.target_vocabulary() if existing.has_begun else None
    if existing.has_begun or not run.target_vocab_file:
        return run_tokenizer(vocabulary, model_config, content), content
    if run.mlm_tuning_steps:
        raise UserError(
            f"--mlm_tuning_steps={run.mlm_tuning_steps}: trains on texts of one vocabulary; leave it out, or leave out "
            "--target_vocab_file"
        )
    content = read_bytes(run.target_vocab_file)
    pieces = checked_pieces(content, run.target_vocab_file)
    if model_config.tokenizer == "symbols":
        check_symbols(pieces, run.target_vocab_file)
    return run_tokenizer(vocabulary, model_config, content), content


def _loaded_data(existing, run, tokenizer, num_segments):
    """The Data of a run.

    A resumed run skips two checks: options without effect, and texts with many [UNK].

    Raises:
        UserError: the task has pairs, and the model has one segment.
    """
    data = load_data(run, tokenizer, () if existing.has_begun else None)
    if not existing.has_begun:
        fit = vocabulary_fit.check(data.train.token_ids, tokenizer, f"--data_dir={run.data_dir}")
        data.warnings = [*data.warnings, *fit]
    if num_segments < 2 and data.train.has_pairs:
        raise UserError(
            f"--task={run.task}: has pairs, but the model has one segment (type_vocab_size 1) and was not trained on "
            "pairs; give a model with two segments, or a task of single texts"
        )
    return data


def _fit_of_targets(features, run):
    """[], or a line of warning about target texts that the vocabulary lacks. Many of them raise UserError."""
    if features.target_ids is None:
        return []
    return vocabulary_fit.check(
        features.target_ids,
        features.for_decode["writer"],
        f"the target texts of --data_dir={run.data_dir}",
        "give a vocabulary for their language and case as --target_vocab_file, or learn one from the texts of both "
        "languages with learn_vocab",
    )


def _head(existing, data, run, tokenizer, context_units, model_config):
    """The Head or Decoder of a run. A resumed run keeps the units of its numbers."""
    head = data.task.family.make_head(data.task, run, data.labels, tokenizer)
    if run.vector_loss == "simcse" and not model_config.has_dropout:
        raise UserError(
            "--vector_loss=simcse: a text differs from itself by dropout alone, and this model trains without dropout; "
            "give --encoder_dropout=0.1, or a table with pairs, scores or labels"
        )
    num_layers = model_config.num_hidden_layers
    if isinstance(head, VectorHead) and run.freeze_layers in (-1, num_layers):
        raise UserError(
            f"--freeze_layers={run.freeze_layers}: would train nothing, because vectors need no layer above the "
            f"encoder; give at most {num_layers - 1}"
        )
    if model_config.architecture != "bert":
        if run.vector_loss == "tsdae":
            raise UserError(
                f"--vector_loss=tsdae: its decoder has the layers of a bert, but the model is a "
                f"{model_config.architecture}; give a bert, or --vector_loss=simcse"
            )
        if data.task.kind == TEXT_TO_TEXT:
            raise UserError(
                f"--task={run.task}: needs an encoder that reads both sides, but the model is a "
                f"{model_config.architecture}; give a bert"
            )
        if isinstance(head, VectorHead) and head.vector_pooling == "cls":
            raise UserError(
                f"--pooling=cls: in a {model_config.architecture} [CLS] does not see the whole text; give "
                "--pooling=mean or max"
            )
        if isinstance(head, Head):
            head = without_cls(head, reads_both_sides=not model_config.is_causal)
    if run.layers != "last" and not model_config.has_equal_layers:
        raise UserError(
            f"--layers={run.layers}: the layers of this LSTM have different widths; give --layers=last, or an LSTM "
            "with projections (--config=elmo)"
        )
    head = context_lstm.in_head(head, context_units, model_config.num_hidden_layers)
    return transfer.in_units_of(head, data, existing.values if existing.has_begun else None, run.ranking_loss)


def _vector_start(existing, run, model_config, vocabulary, word_vectors, data):
    """The VectorStart of --init_vectors, or None. A resumed run has its table in the checkpoint."""
    if not run.init_vectors:
        return None
    if existing.has_begun:
        return vector_start.VectorStart(existing.note(vector_start.KEY))
    known = word_vectors or vector_start.read(run, model_config)
    return vector_start.make(run, vocabulary, known, data.train.token_ids)


def _over_seeds(workdir, outcomes, strategy, stream):
    """Writes, prints and returns the results over several seeds."""
    figures = results.over_seeds(outcomes)
    if strategies.is_chief(strategy):
        results.write_json(os.path.join(workdir, "results.json"), figures)
    for line in result_lines.seeds_summary(figures):
        print(line, file=stream, flush=True)
    return figures


def _tuning_directory(workdir, directory, run):
    """The directory for the tuning of masked LM; "" for no tuning.

    All seeds share one tuning, unless each seed draws its own training examples.
    """
    return os.path.join(directory if run.max_train_examples else workdir, "mlm_tuning") if run.mlm_tuning_steps else ""


def _teachers(existing, run):
    """Directories of the teaching runs. A resumed run keeps its teachers."""
    if not run.teacher:
        return []
    if existing.has_begun:
        return existing.values["teachers"]
    return [run.teacher] if run.vector_loss == "distill" else seeds.sound(run.teacher)


def _answers(existing, workdir, run, data, teacher, teachers, size):
    """The answers of the teachers, which the training examples then have; None without teachers."""
    if not teachers or has_ended(existing, run):
        return None
    answers = transfer.kept_answers(workdir, data) if existing.has_begun else None
    if answers is None:
        answers = teacher.logits(data, run, teachers, size)
    transfer.learn_from(answers, data)
    return answers


def _check_examples(existing, run, data, fingerprints):
    """Raises UserError if a resumed run would get other examples or labels."""
    names = {
        "labels": "labels",
        "train": "training examples",
        "dev": "development examples",
        "reported": "examples to report",
    }
    values = existing.values
    before = {"labels": values.get("labels"), **values.get("examples_sha256", {})}
    now = {"labels": list(data.labels), **fingerprints}
    if other := [names[name] for name in now if now[name] != before.get(name)]:
        files = f"--data_dir={run.data_dir}{' with --unlabelled_files' if run.unlabelled_files else ''}"
        raise UserError(
            f"{files}: has other {' and '.join(other)} than the run in {existing.directory} began with; give another "
            "--workdir for a new run, or use evaluate to score the finished run on these files"
        )
