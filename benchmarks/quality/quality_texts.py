"""A corpus's training text as the peers of quality_per_minute take it."""

import os

from keras_bert_app.cli.common import app


def write(directory, corpus_dir, vocab_file, max_seq_length):
    """DIRECTORY/documents.txt, a document a line, and passages.txt, a line for each that fills a row; once."""
    documents_file, passages_file = (os.path.join(directory, name) for name in ("documents.txt", "passages.txt"))
    if os.path.exists(passages_file):
        return
    with app.quiet_start():
        import tensorflow as tf

        from pipelines.corpus import preparation
        from pipelines.wordpiece.tokenizer import BertTokenizer
    tokenizer = BertTokenizer(vocab_file)
    lengths_of = tf.function(
        lambda sentences: tokenizer.tokenize(sentences).row_lengths(),
        input_signature=[tf.TensorSpec([None], tf.string)],
        autograph=False,
    )
    shards = preparation.shard_paths(corpus_dir, preparation.load_manifest(corpus_dir), "train")
    with open(documents_file, "wb") as documents, open(passages_file + ".tmp", "wb") as passages:
        for record in tf.data.TFRecordDataset(shards).as_numpy_iterator():
            sentences = record.split(b"\n")
            documents.write(b" ".join(sentences) + b"\n")
            for passage in passages_of(sentences, lengths_of(sentences).numpy(), max_seq_length - 2):
                passages.write(b" ".join(passage) + b"\n")
    os.replace(passages_file + ".tmp", passages_file)


def passages_of(sentences, lengths, wanted):
    """Lists of following sentences, each of `wanted` pieces or more but for the last."""
    passage, pieces = [], 0
    for sentence, length in zip(sentences, lengths):
        passage.append(sentence)
        pieces += length
        if pieces >= wanted:
            yield passage
            passage, pieces = [], 0
    if passage:
        yield passage
