"""Several corpora as one stream, each with its own share of the examples.

The shares can be smoothed exponentially, as for the languages of Google's multilingual BERT.

The seed and the place of an example in the stream decide from which corpus the example comes. The stream is therefore a
pure function of (seed, position). A position is the number of examples taken, then the epoch, block and offset of each
corpus.
"""

from collections.abc import Sequence

import tensorflow as tf

from pipelines.examples.dataset import FIRST_POSITION, example_blocks, fold_in, prefetched

_CHOICE, _CORPUS = 4, 5
_CHOICES_AT_A_TIME = 4096


def smoothed_shares(sizes: Sequence[float], exponent: float = 0.7) -> list[float]:
    """Computes shares in proportion to size ** exponent.

    The exponent of Google's multilingual models is 0.7: English is 21 % of their text and 11 % of their examples.

    Args:
        sizes: list of numbers. The sizes of the corpora.
        exponent: 1 keeps the shares of the sizes, 0 makes all shares equal.

    Returns:
        list of float; their sum is 1.
    """
    weights = [size**exponent for size in sizes]
    return [weight / sum(weights) for weight in weights]


def first_position(num_corpora: int) -> tuple[int, ...]:
    """Returns the first position of a mixture of num_corpora corpora.

    Args:
        num_corpora: int.

    Returns:
        tuple of 1 + 3 * num_corpora int.
    """
    return (0, *(FIRST_POSITION * num_corpora))


def _wrapped(seed):
    """Wraps a number around to the range of int64, because the sum of a seed and another number may exceed it."""
    return (seed + (1 << 63)) % (1 << 64) - (1 << 63)


@tf.autograph.experimental.do_not_convert
def mixed_pretraining_dataset(
    corpora: Sequence[Sequence[str]],
    shares: Sequence[float],
    tokenizer,
    *,
    global_batch_size: int,
    seed: int = 0,
    position: tuple[int, ...] | None = None,
    with_position: bool = False,
    dupe_factor: int = 0,
    **example_arguments,
) -> tf.data.Dataset:
    """Makes endless batches of examples from several corpora; each corpus has its own epochs.

    The batches end if the next example comes from a corpus from which no example can be made.

    Args:
        corpora: list of corpora, each a list of shards as in pretraining_dataset.
        shares: list of float. The share of each corpus in the examples; they sum to 1.
        tokenizer: as in pretraining_dataset.
        global_batch_size: as in pretraining_dataset.
        seed: as in pretraining_dataset.
        position: tuple from first_position, or a position that the dataset yielded; None is the first position.
        with_position: as in pretraining_dataset.
        dupe_factor: as in pretraining_dataset.
        example_arguments: as in pretraining_dataset.

    Returns:
        tf.data.Dataset like the result of pretraining_dataset; the position is int64 [1 + 3 * corpora].
    """
    position = first_position(len(corpora)) if position is None else position
    taken, starts = position[0], [position[1 + 3 * i : 4 + 3 * i] for i in range(len(corpora))]
    choices = _corpus_choices(shares, seed, first_group=taken // _CHOICES_AT_A_TIME)
    example_arguments = {"dupe_factor": dupe_factor, **example_arguments}
    streams = [
        _corpus_stream(corpora, index, tokenizer, seed, starts[index], example_arguments)
        for index in range(len(corpora))
    ]
    dataset = tf.data.Dataset.choose_from_datasets(
        streams, choices.skip(taken % _CHOICES_AT_A_TIME), stop_on_empty_dataset=True
    )
    dataset = dataset.batch(global_batch_size, drop_remainder=True)
    dataset = dataset.scan(tf.constant(position, tf.int64), _position_update(global_batch_size, len(corpora)))
    return prefetched(dataset.map(lambda batch, after: (batch, after) if with_position else batch))


def _corpus_choices(shares, seed, first_group):
    """Makes the dataset of corpus numbers (int64 scalars), one for each example, starting at a group of draws."""
    seed_pair = tf.stack([tf.constant(seed, tf.int64), tf.constant(0, tf.int64)])
    upper_bounds = tf.cumsum(tf.constant(shares, tf.float64))[:-1]

    def choices(group):
        draws = tf.random.stateless_uniform([_CHOICES_AT_A_TIME], fold_in(seed_pair, _CHOICE, group), dtype=tf.float64)
        return tf.cast(tf.searchsorted(upper_bounds, draws, side="right"), tf.int64)

    return tf.data.Dataset.range(first_group, tf.int64.max).map(choices).unbatch()


def _corpus_stream(corpora, index, tokenizer, seed, start, example_arguments):
    """Makes the dataset of (example, position after the example, corpus number) of one corpus."""
    # The corpus number changes the seed, so that corpora of equal shards do not share their draws.
    blocks = example_blocks(
        corpora[index],
        tokenizer,
        seed=_wrapped(seed + (index + 1) * _CORPUS * 1_000_003),
        epochs=None,
        position=start,
        num_parallel_blocks=1,
        other_shards=[shard for other, shards in enumerate(corpora) if other != index for shard in shards],
        **example_arguments,
    )
    return blocks.unbatch().map(lambda example, after: (example, after, tf.constant(index)))


def _position_update(global_batch_size, num_corpora):
    """Makes the function with which tf.data's scan adds the new position to each batch."""

    def update(position, element):
        batch, after, corpus = element
        # The last example of each corpus in the batch gives its new position; a corpus without an example keeps its
        # position.
        last = tf.math.unsorted_segment_max(tf.range(global_batch_size), corpus, num_corpora)
        per_corpus = tf.where(
            (last >= 0)[:, None], tf.gather(after, tf.maximum(last, 0)), tf.reshape(position[1:], [-1, 3])
        )
        position = tf.concat([position[:1] + global_batch_size, tf.reshape(per_corpus, [-1])], axis=0)
        return position, (batch, position)

    return update
