"""The datasets of a pre-training, with the arguments that the configuration of the run decides."""

import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import tensorflow as tf

from keras_bert_app.config.pretraining_config import PretrainingConfig
from keras_bert_app.errors import UserError
from keras_bert_app.runs import work_directory
from keras_bert_app.training import strategies
from keras_bert_app.training.baselines import NgramCounts
from pipelines import storage
from pipelines.examples import mixing
from pipelines.examples.dataset import FIRST_POSITION, STREAM_VERSION, pretraining_dataset, text_counts
from pipelines.examples.units import Lexicon
from pipelines.wordpiece.tokenizer import BertTokenizer

BATCH_DOUBLINGS = 3  # number of times that --batch_ramp_steps doubles the rows
LENGTH_DOUBLINGS = 2  # number of times that --length_ramp_steps doubles the tokens a row
_COUNTED_PIECES = 16_000_000  # that the baselines of a causal language model read, in some seconds


def lexicon_of(workdir: str) -> str:
    """The path of the lexicon that a run keeps in its work directory.

    Args:
        workdir: the work directory.
    """
    return work_directory.path_in(workdir, "lexicon.txt")


def example_arguments(run: PretrainingConfig, tokenizer: BertTokenizer, lexicon_file: str | None) -> dict[str, Any]:
    """The keyword arguments of pipelines.examples.block_examples for a run.

    Args:
        run: PretrainingConfig, resolved.
        tokenizer: BertTokenizer.
        lexicon_file: the file of --masking=lexicon, which a run keeps in its work directory (lexicon_of). Other kinds
            of masking do not read it.

    Raises:
        UserError: the lexicon cannot be used.
    """
    lexicon = None
    if run.masking == "lexicon":
        lexicon = Lexicon(read_lexicon(lexicon_file), tokenizer)
    return dict(
        max_seq_length=run.max_seq_length,
        max_predictions_per_seq=run.max_predictions_per_seq,
        masked_lm_prob=run.masked_lm_prob,
        short_seq_prob=run.short_seq_prob,
        sentence_objective=run.sentence_objective,
        masking=run.masking,
        max_ngram=run.max_ngram,
        lexicon=lexicon,
        mask_token_rate=run.mask_token_rate,
        random_token_rate=run.random_token_rate,
        language_model=run.language_model,
    )


def unused_phrases(lexicon: Lexicon | None) -> list[str]:
    """Makes a line about the phrases that no unit can be, if there are any.

    Args:
        lexicon: Lexicon, or None.
    """
    if lexicon is None or not lexicon.num_unusable:
        return []
    return [
        f"--lexicon_file: phrases that are not used, because they need [UNK] or have more than {lexicon.MAX_PIECES} "
        f"pieces: {lexicon.num_unusable:,}; in use: {lexicon.num_phrases:,}"
    ]


def read_lexicon(path: str) -> list[str]:
    """Reads the phrases of a file, which has one phrase a line.

    Args:
        path: the file.

    Raises:
        UserError: the file cannot be read as UTF-8, or has no phrase.
    """
    try:
        with tf.io.gfile.GFile(path, "rb") as file:
            phrases = [line.strip() for line in file.read().decode("utf-8").split("\n")]
    except (tf.errors.OpError, UnicodeDecodeError) as error:
        raise UserError(
            f"lexicon {path}: cannot be read ({type(error).__name__}); expected UTF-8 text with one phrase a line"
        ) from None
    phrases = [phrase for phrase in phrases if phrase]
    if not phrases:
        raise UserError(f"lexicon {path}: holds no phrase; expected one a line")
    return phrases


