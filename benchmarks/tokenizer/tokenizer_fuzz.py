"""Checks that a million random strings, valid and invalid UTF-8, do not crash the tokenizer or make its memory grow.

python -m benchmarks.tokenizer.tokenizer_fuzz --vocab_file=VOCAB

Batches of strings go through tokenize and tokenize_with_offsets in one tf.data pipeline, as in training. The benchmark
prints the resident memory 20 times, after equal numbers of strings. It passes (exit code 0) if the memory grows by less
than 20 MB over the last 90 % of the strings.
"""

import sys
import time

from absl import flags

from benchmarks.common.this_machine import resident_bytes
from keras_bert_app.cli.common import app
from tests import random_text

_VOCAB_FILE = flags.DEFINE_string("vocab_file", "", "The vocabulary.")
_DO_LOWER_CASE = flags.DEFINE_bool("do_lower_case", True, "Whether the vocabulary is uncased.")
_SPECIAL_TOKENS_IN_TEXT = flags.DEFINE_bool("special_tokens_in_text", False, "Whether a text [MASK] is the mask token.")
_NUM_STRINGS = flags.DEFINE_integer(
    "num_strings", 1_000_000, "Number of strings. Every second one is usually invalid UTF-8.", lower_bound=20
)
_BATCH_SIZE = flags.DEFINE_integer("batch_size", 256, "Strings in a batch.", lower_bound=1)
_SEED = flags.DEFINE_integer("seed", 7, "Seed of the random strings.")

_ALLOWED_GROWTH_MB = 20
_NUM_REPORTS = 20


def batches():
    """Yields the strings as lists of bytes."""
    batch = []
    for number in range(_NUM_STRINGS.value):
        if number % 2:
            batch.append(random_text.random_bytes(_SEED.value, number))
        else:
            batch.append(random_text.random_string(_SEED.value, number).encode("utf-8"))
        if len(batch) == _BATCH_SIZE.value or number == _NUM_STRINGS.value - 1:
            yield batch
            batch = []


def main(arguments):
    del arguments
    (vocab_file,) = app.required("vocab_file")
    with app.quiet_start():
        import tensorflow as tf

        from pipelines import BertTokenizer
    tokenizer = BertTokenizer(vocab_file, _DO_LOWER_CASE.value, _SPECIAL_TOKENS_IN_TEXT.value)

    def measure(strings):
        ids = tokenizer.tokenize(strings)
        with_offsets, start_bytes, end_bytes, start_chars, end_chars = tokenizer.tokenize_with_offsets(strings)
        tf.debugging.assert_equal(ids.row_splits, with_offsets.row_splits)
        tf.debugging.assert_equal(ids.flat_values, with_offsets.flat_values)
        tf.debugging.assert_less(start_bytes.flat_values, end_bytes.flat_values)
        tf.debugging.assert_less(start_chars.flat_values, end_chars.flat_values)
        lengths = tf.gather(tf.strings.length(strings), end_bytes.value_rowids())
        tf.debugging.assert_less_equal(end_bytes.flat_values, lengths)
        return tf.size(strings), tf.size(ids.flat_values)

    dataset = tf.data.Dataset.from_generator(batches, output_signature=tf.TensorSpec([None], tf.string)).map(measure)
    started = time.monotonic()
    done = num_pieces = 0
    memory = []  # (strings done, MB) of each report
    for num_strings, pieces in dataset.as_numpy_iterator():
        done += num_strings
        num_pieces += pieces
        if done >= (len(memory) + 1) * _NUM_STRINGS.value / _NUM_REPORTS:
            memory.append((done, resident_bytes("VmRSS") / 1e6))
            print(
                f"{done:,} of {_NUM_STRINGS.value:,} strings, {num_pieces:,} pieces, "
                f"{memory[-1][1]:.1f} MB resident, {done / (time.monotonic() - started):,.0f} strings/s",
                flush=True,
            )
    last_90_percent = [mb for strings, mb in memory if strings >= _NUM_STRINGS.value / 10]
    growth = max(last_90_percent) - last_90_percent[0]
    is_good = growth < _ALLOWED_GROWTH_MB
    print(
        f"{'passed' if is_good else 'FAILED'}: {done:,} strings without a crash; memory grew by {growth:.1f} MB "
        f"over the last 90 % (allowed: under {_ALLOWED_GROWTH_MB})"
    )
    sys.exit(0 if is_good else 1)


if __name__ == "__main__":
    app.run(main, __doc__)
