"""The pre-training dataset: text shards to fixed-shape masked batches, new pairs and masks in every epoch.

One global stream of examples, a pure function of (seed, epoch, position). A block is one shard file: its documents
are tokenized, paired, packed and masked in one go, its examples permuted; blocks follow each other in an order that
is drawn anew each epoch. A position is (epoch, block, offset): which epoch, which place in its order of blocks, how
many examples of that block were taken. It is all that resuming needs.
"""

import functools

import tensorflow as tf

from pipelines.examples.block_examples import block_examples

# Of the order in which examples come: a position that was counted in another one points at other examples.
STREAM_VERSION = 2
# Purposes of the draws made from one seed.
_BLOCK_ORDER, _BLOCK, _EXAMPLE_ORDER = 0, 1, 3
FIRST_POSITION = (0, 0, 0)


# AutoGraph would read and rewrite every function in here before it is traced, seconds of each start, and find nothing to do.
@tf.autograph.experimental.do_not_convert
def pretraining_dataset(
    shards,
    tokenizer,
    *,
    global_batch_size,
    seed=0,
    epochs=None,
    position=FIRST_POSITION,
    with_position=False,
    dupe_factor=0,
    num_parallel_blocks=2,
    **example_arguments,
):
    """Batches of BERT pre-training examples from text shards.

    Args:
        shards: paths of TFRecord files; a record is a document, its sentences separated by line feeds
            (pipelines.corpus.preparation writes them). Or of text files (.txt) in google-research/bert's layout, one sentence a line and
            blank lines between documents; these are taken as they are, unshuffled within, each whole in memory.
        tokenizer: pipelines.wordpiece.tokenizer.BertTokenizer.
        global_batch_size: B.
        seed: of every draw.
        epochs: passes over the text, or None for no end (but of text from which no example can be made there is no
            batch). With an end the last batch is filled with empty rows (input_mask and masked_lm_weights 0), so that
            every example is seen once and shapes stay static.
        position: (epoch, block, offset) to go on from.
        with_position: whether to yield (batch, int64 [3] position after the batch).
        dupe_factor: 0 for new pairs and masks in every epoch; n for those of the first n epochs again and again, as
            google-research/bert's files with that factor hold them.
        num_parallel_blocks: shards prepared at the same time; each takes some 20 times its size in memory.
        example_arguments: of pipelines.examples.block_examples: max_seq_length (S), max_predictions_per_seq (P),
            masked_lm_prob, short_seq_prob, sentence_objective, masking and others.

    Returns:
        tf.data.Dataset of dicts: input_word_ids, input_mask, input_type_ids int32 [B, S]; masked_lm_positions,
        masked_lm_ids int32 [B, P], masked_lm_weights float32 [B, P]; next_sentence_labels int32 [B] (1 = random).
    """
    dataset = example_blocks(
        shards,
        tokenizer,
        seed=seed,
        epochs=epochs,
        position=position,
        dupe_factor=dupe_factor,
        num_parallel_blocks=num_parallel_blocks,
        **example_arguments,
    )
    dataset = dataset.rebatch(global_batch_size, drop_remainder=epochs is None)
    if epochs is not None:
        dataset = dataset.map(lambda batch, positions: (_filled_up(batch, global_batch_size), positions))
    return prefetched(dataset.map(lambda batch, positions: (batch, positions[-1]) if with_position else batch))


def prefetched(batches):
    """The batches, some of them made ahead, without tf.data's tuning and rewriting, which have nothing to choose here.

    The thread that tunes an iterator sleeps for up to a minute, and whoever lets the iterator go waits for it: a run where the
    length of its rows changes did, and so did the end of every evaluation. To rewrite takes a fifth of an iterator's start.
    """
    options = tf.data.Options()
    options.autotune.enabled = False
    options.experimental_optimization.apply_default_optimizations = False
    return batches.prefetch(8).with_options(options)


