"""The threads of a CPU for models that write texts.

Such a model writes a text piece by piece, and each piece takes hundreds of small ops. TensorFlow shares each op among
the threads of all cores, and for small ops this takes longer than the ops themselves. It is faster to run each op on
one thread, and to give each core rows of its own. docs/results/text_to_text.md has the measurements.
"""

import collections
import concurrent.futures
import contextlib
import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import tensorflow as tf

# With a larger model the ops are so large that one text alone is faster on several threads (measured on two cores).
_LARGEST_WIDTH = 512
# A step with very few texts has almost the same number of ops to start, so many small calls would waste time.
_FEWEST_ROWS = 8


def use_one_thread_per_op(hidden_size: int) -> None:
    """Makes TensorFlow run each op on one thread, if the model is small.

    The function does nothing if TensorFlow has begun to compute, or if the environment has TF_NUM_INTRAOP_THREADS.

    Args:
        hidden_size: int. The width of the model.
    """
    if hidden_size <= _LARGEST_WIDTH and not os.environ.get("TF_NUM_INTRAOP_THREADS"):
        with contextlib.suppress(RuntimeError):
            tf.config.threading.set_intra_op_parallelism_threads(1)


def rows_of_call(num_rows: int, batch_size: int, num_calls: int) -> int:
    """The number of rows of a call if several calls run at the same time. Together they have batch_size rows.

    Args:
        num_rows: int. All rows.
        batch_size: int. The number of rows of a call that runs alone.
        num_calls: int. How many calls run at the same time.
    """
    of_a_batch = max(min(batch_size, _FEWEST_ROWS), -(-batch_size // num_calls))
    return max(1, min(of_a_batch, -(-num_rows // num_calls)))


def in_order(function: Callable[[Any], Any], items: Iterable, num_calls: int) -> Iterator:
    """Calls a function with each item, several times at once, and yields the results in the order of the items.

    Args:
        function: function of an item.
        items: iterable. The calling thread iterates over it, a little ahead of the results.
        num_calls: int. How many calls run at the same time. 1: the calling thread makes all calls.
    """
    if num_calls == 1:
        yield from map(function, items)
        return
    executor = concurrent.futures.ThreadPoolExecutor(num_calls)
    try:
        begun = collections.deque()
        for item in items:
            begun.append(executor.submit(function, item))
            if len(begun) > num_calls:  # one call more than run, so that no thread waits for its next item
                yield begun.popleft().result()
        while begun:
            yield begun.popleft().result()
    finally:
        executor.shutdown(cancel_futures=True)
