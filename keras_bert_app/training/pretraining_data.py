"""The datasets of a run: which of the pipelines' arguments its configuration decides."""

import os

import tensorflow as tf

from keras_bert_app.errors import UserError
from keras_bert_app.runs import work_directory
from keras_bert_app.training import strategies
from pipelines.examples import mixing
from pipelines.examples.dataset import FIRST_POSITION, STREAM_VERSION, pretraining_dataset, text_counts
from pipelines.examples.units import Lexicon

BATCH_DOUBLINGS = 3  # of a ramp
LENGTH_DOUBLINGS = 2  # of the other


def lexicon_of(workdir):
    """Where a run keeps its lexicon."""
    return work_directory.path_in(workdir, "lexicon.txt")


def example_arguments(run, tokenizer, lexicon_file):
    """The arguments of pipelines.examples.block_examples for a run.

    Args:
        lexicon_file: that of --masking=lexicon; a run keeps it in its work directory (lexicon_of).
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
    )


def read_lexicon(path):
    """The phrases of a file, one a line.

    Raises:
        UserError: it cannot be read as UTF-8, or holds none.
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


def training_batches(run, corpora, tokenizer, position, examples, step):
    """Endless iterator of (batch, position after it) from a step on, each batch of the shape of its step.

    Raises:
        UserError: there is not one example in the corpora; said when the first batch is asked for.
    """
    shape, batches = None, None
    while True:
        if batch_shape_at(run, step) != shape:
            shape = batch_shape_at(run, step)
            batches = iter(training_dataset(run, corpora, tokenizer, position, examples, step))
        try:
            batch, position = next(batches)
        except StopIteration:
            raise without_examples(corpora, tokenizer) from None
        position = tuple(position.numpy().tolist())
        yield batch, position
        step += 1


def upgraded(start):
    """Where a run stands, its position as this version of the program counts it, and what is to be said of that."""
    if not start["position"] or start.get("stream", 1) == STREAM_VERSION:
        return start, ""
    # Saved by an earlier version of this program, which took the examples of a block in another order.
    position = (start["position"][0], start["position"][1] + 1, 0)
    return (
        {**start, "position": position},
        "; saved by an earlier version, so that the data goes on at the next shard",
    )


def training_dataset(run, corpora, tokenizer, position, examples, step=0):
    """The endless stream of (batch, position) from one corpus or a mixture of several, in batches of the shape at a step.

    Args:
        corpora: for each its shards. position: where to go on, or None for the beginning. examples: of example_arguments.
    """
    rows, length = batch_shape_at(run, step)
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


def without_examples(corpora, tokenizer):
    """A UserError that says of which corpora no example can be made, and what is in them."""
    found = {os.path.dirname(shards[0]): text_counts(shards, tokenizer) for shards in corpora}
    of = "; ".join(
        f"{directory} ({documents:,} documents, {sentences:,} sentences, {pieces:,} word pieces after cleaning)"
        for directory, (documents, sentences, pieces) in found.items()
        if not pieces
    )
    return UserError(f"there is not one example to train on in {of}; give text that has words in it")


def shares(run, corpora):
    """Of each corpus in the examples, by the bytes of its shards."""
    sizes = [sum(tf.io.gfile.stat(shard).length for shard in shards) for shards in corpora]
    return mixing.smoothed_shares(sizes, run.sampling_exponent)


def heldout_dataset(run, shards, tokenizer, examples):
    """One pass over held-out documents, in batches as large as a training step takes at once; None where there are none."""
    batch_size = run.global_batch_size // run.gradient_accumulation_steps
    return (
        pretraining_dataset(shards, tokenizer, global_batch_size=batch_size, seed=run.seed, epochs=1, **examples)
        if shards
        else None
    )


def batch_shape_at(run, step):
    """(rows, tokens a row) of a step.

    In a ramp of the batch an eighth, a quarter, a half of its rows for a third of the ramp each; in one of the length a
    quarter and a half of a row's tokens for a half of the ramp each, in four times and twice as many rows. A position counts
    the rows that were taken of a shard: after a change of length as many of the new ones are passed over.
    """
    rows = run.global_batch_size >> _doublings_left(step, run.batch_ramp_steps, BATCH_DOUBLINGS)
    shorter = _doublings_left(step, run.length_ramp_steps, LENGTH_DOUBLINGS)
    return rows << shorter, run.max_seq_length >> shorter


def check_ramps(run, strategy):
    """Raises UserError where a batch of the run would not divide over the strategy's replicas, or rows stay short."""
    if run.length_ramp_steps >= run.num_train_steps and not run.train_minutes:
        raise UserError(
            f"--length_ramp_steps={run.length_ramp_steps}: expected less than --num_train_steps="
            f"{run.num_train_steps}, or rows never reach --max_seq_length"
        )
    # All others are these, doubled.
    smallest = min(batch_shape_at(run, step)[0] for step in (0, -(-run.length_ramp_steps // 2), run.length_ramp_steps))
    strategies.check_batch_size(strategy, smallest, run.gradient_accumulation_steps)


def _doublings_left(step, ramp_steps, doublings):
    return doublings - doublings * step // ramp_steps if step < ramp_steps else 0
