"""Compares two learners of WordPiece vocabularies on the same words: pieces a word and time.

python -m benchmarks.tokenizer.vocabulary_learners --corpus_dir=runs/demo/corpus --vocab_size=8000

The learners are pipelines.wordpiece.vocabulary_learning (byte-pair merging by the Rust trainer of `tokenizers`) and keras_hub's
compute_word_piece_vocabulary (the top-down algorithm). Both learn from the training shards, already split by BERT's
normalization, and cut the words of the held-out shards. BUILD.md has a recorded run.
"""

import os
import tempfile
import time

from absl import flags

from keras_bert_app.cli.common import app

_CORPUS_DIR = flags.DEFINE_string(
    "corpus_dir", "", "What prepare_corpus wrote; make demo leaves one in runs/demo/corpus."
)
_VOCAB_SIZE = flags.DEFINE_integer("vocab_size", 8000, "Entries to ask for.")


def main(arguments):
    del arguments
    (corpus_dir,) = app.required("corpus_dir")
    with app.quiet_start():
        import keras_hub
        import tensorflow as tf

        from pipelines.corpus import preparation
        from pipelines.wordpiece import normalize, vocabulary, vocabulary_learning
        from pipelines.wordpiece.tokenizer import BertTokenizer
    manifest = preparation.load_manifest(corpus_dir)
    texts, heldout = (
        tf.data.TFRecordDataset(preparation.shard_paths(corpus_dir, manifest, split)).batch(256)
        for split in ("train", "heldout")
    )

    def ours():
        return vocabulary_learning.learn_vocabulary(texts, _VOCAB_SIZE.value)[0]

    def keras_hubs():
        words = texts.map(lambda batch: tf.strings.split(normalize.space_out(batch, True)).flat_values)
        return keras_hub.tokenizers.compute_word_piece_vocabulary(
            words,
            _VOCAB_SIZE.value,
            lowercase=False,
            strip_accents=False,
            split=False,
            reserved_tokens=list(vocabulary.SPECIAL_PIECES),
        )

    print("| learner | entries | seconds | pieces a word, held-out | [UNK] share |\n|---|---|---|---|---|")
    for name, learn in (("pipelines.wordpiece.vocabulary_learning", ours), ("keras_hub", keras_hubs)):
        started = time.monotonic()
        pieces = learn()
        seconds = time.monotonic() - started
        entries = len(pieces)
        pieces = [piece for piece in dict.fromkeys(pieces) if piece.strip()]
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "vocab.txt")
            vocabulary.write_vocabulary(pieces, path)
            tokenizer = BertTokenizer(path)
        num_pieces = num_words = num_unknown = 0
        for batch in heldout:
            ids = tokenizer.tokenize(batch).flat_values.numpy()
            num_pieces += len(ids)
            num_unknown += int((ids == tokenizer.unk_id).sum())
            num_words += len(tf.strings.split(normalize.space_out(batch, True)).flat_values)
        print(
            f"| {name} | {entries:,} | {seconds:.1f} | {num_pieces / num_words:.4f} | {num_unknown / num_pieces:.5f} |",
            flush=True,
        )


if __name__ == "__main__":
    app.run(main, __doc__)
