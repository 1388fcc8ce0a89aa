"""Stops the stream of training batches at random positions, resumes from each, and compares all remaining batches.

python -m benchmarks.data.pretraining_resume --corpus_dir=CORPUS[,CORPUS2] --vocab_file=VOCAB --positions=50

Batches are compared by a hash of every tensor's bytes. The exit code is 1 if any batch differs.
"""

import hashlib
import itertools
import random
import sys
import time

from absl import flags

from keras_bert_app.cli.common import app, config_flags
from keras_bert_app.config.pretraining_config import DATA_FIELDS, PretrainingConfig
from keras_bert_app.terminal.durations import duration

_VOCAB_FILE = flags.DEFINE_string("vocab_file", "", "WordPiece vocabulary.")
_DO_LOWER_CASE = flags.DEFINE_bool("do_lower_case", True, "Whether the vocabulary is uncased.")
_POSITIONS = flags.DEFINE_integer("positions", 50, "Number of stops.", lower_bound=1)
_BATCHES = flags.DEFINE_integer("batches", 1000, "Number of batches of the uninterrupted stream.", lower_bound=2)
_given_data = config_flags.define_flags(DATA_FIELDS, is_path=("corpus_dir", "lexicon_file"))


def main(arguments):
    del arguments
    (vocab_file,) = app.required("vocab_file")
    app.required("corpus_dir")
    run = PretrainingConfig(**_given_data()).resolved()
    with app.quiet_start():
        from keras_bert_app.inspection import source as sources
    source = sources.from_corpora(run, vocab_file, _DO_LOWER_CASE.value)

    def digests(position, step, count):
        """List of (digest of a batch, position after the batch). `step` batches precede the first position."""
        return [
            (hashlib.sha256(b"".join(batch[name].tobytes() for name in sorted(batch))).hexdigest(), after)
            for batch, after in itertools.islice(sources.batches(source, position, step), count)
        ]

    whole = digests(sources.first_position(source), 0, _BATCHES.value)
    print(f"{len(whole):,} batches of {run.global_batch_size}, epochs reached: {whole[-1][1]}", flush=True)
    stops = sorted(random.Random(run.seed).sample(range(_BATCHES.value - 1), min(_POSITIONS.value, _BATCHES.value - 1)))
    different = compared = 0
    started = time.monotonic()
    for number, stop in enumerate(stops, start=1):
        expected = whole[stop + 1 :]
        compared += len(expected)
        resumed = digests(whole[stop][1], stop + 1, len(expected))
        different += sum(ours != theirs for ours, theirs in zip(resumed, expected, strict=False))
        left = (time.monotonic() - started) / number * (len(stops) - number)
        print(
            f"stop {number}/{len(stops)} after batch {stop + 1:,}: {compared:,} batches compared, {different} differ  "
            f"ETA {duration(left)}",
            flush=True,
        )
    sys.exit(1 if different else 0)


if __name__ == "__main__":
    app.run(main, __doc__)
