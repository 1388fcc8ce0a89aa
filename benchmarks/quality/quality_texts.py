"""The training text of a corpus in the forms that the peers of quality_per_minute read."""

import os
from collections.abc import Iterator, Sequence

from keras_bert_app.cli.common import app
from pipelines import storage


def write(directory: str, corpus_dir: str, vocab_file: str, max_seq_length: int) -> None:
    """Writes documents.txt and passages.txt, unless passages.txt exists.

    Args:
        directory: str. Where the files go.
        corpus_dir: str. Directory that prepare_corpus wrote.
        vocab_file: str. The vocabulary.
        max_seq_length: int. Pieces in a row. A line of passages.txt has sentences that fill a row. A line of
            documents.txt has a whole document.
    """
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
    # passages.txt gets its name last, so that both files are whole when passages.txt exists.
    with storage.whole_file(passages_file) as passages, storage.whole_file(documents_file) as documents:
        for record in tf.data.TFRecordDataset(shards).as_numpy_iterator():
            sentences = record.split(b"\n")
            documents.write(b" ".join(sentences) + b"\n")
            for passage in passages_of(sentences, lengths_of(sentences).numpy(), max_seq_length - 2):
                passages.write(b" ".join(passage) + b"\n")


def passages_of(sentences: Sequence, lengths: Sequence[int], wanted: int) -> Iterator[list]:
    """Yields lists of consecutive sentences. Each list but the last has `wanted` pieces or more.

    Args:
        sentences: the sentences of a document.
        lengths: the number of pieces of each sentence.
        wanted: int. Least number of pieces.
    """
    passage, pieces = [], 0
    for sentence, length in zip(sentences, lengths, strict=True):
        passage.append(sentence)
        pieces += length
        if pieces >= wanted:
            yield passage
            passage, pieces = [], 0
    if passage:
        yield passage
