"""The threads of a CPU for models that write texts."""

import os
import subprocess
import sys
import threading
import time

import pytest

from keras_bert_app.runs import threads

_SMALL_MODELS_GET_ONE_THREAD = """
import os
import tensorflow as tf
from keras_bert_app.runs import threads

def number_after(hidden_size):
    threads.use_one_thread_per_op(hidden_size)
    return tf.config.threading.get_intra_op_parallelism_threads()

assert number_after(768) == 0
os.environ["TF_NUM_INTRAOP_THREADS"] = "2"
assert number_after(256) == 0
del os.environ["TF_NUM_INTRAOP_THREADS"]
assert number_after(512) == 1
tf.ones(1) + 1
assert number_after(256) == 1
tf.config.threading.set_intra_op_parallelism_threads(1)
"""


def test_calls_at_the_same_time_give_their_results_in_the_order_of_the_items():
    meeting = threading.Barrier(3)

    def function(item):
        meeting.wait(timeout=30)  # goes on only if three calls run at the same time
        time.sleep(0.01 * (item % 3 == 0))
        return item, threading.get_ident()

    results = list(threads.in_order(function, iter(range(9)), 3))
    assert [item for item, _ in results] == list(range(9))
    assert len({ident for _, ident in results}) == 3
    assert {ident for _, ident in threads.in_order(lambda item: (item, threading.get_ident()), range(3), 1)} == {
        threading.get_ident()
    }


@pytest.mark.parametrize("num_calls", [1, 2])
def test_an_error_in_a_call_or_an_end_by_the_caller_ends_the_calls(num_calls):
    begun = []

    def function(item):
        begun.append(item)
        return 1 // (item - 1)

    with pytest.raises(ZeroDivisionError):
        list(threads.in_order(function, range(100), num_calls))
    assert len(begun) <= 1 + 2 * num_calls

    begun.clear()
    results = threads.in_order(function, iter([5, 3, *range(5, 100)]), num_calls)
    assert next(results) == 0
    results.close()
    assert len(begun) <= 1 + 2 * num_calls


@pytest.mark.parametrize(
    "num_rows, batch_size, num_calls, expected",
    [(1000, 32, 2, 16), (1000, 32, 16, 8), (20, 32, 4, 5), (1000, 4, 2, 4), (1, 32, 8, 1), (0, 32, 8, 1)],
)
def test_the_calls_share_the_rows_of_a_batch(num_rows, batch_size, num_calls, expected):
    assert threads.rows_of_call(num_rows, batch_size, num_calls) == expected


def test_a_small_model_runs_each_op_on_one_thread():
    environment = {name: value for name, value in os.environ.items() if name != "TF_NUM_INTRAOP_THREADS"}
    subprocess.run([sys.executable, "-c", _SMALL_MODELS_GET_ONE_THREAD], check=True, env=environment)
