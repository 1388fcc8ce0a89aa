"""The pre-training dataset: masked batches of fixed shape from text shards.

Every epoch has new pairs and masks, unless dupe_factor repeats them.

The dataset is one global stream of examples, a pure function of (seed, position). A block is one shard file. Its
documents are tokenized, paired, packed and masked in one pass, and its examples are permuted. With is_stream they are
not permuted: each place of a batch reads its own part of the block, row after row. Each epoch draws a new order of the
blocks. A position is (epoch, block, offset): the epoch, the place of the block in the order of this epoch,
and the number of examples taken from the block. The seed and the position are enough to resume.
"""

import functools
from collections.abc import Sequence

import tensorflow as tf

from pipelines.examples.block_examples import block_examples

# The version of the order of examples. A position from another version points at other examples.
STREAM_VERSION = 2
# Each kind of draw from one seed has its own number.
_BLOCK_ORDER, _BLOCK, _EXAMPLE_ORDER, _OTHER_DOCUMENTS = 0, 1, 3, 6
_MOST_OTHER_DOCUMENTS = 8
FIRST_POSITION = (0, 0, 0)


# AutoGraph would analyse every function below before tracing, which takes seconds at each start and changes nothing.
@tf.autograph.experimental.do_not_convert
def pretraining_dataset(
    shards: Sequence[str],
    tokenizer,
    *,
    global_batch_size: int,
    seed: int = 0,
    epochs: int | None = None,
    position: tuple[int, int, int] = FIRST_POSITION,
    with_position: bool = False,
    dupe_factor: int = 0,
    num_parallel_blocks: int = 2,
    **example_arguments,
) -> tf.data.Dataset:
    """Makes batches of BERT pre-training examples from text shards.

    With a number of epochs, empty rows fill the last batch (input_mask and masked_lm_weights are 0). Every example then
    occurs once, and shapes stay static. Without a number of epochs the batches have no end, unless the text gives no
    example.

    Args:
        shards: paths of TFRecord files as prepare_corpus writes them, or of text files (.txt) in Google's layout: one
            sentence a line, blank lines between documents. A text file is read whole and its documents are not
            shuffled.
        tokenizer: pipelines.wordpiece.tokenizer.BertTokenizer.
        global_batch_size: the number B of examples in a batch.
        seed: the seed of every draw.
        epochs: the number of passes over the text, or None for no end.
        position: (epoch, block, offset). Where the stream starts.
        with_position: whether to yield (batch, int64 [3] position after the batch).
        dupe_factor: 0 gives new pairs and masks in every epoch; n repeats the pairs and masks of the first n epochs, as
            Google's files do.
        num_parallel_blocks: the number of shards prepared at a time; each takes about 20 times its size in memory.
        example_arguments: keyword arguments of block_examples, such as max_seq_length S and max_predictions_per_seq P.

    Returns:
        Dataset of dicts: input_word_ids, input_mask, input_type_ids int32 [B, S]; for a masked language model also
        masked_lm_positions, masked_lm_ids int32 [B, P], masked_lm_weights float32 [B, P]; next_sentence_labels int32
        [B], 1 where the second segment is random (nsp) or the segments are swapped (sop). With is_stream also
        stream_places int32 [B], the place in the batch, and continues int32 [B], 1 where a row continues the row at
        this place in the batch before.
    """
    is_stream = example_arguments.get("is_stream", False)
    dataset = example_blocks(
        shards,
        tokenizer,
        seed=seed,
        epochs=epochs,
        position=position,
        dupe_factor=dupe_factor,
        num_parallel_blocks=num_parallel_blocks,
        num_streams=global_batch_size if is_stream else 0,
        **example_arguments,
    )
    dataset = dataset.rebatch(global_batch_size, drop_remainder=epochs is None)
    if is_stream:
        dataset = dataset.map(lambda batch, positions: (_with_places(batch), positions))
    if epochs is not None:
        dataset = dataset.map(lambda batch, positions: (_filled_up(batch, global_batch_size), positions))
    return prefetched(dataset.map(lambda batch, positions: (batch, positions[-1]) if with_position else batch))


def _with_places(batch):
    continues = batch["continues"]
    return {**batch, "stream_places": tf.ensure_shape(tf.range(tf.size(continues)), continues.shape)}


def prefetched(batches: tf.data.Dataset) -> tf.data.Dataset:
    """Prefetches some batches, without the tuning and rewriting of tf.data.

    Neither improves anything here. The thread that tunes an iterator sleeps for up to a minute, and deleting the
    iterator waits for this thread. The wait delayed runs whose row length changes, and the end of every evaluation.
    Rewriting takes a fifth of the time to start an iterator.

    Args:
        batches: Dataset.

    Returns:
        Dataset.
    """
    options = tf.data.Options()
    options.autotune.enabled = False
    options.experimental_optimization.apply_default_optimizations = False
    return batches.prefetch(8).with_options(options)


