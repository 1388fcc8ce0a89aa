"""Dynamic batching: requests that share a run, requests that wait, and requests that are refused."""

import asyncio
import concurrent.futures
import contextlib
import threading
import types

import numpy as np
import pytest

from keras_bert_app.errors import UserError
from keras_bert_app.serving import batching_options
from keras_bert_app.serving.batcher import TOKENS_OF_A_ROW, Batcher
from keras_bert_app.serving.batching_options import BatchingOptions
from keras_bert_app.serving.request_errors import RequestError
from keras_bert_app.serving.server_metrics import Metrics
from keras_bert_app.serving.versions import Version
from keras_bert_app.serving.work import Work


class Doubling:
    """A signature that doubles its one input and records its runs. A run waits while the gate is closed."""

    can_be_merged, name = True, "doubling"
    outputs = (types.SimpleNamespace(name="y"),)

    def __init__(self):
        self.runs, self.gate = [], threading.Event()
        self.gate.set()

    def run(self, arrays, options):
        self.runs.append(arrays[0].tolist())
        assert self.gate.wait(10)
        if (arrays[0] < 0).any():
            raise ValueError("a negative number")
        return [arrays[0] * 2]


class Summing(Doubling):
    """A signature whose output has no batch axis, although its definition does not show this."""

    def run(self, arrays, options):
        return [super().run(arrays, options)[0].sum()]


@contextlib.asynccontextmanager
async def batching(signature, timeout_seconds=None, **options):
    """Yields `ask(values, tokens)`. It sends a request with this number of tokens in each row and returns its task."""
    options = BatchingOptions(**{"num_batch_threads": 1, "batch_timeout_micros": 0, **options})
    with concurrent.futures.ThreadPoolExecutor(options.num_batch_threads) as threads:
        batcher = Batcher(options, threads, timeout_seconds, Metrics())
        version = Version(1, "", None)

        def ask(values, tokens=1):
            work = Work(np.full(len(values), tokens))
            return asyncio.ensure_future(batcher.run(version, signature, [np.array(values)], work))

        yield ask
        signature.gate.set()


def run(coroutine):
    asyncio.run(asyncio.wait_for(coroutine, 20))


async def until(condition):
    while not condition():
        await asyncio.sleep(0.001)


def test_a_lone_request_does_not_wait_for_others():
    async def case():
        signature = Doubling()
        async with batching(signature, batch_timeout_micros=10**9) as ask:
            assert (await asyncio.wait_for(ask([1, 2]), 5))[0].tolist() == [2, 4]

    run(case())


def test_requests_that_wait_together_share_runs_up_to_the_limit_and_get_their_own_rows():
    async def case():
        signature = Doubling()
        signature.gate.clear()
        async with batching(signature, max_batch_size=4) as ask:
            requests = [ask(values) for values in ([0], [1], [2, 3], [4, 5], [6, 7, 8], [9])]
            await until(lambda: signature.runs)
            signature.gate.set()
            answers = [(await request)[0].tolist() for request in requests]
            assert answers == [[0], [2], [4, 6], [8, 10], [12, 14, 16], [18]]
            assert signature.runs == [[0], [1, 2, 3], [4, 5], [6, 7, 8, 9]]

    run(case())


def test_rows_of_different_lengths_and_disabled_batching_are_not_merged():
    async def case():
        signature = Doubling()
        signature.gate.clear()
        async with batching(signature) as ask:
            requests = [ask(values) for values in ([0], [[1, 2]], [[3]], [[4, 5]])]
            await until(lambda: signature.runs)
            signature.gate.set()
            await asyncio.gather(*requests)
            assert signature.runs == [[0], [[1, 2], [4, 5]], [[3]]]
        signature = Doubling()
        signature.gate.clear()
        async with batching(signature, is_enabled=False) as ask:
            requests = [ask(values) for values in ([0], [1], [2])]
            signature.gate.set()
            await asyncio.gather(*requests)
            assert signature.runs == [[0], [1], [2]]

    run(case())


def test_a_request_that_spoils_its_batch_fails_alone():
    async def case():
        signature = Doubling()
        signature.gate.clear()
        async with batching(signature) as ask:
            requests = [ask(values) for values in ([0], [1], [-2], [3])]
            await until(lambda: signature.runs)
            signature.gate.set()
            answers = await asyncio.gather(*requests, return_exceptions=True)
            assert [answers[index][0].tolist() for index in (0, 1, 3)] == [[0], [2], [6]]
            assert isinstance(answers[2], ValueError)
            assert signature.runs == [[0], [1, -2, 3], [1], [-2], [3]]

    run(case())


def test_outputs_that_turn_out_to_have_no_batch_axis_are_computed_one_by_one():
    async def case():
        signature = Summing()
        signature.gate.clear()
        async with batching(signature) as ask:
            requests = [ask(values) for values in ([0], [1, 2], [3])]
            await until(lambda: signature.runs)
            signature.gate.set()
            assert [(await request)[0] for request in requests] == [0, 6, 6]

    run(case())