def training_batches(
    run: PretrainingConfig,
    corpora: Sequence[Sequence[str]],
    tokenizer: BertTokenizer,
    position: tuple[int, ...] | None,
    examples: dict[str, Any],
    step: int,
    share: Callable[[], float] = lambda: 0.0,
    is_stream: bool = False,
) -> Iterator[tuple[dict[str, tf.Tensor], tuple[int, ...]]]:
    """Yields batches from a step on and never ends. Each batch has the shape of its step.

    Args:
        run: PretrainingConfig, resolved.
        corpora: the paths of the shards of each corpus.
        tokenizer: BertTokenizer.
        position: position in the data to go on from; None for the beginning.
        examples: dict of example_arguments.
        step: the number of steps that were taken before.
        share: function that returns the share of --train_minutes that is over. Ramps that follow the clock need it.
            The share at the moment when a batch is made decides the shape of that batch.
        is_stream: whether each row continues the row at its place in the batch before.

    Yields:
        (dict of tensors [B, ...], position after the batch).

    Raises:
        UserError: no example can be made of the corpora. The first batch raises this error.
    """
    shape, batches = None, None
    examples = {**examples, **({"is_stream": True} if is_stream else {})}
    while True:
        now = share()
        # A run that resumes has the states after the step before it.
        before = shape or batch_shape_at(run, max(step - 1, 0), now)
        if batch_shape_at(run, step, now) != shape:
            shape = batch_shape_at(run, step, now)
            batches = iter(training_dataset(run, corpora, tokenizer, position, examples, step, now))
        try:
            batch, position = next(batches)
        except StopIteration:
            raise without_examples(corpora, tokenizer) from None
        position = tuple(position.numpy().tolist())
        if is_stream and before != shape:  # the places of the batch before had other texts
            batch = {**batch, "continues": tf.zeros_like(batch["continues"])}
        yield batch, position
        step += 1


def check_stream(state: dict[str, Any], checkpoint: str) -> None:
    """Checks that the position of a checkpoint belongs to the stream of examples that this version makes.

    Args:
        state: the checkpoint's manifest, or the state of a run that has not begun.
        checkpoint: the directory of the checkpoint, for the message.

    Raises:
        UserError: the version of the package that saved the checkpoint makes the examples in another order.
    """
    if state["position"] and state["stream"] != STREAM_VERSION:
        raise UserError(
            f"{checkpoint}: counts the examples of stream {state['stream']}, but this version of the program makes "
            f"stream {STREAM_VERSION}; continue with the version that saved the checkpoint, or start in another "
            "--workdir"
        )