def example_blocks(
    shards: Sequence[str],
    tokenizer,
    *,
    seed: int,
    epochs,
    position,
    dupe_factor,
    num_parallel_blocks,
    other_shards: Sequence[str] = (),
    num_streams: int = 0,
    **example_arguments,
) -> tf.data.Dataset:
    """Makes the stream of examples, one block at a time.

    A shard with one document gets other documents from other shards, for its random second segments.

    Args:
        shards: as in pretraining_dataset.
        tokenizer: as in pretraining_dataset.
        seed: as in pretraining_dataset.
        epochs: as in pretraining_dataset.
        position: as in pretraining_dataset.
        dupe_factor: as in pretraining_dataset.
        num_parallel_blocks: as in pretraining_dataset.
        other_shards: further shards from which other documents may come.
        num_streams: the rows of a batch, each of which reads its own part of a block in order; 0 for a random order.
        example_arguments: as in pretraining_dataset.

    Returns:
        Dataset of (dict of [N, ...], int64 [N, 3] the position after each example).
    """
    num_blocks = len(shards)
    shard_names = tf.constant(list(shards))
    seed = tf.stack([tf.constant(seed, tf.int64), tf.constant(0, tf.int64)])
    first_epoch, first_block, first_offset = position
    start = first_epoch * num_blocks + first_block
    stop = tf.int64.max if epochs is None else epochs * num_blocks
    is_text = str(shards[0]).endswith(".txt")
    with_others = _adds_other_documents(shards, other_shards, is_text, **example_arguments)

    def read(index):
        epoch, slot = index // num_blocks, index % num_blocks
        order = tf.random.experimental.stateless_shuffle(tf.range(num_blocks), fold_in(seed, _BLOCK_ORDER, epoch))
        documents = _documents(shard_names[order[slot]], is_text)
        block = tf.cast(order[slot], tf.int64)
        example_seed = fold_in(seed, _BLOCK, epoch % dupe_factor if dupe_factor else epoch, block)
        order_seed = fold_in(seed, _EXAMPLE_ORDER, epoch, block)
        return documents.map(lambda texts: (index, example_seed, order_seed, *with_others(texts, block, example_seed)))

    def examples(index, example_seed, order_seed, documents, others):
        batch = _examples_function(tokenizer, **example_arguments)(documents, others, example_seed)
        skip = tf.where(index == start, tf.cast(first_offset, tf.int64), 0)
        return _ordered(batch, order_seed, num_streams, index // num_blocks, index % num_blocks, skip)

    dataset = tf.data.Dataset.range(start, stop).flat_map(read)
    dataset = dataset.map(examples, num_parallel_calls=num_parallel_blocks)
    if epochs is None:
        dataset = _ended_without_examples(dataset, 2 * num_blocks)
    return dataset.prefetch(1)


def _stream_order(num_examples, num_streams):
    """Returns the order in which each of num_streams streams has consecutive examples, int64 [N].

    The examples at num_streams places after each other in this order are neighbours in the text. This holds at every
    offset, so a block may begin in the middle of a batch.
    """
    numbers = tf.range(num_examples)
    stream, row = numbers % num_streams, numbers // num_streams
    shortest, longer = num_examples // num_streams, num_examples % num_streams
    return stream * shortest + tf.minimum(stream, longer) + row


def _ordered(batch, seed, num_streams, epoch, slot, skip):
    """Returns the examples of a block in random or stream order, and the position after each example.

    The first `skip` examples are left out.
    """
    num_examples = tf.shape(batch["input_word_ids"], out_type=tf.int64)[0]
    if num_streams:
        order = _stream_order(num_examples, num_streams)
    else:
        order = tf.random.experimental.stateless_shuffle(tf.range(num_examples), seed)
    taken = tf.range(1, num_examples + 1)
    positions = tf.stack([tf.fill([num_examples], epoch), tf.fill([num_examples], slot), taken], axis=1)
    batch = {name: tf.gather(values, order[skip:]) for name, values in batch.items()}
    if num_streams:
        batch["continues"] = tf.cast(taken[skip:] > num_streams, tf.int32)
    return batch, positions[skip:]


@functools.lru_cache(maxsize=4)
def _examples_function(tokenizer, **example_arguments):
    """Returns block_examples as a function of (documents, other documents, seed) that is traced once.

    A run has a dataset for each corpus, and one for held-out text. The cache lets them share one trace.
    """
    return tf.function(
        lambda documents, others, seed: block_examples(
            documents, tokenizer, seed, other_documents=others, **example_arguments
        ),
        autograph=False,
    )


def _ended_without_examples(blocks, most_empty):
    """Ends the stream after `most_empty` blocks in a row without an example.

    Otherwise a reader of the stream would wait forever.

    Twice the number of shards is enough. The first block may be empty because its examples were taken before. The other
    blocks of this epoch may have no text. If the text gives any example, the next epoch has one.
    """

    def count(empty, block):
        _, positions = block
        empty = tf.where(tf.size(positions) > 0, tf.zeros_like(empty), empty + 1)
        return empty, (empty, block)

    blocks = blocks.scan(tf.constant(0, tf.int64), count)
    blocks = blocks.take_while(lambda empty, block: empty < most_empty)
    return blocks.map(lambda _, block: block)


def text_counts(shards: Sequence[str], tokenizer) -> tuple[int, int, int]:
    """Counts the documents, sentences and word pieces of text shards; reads all of them.

    Args:
        shards: as in pretraining_dataset.
        tokenizer: as in pretraining_dataset.

    Returns:
        (documents, sentences, word pieces).
    """
    counts = [0, 0, 0]
    for path in shards:
        for documents in _documents(path, is_text=str(path).endswith(".txt")):
            sentences = tf.strings.split(documents, "\n").flat_values
            pieces = tokenizer.tokenize(sentences).flat_values
            counts = [
                count + int(tf.size(values))
                for count, values in zip(counts, (documents, sentences, pieces), strict=True)
            ]
    return tuple(counts)


def _documents(path, is_text):
    """Returns a dataset of one element, string [D]: the documents of a shard."""
    if not is_text:
        documents = tf.data.TFRecordDataset(path, buffer_size=1 << 20).batch(1 << 40)
        # batch gives no element for a shard without a record.
        return documents.concatenate(tf.data.Dataset.from_tensors(tf.constant([], tf.string))).take(1)
    text = tf.strings.regex_replace(tf.io.read_file(path), r"\x00", "")  # BERT's cleaning also removes NUL
    text = tf.strings.regex_replace(tf.strings.strip(text), r"\n[ \t\r]*\n\s*", "\x00")
    return tf.data.Dataset.from_tensors(tf.strings.split(text, "\x00"))


def _adds_other_documents(shards, other_shards, is_text, sentence_objective="nsp", **_):
    """Makes a function of (documents, number of their shard, seed) that returns the documents and others.

    Only a shard with a single document gets other documents, because it needs them for next-sentence pairs.
    """

    def read(text, block, seed):
        names = tf.concat([tf.constant(list(names), tf.string) for names in (shards, other_shards)], axis=0)
        names = tf.concat([names[:block], names[block + 1 :]], axis=0)
        names = tf.random.experimental.stateless_shuffle(names, fold_in(seed, _OTHER_DOCUMENTS))
        return _first_documents(names, tf.strings.length(text), is_text)

    def with_others(documents, block, seed):
        none = tf.constant([], tf.string)
        if sentence_objective != "nsp" or len(shards) + len(other_shards) < 2:
            return documents, none
        return documents, tf.cond(tf.size(documents) == 1, lambda: read(documents[0], block, seed), lambda: none)

    return with_others


def _first_documents(shard_names, num_bytes, is_text):
    """Reads the first documents of shards until they have num_bytes bytes, at most _MOST_OTHER_DOCUMENTS."""
    shards = tf.data.Dataset.from_tensor_slices(shard_names)
    documents = shards.flat_map(lambda name: _documents(name, is_text).unbatch()).take(_MOST_OTHER_DOCUMENTS)
    documents = documents.batch(_MOST_OTHER_DOCUMENTS).concatenate(
        tf.data.Dataset.from_tensors(tf.constant([], tf.string))
    )
    documents = documents.take(1).get_single_element()
    sizes = tf.strings.length(documents)
    return tf.boolean_mask(documents, tf.cumsum(sizes, exclusive=True) < num_bytes)


def fold_in(seed, *numbers):
    """Derives a separate seed for one kind of draw, epoch or block.

    Args:
        seed: int [2].
        numbers: int. The kind of draw, then numbers such as those of the epoch and the block.

    Returns:
        int64 [2].
    """
    for number in numbers:
        seed = tf.random.experimental.stateless_fold_in(seed, number)
    return seed


def _filled_up(batch, batch_size):
    """Fills the batch with empty rows up to batch_size, and gives it a static shape."""

    def fill(values):
        missing = batch_size - tf.shape(values)[0]
        values = tf.pad(values, [[0, missing]] + [[0, 0]] * (values.shape.rank - 1))
        return tf.ensure_shape(values, [batch_size] + values.shape[1:])

    return {name: fill(values) for name, values in batch.items()}
