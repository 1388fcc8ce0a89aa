"""Several corpora as one stream, each with a share of its own: M-BERT's exponentially smoothed languages.

Which corpus an example comes from is drawn for each example from its place in the stream, so that the stream stays a pure
function of (seed, position). A position is (examples taken, then for each corpus its own epoch, block and offset).
"""

import tensorflow as tf

from pipelines.examples.dataset import FIRST_POSITION, example_blocks, fold_in, prefetched

_CHOICE, _CORPUS = 4, 5
_CHOICES_AT_A_TIME = 4096


def smoothed_shares(sizes, exponent=0.7):
    """Shares in proportion to size ** exponent; 1 keeps the sizes' own, 0 makes all equal.

    google-research/bert's multilingual models took 0.7, by which English, 21 % of the text, became 11 % of the examples.
    """
    weights = [size**exponent for size in sizes]
    return [weight / sum(weights) for weight in weights]


def first_position(num_corpora):
    """Where the mixture of so many corpora begins."""
    return (0, *(FIRST_POSITION * num_corpora))


def _wrapped(seed):
    """The seed as an int64, the largest of which may have had something added."""
    return (seed + (1 << 63)) % (1 << 64) - (1 << 63)


@tf.autograph.experimental.do_not_convert
def mixed_pretraining_dataset(
    corpora,
    shares,
    tokenizer,
    *,
    global_batch_size,
    seed=0,
    position=None,
    with_position=False,
    dupe_factor=0,
    **example_arguments,
):
    """Endless batches of examples from several corpora; each goes through its own epochs.

    They end where a corpus is due from which no example can be made.

    Args:
        corpora: for each a list of shards, as of pretraining_dataset. shares: of each in the examples; they sum to 1.
        position: of first_position, or one that was yielded. The rest as of pretraining_dataset.

    Returns:
        tf.data.Dataset as of pretraining_dataset; the position is int64 [1 + 3 * corpora].
    """
    position = first_position(len(corpora)) if position is None else position
    taken, starts = position[0], [position[1 + 3 * i : 4 + 3 * i] for i in range(len(corpora))]
    seed_pair = tf.stack([tf.constant(seed, tf.int64), tf.constant(0, tf.int64)])
    upper_bounds = tf.cumsum(tf.constant(shares, tf.float64))[:-1]

    def choices(group):
        draws = tf.random.stateless_uniform([_CHOICES_AT_A_TIME], fold_in(seed_pair, _CHOICE, group), dtype=tf.float64)
        return tf.cast(tf.searchsorted(upper_bounds, draws, side="right"), tf.int64)

    def stream(index):
        # Corpora of equal shards must not share their draws.
        blocks = example_blocks(
            corpora[index],
            tokenizer,
            seed=_wrapped(seed + (index + 1) * _CORPUS * 1_000_003),
            epochs=None,
            position=starts[index],
            dupe_factor=dupe_factor,
            num_parallel_blocks=1,
            **example_arguments,
        )
        return blocks.unbatch().map(lambda example, after: (example, after, tf.constant(index)))

    def remember(known, element):
        batch, after, corpus = element
        # The last example of each corpus in the batch tells where that corpus is; a corpus without one stays.
        last = tf.math.unsorted_segment_max(tf.range(global_batch_size), corpus, len(corpora))
        per_corpus = tf.where(
            (last >= 0)[:, None], tf.gather(after, tf.maximum(last, 0)), tf.reshape(known[1:], [-1, 3])
        )
        known = tf.concat([known[:1] + global_batch_size, tf.reshape(per_corpus, [-1])], axis=0)
        return known, (batch, known)

    chosen = tf.data.Dataset.range(taken // _CHOICES_AT_A_TIME, tf.int64.max).map(choices).unbatch()
    dataset = tf.data.Dataset.choose_from_datasets(
        [stream(index) for index in range(len(corpora))],
        chosen.skip(taken % _CHOICES_AT_A_TIME),
        stop_on_empty_dataset=True,
    )
    dataset = dataset.batch(global_batch_size, drop_remainder=True)
    dataset = dataset.scan(tf.constant(position, tf.int64), remember)
    return prefetched(dataset.map(lambda batch, after: (batch, after) if with_position else batch))
