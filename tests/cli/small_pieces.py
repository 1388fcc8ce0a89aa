"""Small and slow pieces for prepare_corpus, so that the short texts of a test make many pieces."""

import time

from pipelines.corpus import corpus_tasks, shards, spool
from pipelines.text import readers


def use(setter, num_bytes, pause=0.0):
    """Makes the pieces small, and adds a pause before each piece is written.

    Args:
        setter: setattr, or the setattr of pytest's monkeypatch, which restores the values.
        num_bytes: int. Bytes of text for one task and for one run. The sizes of batches and ranges are fixed.
        pause: float. Seconds to wait before each piece is written.

    Returns:
        A list that receives the path of each piece when the piece is written.
    """
    written = []
    for module, name, value in (
        (corpus_tasks, "_TASK_BYTES", num_bytes),
        (corpus_tasks, "_RUN_BYTES", num_bytes),
        (readers, "_BATCH_BYTES", 1000),
        (spool, "_RANGE_BYTES", 5000),
        (spool, "_SLICE_BYTES", 10),
        (corpus_tasks, "write_run", _watched(corpus_tasks.write_run, written, pause)),
        (shards, "_write_shard", _watched(shards._write_shard, written, pause)),
    ):
        setter(module, name, value)
    return written


def _watched(function, written, pause):
    def watched(path, *arguments):
        time.sleep(pause)
        written.append(path)
        return function(path, *arguments)

    return watched