def test_waiting_rows_have_a_limit_and_a_cancelled_request_does_not_run():
    async def case():
        signature = Doubling()
        signature.gate.clear()
        async with batching(signature, max_batch_size=2, max_enqueued_batches=2) as ask:
            running = ask([0])
            await until(lambda: signature.runs)
            waiting = [ask([1]), ask([2]), ask([3, 4])]
            await asyncio.sleep(0)
            with pytest.raises(RequestError, match="4 rows are waiting already") as raised:
                await ask([5])
            assert raised.value.status == 503
            with pytest.raises(RequestError, match="5 rows; expected at most 4"):
                await ask([5, 6, 7, 8, 9])
            waiting[0].cancel()
            await asyncio.sleep(0)
            accepted = ask([8])
            signature.gate.set()
            await asyncio.gather(running, *waiting[1:], accepted)
            assert signature.runs == [[0], [2], [3, 4], [8]]

    run(case())


def test_on_a_busy_server_a_request_waits_for_others_although_a_thread_is_free():
    async def case():
        signature = Doubling()
        signature.gate.clear()
        async with batching(signature, num_batch_threads=2, batch_timeout_micros=50_000, max_batch_size=3) as ask:
            requests = [ask([0])]
            await until(lambda: signature.runs)
            requests.append(ask([1]))
            await asyncio.sleep(0.01)
            assert signature.runs == [[0]]
            requests += [ask([2]), ask([3])]  # the batch is full and starts at once
            await until(lambda: len(signature.runs) == 2)
            assert signature.runs == [[0], [1, 2, 3]]
            signature.gate.set()
            await asyncio.gather(*requests)
            signature.gate.clear()
            requests = [ask([4])]
            await until(lambda: len(signature.runs) == 3)
            requests.append(ask([5]))
            await until(lambda: len(signature.runs) == 4)  # the waiting time of request [5] is over
            assert signature.runs[2:] == [[4], [5]]
            signature.gate.set()
            await asyncio.gather(*requests)

    run(case())


def test_a_request_above_a_batch_runs_in_parts_and_others_run_in_between():
    async def case():
        signature = Doubling()
        signature.gate.clear()
        async with batching(signature, max_batch_size=2) as ask:
            large = ask([0, 1, 2, 3, 4])
            await until(lambda: signature.runs)
            small = ask([8, 9])
            await asyncio.sleep(0)
            signature.gate.set()
            assert (await large)[0].tolist() == [0, 2, 4, 6, 8] and (await small)[0].tolist() == [16, 18]
            assert signature.runs == [[0, 1], [8, 9], [2, 3], [4]]

    run(case())


def test_heavy_requests_leave_a_thread_to_others_and_have_a_limit():
    async def case():
        signature = Doubling()
        signature.gate.clear()
        heavy = TOKENS_OF_A_ROW * 2 + 1  # a row with more tokens than a batch may have
        limits = {"max_batch_size": 2, "num_batch_threads": 2, "max_request_tokens": 2 * heavy}
        async with batching(signature, **limits) as ask:
            requests = [ask([0, 1], heavy), ask([2, 3], heavy)]
            await until(lambda: signature.runs)
            await asyncio.sleep(0.01)
            assert signature.runs == [[0]]
            with pytest.raises(RequestError, match="under way in large requests") as raised:
                await ask([4, 5], heavy)
            assert raised.value.status == 503
            with pytest.raises(RequestError, match="expected at most 2,050"):
                await ask([4, 5, 6], heavy)
            light = ask([7])
            await until(lambda: len(signature.runs) == 2)
            assert signature.runs == [[0], [7]]
            signature.gate.set()
            await asyncio.gather(*requests, light)
            assert sorted(signature.runs) == [[0], [1], [2], [3], [7]]
            await ask([4, 5], heavy)

    run(case())


def test_a_run_gets_the_time_that_is_left_to_its_request():
    async def case():
        signature, limits = Doubling(), []
        run_once = signature.run
        signature.run = lambda arrays, options: limits.append(options.timeout_in_ms) or run_once(arrays, options)
        signature.gate.clear()
        async with batching(signature, timeout_seconds=10) as ask:
            requests = [ask([0]), ask([1])]
            await until(lambda: limits)
            await asyncio.sleep(0.2)
            signature.gate.set()
            await asyncio.gather(*requests)
            assert 9_900 < limits[0] <= 10_000 and limits[1] < 9_850

    run(case())


def test_rows_of_a_batch_with_others_do_not_keep_the_whole_batch_in_memory():
    async def case():
        signature = Doubling()
        signature.gate.clear()
        async with batching(signature) as ask:
            requests = [ask([0]), ask([1]), ask([2])]
            await until(lambda: signature.runs)
            signature.gate.set()
            assert [outputs[0].base for outputs in await asyncio.gather(*requests)] == [None] * 3

    run(case())


def test_batching_config_is_read_and_its_faults_are_named(tmp_path):
    path = tmp_path / "batching.config"
    path.write_text("max_batch_size { value: 7 }\nbatch_timeout_micros { value: 0 }\nthread_pool_name { value: 'x' }\n")
    assert batching_options.read(str(path)) == BatchingOptions(max_batch_size=7, batch_timeout_micros=0)
    for text, expected in (
        ("max_batch_size { value: 0 }", "max_batch_size is 0; expected at least 1"),
        ("max_batch { value: 1 }", "1:1.*max_batch"),
        ("allowed_batch_sizes: 4", "remove it"),
    ):
        path.write_text(text)
        with pytest.raises(UserError, match=expected):
            batching_options.read(str(path))
