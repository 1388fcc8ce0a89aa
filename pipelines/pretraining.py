"""The pre-training dataset: text shards to fixed-shape masked batches, new pairs and masks in every epoch.

One global stream of examples, a pure function of (seed, epoch, position). A block is one shard file: its documents
are tokenized, paired, packed and masked in one go, its examples permuted; blocks follow each other in an order that
is drawn anew each epoch. A position is (epoch, block, offset): which epoch, which place in its order of blocks, how many
examples of that block were taken. It is all that resuming needs.
"""

import tensorflow as tf

from pipelines import masking, packing, pairs

# Purposes of the draws made from one seed.
_BLOCK_ORDER, _BLOCK = 0, 1
FIRST_POSITION = (0, 0, 0)


def pretraining_dataset(shards, tokenizer, *, global_batch_size, max_seq_length=128, max_predictions_per_seq=20,
                        masked_lm_prob=0.15, short_seq_prob=0.1, seed=0, epochs=None, position=FIRST_POSITION,
                        with_position=False, num_parallel_blocks=2):
    """Batches of BERT pre-training examples from text shards.

    Args:
        shards: paths of TFRecord files; a record is a document, its sentences separated by line feeds
            (pipelines.corpus writes them).
        tokenizer: pipelines.wordpiece.BertTokenizer.
        global_batch_size: B. max_seq_length: S. max_predictions_per_seq: P.
        masked_lm_prob: share of a row's tokens that is predicted. short_seq_prob: share of documents cut shorter.
        seed: of every draw.
        epochs: passes over the text, or None for no end. With an end the last batch is filled with empty rows
            (input_mask and masked_lm_weights 0), so that every example is seen once and shapes stay static.
        position: (epoch, block, offset) to go on from.
        with_position: whether to yield (batch, int64 [3] position after the batch).
        num_parallel_blocks: shards prepared at the same time; each takes some 20 times its size in memory.

    Returns:
        tf.data.Dataset of dicts: input_word_ids, input_mask, input_type_ids int32 [B, S]; masked_lm_positions,
        masked_lm_ids int32 [B, P], masked_lm_weights float32 [B, P]; next_sentence_labels int32 [B] (1 = random).
    """
    num_blocks = len(shards)
    shard_names = tf.constant(list(shards))
    seed = tf.stack([tf.constant(seed, tf.int64), tf.constant(0, tf.int64)])
    first_epoch, first_block, first_offset = position
    start = first_epoch * num_blocks + first_block
    stop = tf.int64.max if epochs is None else epochs * num_blocks

    def read(index):
        epoch, slot = index // num_blocks, index % num_blocks
        order = tf.random.experimental.stateless_shuffle(
            tf.range(num_blocks), _fold_in(seed, _BLOCK_ORDER, epoch))
        documents = tf.data.TFRecordDataset(shard_names[order[slot]], buffer_size=1 << 20).batch(1 << 40)
        block = tf.cast(order[slot], tf.int64)
        return documents.map(lambda texts: (index, _fold_in(seed, _BLOCK, epoch, block), texts))

    def examples(index, block_seed, documents):
        batch = block_examples(
            documents, tokenizer, block_seed, max_seq_length=max_seq_length, masked_lm_prob=masked_lm_prob,
            max_predictions_per_seq=max_predictions_per_seq, short_seq_prob=short_seq_prob)
        num_examples = tf.shape(batch["input_word_ids"], out_type=tf.int64)[0]
        taken = tf.range(1, num_examples + 1)
        positions = tf.stack([tf.fill([num_examples], index // num_blocks), tf.fill([num_examples], index % num_blocks),
                              taken], axis=1)
        skip = tf.where(index == start, tf.cast(first_offset, tf.int64), 0)
        return tf.nest.map_structure(lambda values: values[skip:], (batch, positions))

    dataset = tf.data.Dataset.range(start, stop).flat_map(read)
    dataset = dataset.map(examples, num_parallel_calls=num_parallel_blocks).prefetch(1)
    dataset = dataset.rebatch(global_batch_size, drop_remainder=epochs is None)
    if epochs is not None:
        dataset = dataset.map(lambda batch, positions: (_filled_up(batch, global_batch_size), positions))
    return dataset.map(lambda batch, positions: (batch, positions[-1]) if with_position else batch).prefetch(8)


def block_examples(documents, tokenizer, seed, *, max_seq_length, max_predictions_per_seq, masked_lm_prob,
                   short_seq_prob):
    """All examples of one pass over some documents, permuted.

    Args:
        documents: string [D], sentences separated by line feeds. seed: int [2]. The rest as in pretraining_dataset.

    Returns:
        dict of N examples, see pretraining_dataset.
    """
    pair_seed, order_seed, mask_seed = tf.unstack(tf.random.experimental.stateless_split(seed, 3))
    sentences = tf.strings.split(documents, "\n")
    pieces = tokenizer.tokenize(sentences.flat_values)
    # Sentences without a piece (control characters only) and documents without a sentence are no text.
    sentences = tf.ragged.boolean_mask(sentences, sentences.with_flat_values(pieces.row_lengths() > 0))
    row_lengths = sentences.row_lengths()
    row_lengths = tf.cast(tf.boolean_mask(row_lengths, row_lengths > 0), tf.int32)
    sentence_lengths = tf.cast(pieces.row_lengths(), tf.int32)
    sentence_lengths = tf.boolean_mask(sentence_lengths, sentence_lengths > 0)

    segment_pairs = pairs.next_sentence_pairs(
        sentence_lengths, tf.concat([[0], tf.cumsum(row_lengths)], axis=0), pair_seed,
        max_num_tokens=max_seq_length - 3, short_seq_prob=short_seq_prob)
    segment_pairs = pairs.shuffle_pairs(segment_pairs, order_seed)
    ids, input_mask, input_type_ids = packing.pack_pairs(
        pieces.flat_values, segment_pairs, max_seq_length, tokenizer.cls_id, tokenizer.sep_id, tokenizer.pad_id)
    masked = masking.mask_tokens(
        ids, input_mask, mask_seed, max_predictions_per_seq=max_predictions_per_seq, masked_lm_prob=masked_lm_prob,
        vocab_size=tokenizer.vocab_size, mask_id=tokenizer.mask_id,
        never_masked=(tokenizer.cls_id, tokenizer.sep_id))
    batch = {**masked, "input_mask": input_mask, "input_type_ids": input_type_ids,
             "next_sentence_labels": segment_pairs.next_sentence_labels}
    row_shapes = {"input_word_ids": [max_seq_length], "input_mask": [max_seq_length],
                  "input_type_ids": [max_seq_length], "next_sentence_labels": []}
    return {name: tf.ensure_shape(values, [None] + row_shapes.get(name, [max_predictions_per_seq]))
            for name, values in batch.items()}


def _fold_in(seed, *numbers):
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