def example_blocks(shards, tokenizer, *, seed, epochs, position, dupe_factor, num_parallel_blocks, **example_arguments):
    """The stream of examples, a block at a time: (dict of [N, ...], int64 [N, 3] the position after each example).

    Arguments as of pretraining_dataset.
    """
    num_blocks = len(shards)
    shard_names = tf.constant(list(shards))
    seed = tf.stack([tf.constant(seed, tf.int64), tf.constant(0, tf.int64)])
    first_epoch, first_block, first_offset = position
    start = first_epoch * num_blocks + first_block
    stop = tf.int64.max if epochs is None else epochs * num_blocks

    def read(index):
        epoch, slot = index // num_blocks, index % num_blocks
        order = tf.random.experimental.stateless_shuffle(tf.range(num_blocks), fold_in(seed, _BLOCK_ORDER, epoch))
        documents = _documents(shard_names[order[slot]], is_text=str(shards[0]).endswith(".txt"))
        block = tf.cast(order[slot], tf.int64)
        example_seed = fold_in(seed, _BLOCK, epoch % dupe_factor if dupe_factor else epoch, block)
        return documents.map(lambda texts: (index, example_seed, fold_in(seed, _EXAMPLE_ORDER, epoch, block), texts))

    def examples(index, example_seed, order_seed, documents):
        batch = _examples_function(tokenizer, **example_arguments)(documents, example_seed)
        num_examples = tf.shape(batch["input_word_ids"], out_type=tf.int64)[0]
        order = tf.random.experimental.stateless_shuffle(tf.range(num_examples), order_seed)
        taken = tf.range(1, num_examples + 1)
        positions = tf.stack(
            [tf.fill([num_examples], index // num_blocks), tf.fill([num_examples], index % num_blocks), taken], axis=1
        )
        skip = tf.where(index == start, tf.cast(first_offset, tf.int64), 0)
        chosen = order[skip:]
        return {name: tf.gather(values, chosen) for name, values in batch.items()}, positions[skip:]

    dataset = tf.data.Dataset.range(start, stop).flat_map(read)
    dataset = dataset.map(examples, num_parallel_calls=num_parallel_blocks)
    if epochs is None:
        dataset = _ended_without_examples(dataset, 2 * num_blocks)
    return dataset.prefetch(1)


@functools.lru_cache(maxsize=4)
def _examples_function(tokenizer, **example_arguments):
    """block_examples of (documents, seed), traced once: a run has a dataset for each corpus, and one for held-out text."""
    return tf.function(
        lambda documents, seed: block_examples(documents, tokenizer, seed, **example_arguments), autograph=False
    )


def _ended_without_examples(blocks, most_empty):
    """The stream of blocks up to so many in a row that hold no example, which would otherwise be awaited for ever.

    Twice the number of shards is enough: one block may be empty since its examples were taken before, and the rest of its
    epoch for want of text, but not a whole epoch after that.
    """

    def count(empty, block):
        _, positions = block
        empty = tf.where(tf.size(positions) > 0, tf.zeros_like(empty), empty + 1)
        return empty, (empty, block)

    blocks = blocks.scan(tf.constant(0, tf.int64), count)
    blocks = blocks.take_while(lambda empty, block: empty < most_empty)
    return blocks.map(lambda _, block: block)


def text_counts(shards, tokenizer):
    """(documents, sentences, word pieces) of text shards; reads all of them."""
    counts = [0, 0, 0]
    for path in shards:
        for documents in _documents(path, is_text=str(path).endswith(".txt")):
            sentences = tf.strings.split(documents, "\n").flat_values
            pieces = tokenizer.tokenize(sentences).flat_values
            counts = [count + int(tf.size(found)) for count, found in zip(counts, (documents, sentences, pieces))]
    return tuple(counts)


def _documents(path, is_text):
    """A dataset of one element, string [D]: the documents of a shard."""
    if not is_text:
        documents = tf.data.TFRecordDataset(path, buffer_size=1 << 20).batch(1 << 40)
        # Of a shard without a record there is no batch.
        return documents.concatenate(tf.data.Dataset.from_tensors(tf.constant([], tf.string))).take(1)
    text = tf.strings.regex_replace(tf.io.read_file(path), r"\x00", "")  # BERT's cleaning would remove it anyway
    text = tf.strings.regex_replace(tf.strings.strip(text), r"\n[ \t\r]*\n\s*", "\x00")
    return tf.data.Dataset.from_tensors(tf.strings.split(text, "\x00"))


def fold_in(seed, *numbers):
    """A seed int64 [2] for the draws that these numbers name."""
    for number in numbers:
        seed = tf.random.experimental.stateless_fold_in(seed, number)
    return seed


def _filled_up(batch, batch_size):
    """The batch with empty rows up to batch_size, with a static shape."""

    def fill(values):
        missing = batch_size - tf.shape(values)[0]
        values = tf.pad(values, [[0, missing]] + [[0, 0]] * (values.shape.rank - 1))
        return tf.ensure_shape(values, [batch_size] + values.shape[1:])

    return {name: fill(values) for name, values in batch.items()}