def training_dataset(
    run: PretrainingConfig,
    corpora: Sequence[Sequence[str]],
    tokenizer: BertTokenizer,
    position: tuple[int, ...] | None,
    examples: dict[str, Any],
    step: int = 0,
    share: float = 0.0,
) -> tf.data.Dataset:
    """The endless dataset of (batch, position after it) from one corpus or a mixture of several.

    Args:
        run: PretrainingConfig, resolved.
        corpora: the paths of the shards of each corpus.
        tokenizer: BertTokenizer.
        position: position in the data to go on from; None for the beginning.
        examples: dict of example_arguments.
        step: the step that decides the shape of all batches.
        share: share of --train_minutes that decides the shape, for ramps that follow the clock.
    """
    rows, length = batch_shape_at(run, step, share)
    predictions = -(-run.max_predictions_per_seq * length // run.max_seq_length)
    arguments = {
        **examples,
        "global_batch_size": rows,
        "seed": run.seed,
        "dupe_factor": run.dupe_factor,
        "with_position": True,
        "max_seq_length": length,
        "max_predictions_per_seq": predictions,
    }
    if len(corpora) == 1:
        return pretraining_dataset(corpora[0], tokenizer, position=position or FIRST_POSITION, **arguments)
    return mixing.mixed_pretraining_dataset(corpora, shares(run, corpora), tokenizer, position=position, **arguments)


def without_examples(corpora: Sequence[Sequence[str]], tokenizer: BertTokenizer) -> UserError:
    """Makes the UserError for corpora that give no example. It states the amount of their text.

    Args:
        corpora: the paths of the shards of each corpus.
        tokenizer: BertTokenizer.
    """
    counts = {os.path.dirname(shards[0]): text_counts(shards, tokenizer) for shards in corpora}
    # Text with pieces gives no example if its rows are too short for a prediction. The message then names all corpora.
    without_pieces = {directory: count for directory, count in counts.items() if not count[2]} or counts
    empty_corpora = "; ".join(
        f"{directory} ({documents:,} documents, {sentences:,} sentences, {pieces:,} word pieces after cleaning)"
        for directory, (documents, sentences, pieces) in without_pieces.items()
    )
    return UserError(f"there is not one example to train on in {empty_corpora}; give text that has words in it")


def shares(run: PretrainingConfig, corpora: Sequence[Sequence[str]]) -> list[float]:
    """The share of each corpus in the examples, computed from the sizes of its shards.

    Args:
        run: PretrainingConfig, for sampling_exponent.
        corpora: the paths of the shards of each corpus.
    """
    sizes = [sum(storage.size_of(shard) for shard in shards) for shards in corpora]
    return mixing.smoothed_shares(sizes, run.sampling_exponent)


def heldout_dataset(
    run: PretrainingConfig, shards: Sequence[str], tokenizer: BertTokenizer, examples: dict[str, Any]
) -> tf.data.Dataset | None:
    """One pass over held-out documents.

    Args:
        run: PretrainingConfig, resolved.
        shards: paths of the held-out shards.
        tokenizer: BertTokenizer.
        examples: dict of example_arguments.

    Returns:
        tf.data.Dataset of batches with as many rows as a training step takes at once; None without shards.
    """
    batch_size = run.global_batch_size // run.gradient_accumulation_steps
    return (
        pretraining_dataset(shards, tokenizer, global_batch_size=batch_size, seed=run.seed, epochs=1, **examples)
        if shards
        else None
    )


def ngram_counts(corpora: Sequence[Sequence[str]], tokenizer: BertTokenizer, examples: dict[str, Any]) -> NgramCounts:
    """Counts the pieces and pairs of pieces in the training text, up to _COUNTED_PIECES.

    Args:
        corpora: the paths of the shards of each corpus.
        tokenizer: BertTokenizer.
        examples: dict of example_arguments of a causal language model.
    """
    # The shards of all corpora in turn.
    shards = [path for paths in itertools.zip_longest(*corpora) for path in paths if path is not None]
    dataset = pretraining_dataset(shards, tokenizer, global_batch_size=1024, epochs=1, **examples)
    rows = ((batch["input_word_ids"].numpy(), batch["input_mask"].numpy()) for batch in dataset)
    num_batches = max(1, _COUNTED_PIECES // (1024 * examples["max_seq_length"]))
    return NgramCounts.of_rows(itertools.islice(rows, num_batches), tokenizer.vocab_size)


def batch_shape_at(run: PretrainingConfig, step: int, share: float = 0.0) -> tuple[int, int]:
    """The shape of a batch: (rows, tokens a row).

    A ramp of the batch has three equal parts, with an eighth, a quarter and a half of the rows. A ramp of the length
    has two equal parts. The first part has a quarter of the tokens a row and four times the rows. The second part has
    half of the tokens a row and twice the rows.

    A position counts the rows that were taken from a shard. After a change of length, the pipeline skips the same
    number of longer rows.

    Args:
        run: PretrainingConfig, resolved.
        step: the step, counted from 0.
        share: share of --train_minutes that is over, for ramps that follow the clock.
    """
    fewer = _doublings_left(run, run.batch_ramp_steps, run.batch_ramp_share, BATCH_DOUBLINGS, step, share)
    shorter = _doublings_left(run, run.length_ramp_steps, run.length_ramp_share, LENGTH_DOUBLINGS, step, share)
    return run.global_batch_size >> fewer << shorter, run.max_seq_length >> shorter


def most_rows(run: PretrainingConfig) -> int:
    """The largest number of rows of a batch, also if a resumed run gets a ramp of the length.

    Args:
        run: PretrainingConfig, resolved.
    """
    return run.global_batch_size << LENGTH_DOUBLINGS


def check_ramps(run: PretrainingConfig, strategy: tf.distribute.Strategy) -> None:
    """Checks that every batch of a run divides over the replicas, and that rows reach their full length.

    Args:
        run: PretrainingConfig, resolved.
        strategy: the devices.

    Raises:
        UserError: a batch of the run does not divide over the strategy's replicas, or rows never get their full length.
    """
    if run.length_ramp_steps >= run.num_train_steps and not run.train_minutes:
        raise UserError(
            f"--length_ramp_steps={run.length_ramp_steps}: expected less than --num_train_steps="
            f"{run.num_train_steps}, because otherwise rows never reach --max_seq_length"
        )
    # Every other batch size of the run is one of the sizes below, doubled once or more.
    length_steps = run.length_ramp_steps or round(run.length_ramp_share * run.num_train_steps)
    smallest = min(
        batch_shape_at(run, step, share)[0]
        for step in (0, -(-length_steps // 2), length_steps)
        for share in (0.0, run.length_ramp_share / 2, run.length_ramp_share)
    )
    strategies.check_batch_size(strategy, smallest, run.gradient_accumulation_steps)


def _doublings_left(run, ramp_steps, ramp_share, doublings, step, share):
    if ramp_share and run.train_minutes:
        return doublings - int(doublings * share / ramp_share) if share < ramp_share else 0
    if ramp_share:
        ramp_steps = round(ramp_share * run.num_train_steps)
    return doublings - doublings * step // ramp_steps if step < ramp_steps else 0
