"""Dynamic batching: requests that wait at the same time run together."""

import asyncio
import collections
import concurrent.futures
import dataclasses
import time

import numpy as np
import tensorflow as tf

from keras_bert_app.serving import parts
from keras_bert_app.serving.request_errors import RequestError
from keras_bert_app.serving.work import Work

# A batch may have at most this number times max_batch_size tokens.
TOKENS_OF_A_ROW = 512
# All heavy requests under way together may have at most this number times max_request_tokens tokens.
_HEAVY_AT_ONCE = 2


@dataclasses.dataclass(eq=False, slots=True)
class _Task:
    """A request or a part of one.

    Args:
        arrays: list of np.ndarray in the order of signature.inputs.
        rows: int. The number of rows.
        tokens: int. The number of tokens that the model reads.
        values: int. The number of values in the answer, or 0 if the number is not known before the run.
        is_heavy: bool. Whether the whole request has more tokens than a batch may have.
        deadline: float. The time at which the request times out, by time.monotonic().
        future: asyncio.Future of the outputs.
        since: float. The time at which the task entered the queue, by time.monotonic().
        is_waiting: bool. Whether the task is still in the queue.
    """

    arrays: list
    rows: int
    tokens: int
    values: int
    is_heavy: bool
    deadline: float
    future: asyncio.Future
    since: float
    is_waiting: bool = True


class Batcher:
    """A queue that runs requests in batches on a pool of threads.

    All calls of the object must come from one event loop.

    A request starts at once if no batch is running. While other batches run, a request waits for further requests for
    up to batch_timeout_micros, even if a thread is free. The batch of the oldest request starts first. While this
    batch waits for further requests, a full batch may start before it.

    A request runs in parts if it has more rows or tokens than a batch may have. Other requests run between the parts.
    A request is heavy if it has more tokens than a batch may have. While a heavy request runs, the last free thread
    takes only requests that are not heavy.

    Args:
        options: BatchingOptions. The limits of a batch and of the queue.
        threads: Executor with options.num_batch_threads threads.
        timeout_seconds: float. The longest time from the call of `run` to its outputs; None for no limit.
        metrics: Metrics. The counters of the server.
        max_values: int. The most values in the answers of one batch, and in the answer of one request.
    """

    def __init__(
        self,
        options,
        threads: concurrent.futures.Executor,
        timeout_seconds: float | None,
        metrics,
        max_values: int = 1 << 25,
    ):
        self._options, self._threads, self._timeout_seconds, self._metrics = options, threads, timeout_seconds, metrics
        self._max_values, self._max_tokens = max_values, options.max_batch_size * TOKENS_OF_A_ROW
        # Maps a key to the queue of its waiting tasks. Tasks with the same key can share a batch. A key is (version,
        # signature, whether the tasks are heavy, sizes of a row).
        self._waiting = {}
        self._num_waiting_rows = 0
        self._num_running = self._num_running_heavy = self._num_heavy_tokens = 0
        self._batches = set()
        self._timer = None

    async def run(self, version, signature, arrays: list[np.ndarray], work: Work) -> list[np.ndarray]:
        """Runs a request: alone, together with others, or in parts.

        Args:
            version: Version. The version that has the signature. The version stays loaded during the run.
            signature: Signature. The signature to run.
            arrays: list of np.ndarray in the order of signature.inputs.
            work: Work. The estimated work of the request.

        Returns:
            list of np.ndarray in the order of signature.outputs.

        Raises:
            RequestError: the request or its answer is too large, the outputs of its parts cannot be joined, the queue
                is full, or too many heavy requests are under way.
            tf.errors.OpError: the model failed.
        """
        tokens = work.tokens
        rows = len(tokens)
        heavy_tokens = self._admit(rows, int(tokens.sum()))
        deadline = time.monotonic() + (self._timeout_seconds or float("inf"))
        self._num_heavy_tokens += heavy_tokens
        try:
            outputs = []
            for part in parts.split(tokens, self._options.max_batch_size, self._max_tokens):
                share = [array[part] for array in arrays] if signature.can_be_merged else arrays
                count = part.stop - part.start
                values = work.values * count // max(1, rows)
                future = asyncio.get_running_loop().create_future()
                task = _Task(
                    share, count, int(tokens[part].sum()), values, heavy_tokens > 0, deadline, future, time.monotonic()
                )
                outputs.append(await self._run_part(version, signature, task))
                parts.check_values(outputs, self._max_values)
            return parts.joined(signature, outputs, rows)
        finally:
            self._num_heavy_tokens -= heavy_tokens

    def _admit(self, rows, tokens):
        """Refuses a request that is too large, or that exceeds the limits of the queue or of heavy requests.

        Returns:
            int: the tokens of a heavy request, 0 for other requests.
        """
        most_rows = self._options.max_batch_size * self._options.max_enqueued_batches
        if rows > most_rows:
            raise RequestError(
                400,
                f"the request has {rows:,} rows; expected at most {most_rows:,} (max_batch_size times "
                "max_enqueued_batches): send the rows in several requests",
            )
        if tokens > self._options.max_request_tokens:
            raise RequestError(
                400,
                f"the model would have to read about {tokens:,} tokens; expected at most "
                f"{self._options.max_request_tokens:,} (--max_request_tokens): send fewer rows or shorter texts",
            )
        if self._num_waiting_rows + min(rows, self._options.max_batch_size) > most_rows:
            raise RequestError(
                503,
                f"{self._num_waiting_rows:,} rows are waiting already; expected at most {most_rows:,} together with "
                "this request (max_batch_size times max_enqueued_batches); try again later",
            )
        if tokens <= self._max_tokens:
            return 0
        most_heavy_tokens = _HEAVY_AT_ONCE * self._options.max_request_tokens
        if self._num_heavy_tokens + tokens > most_heavy_tokens:
            raise RequestError(
                503,
                f"{self._num_heavy_tokens:,} tokens are under way in large requests; expected at most "
                f"{most_heavy_tokens:,} together with this request; try again later",
            )
        return tokens

    async def _run_part(self, version, signature, task):
        can_be_merged = self._options.is_enabled and signature.can_be_merged
        # A task that cannot be merged is a part of its own key, so it never shares a batch.
        sizes = tuple(array.shape[1:] for array in task.arrays) if can_be_merged else task
        # Heavy and light requests never share a batch, because the light requests would wait for the heavy part.
        key = (version, signature, task.is_heavy, sizes)
        self._waiting.setdefault(key, collections.deque()).append(task)
        self._count_waiting(task.rows)
        self._start_batches()
        try:
            return await task.future
        except asyncio.CancelledError:
            if task.is_waiting:  # the client has left, or the request has timed out
                self._waiting[key].remove(task)
                self._forget_if_empty(key)
                self._count_waiting(-task.rows)
            raise

    def _forget_if_empty(self, key):
        if not self._waiting[key]:
            del self._waiting[key]

    def _count_waiting(self, rows):
        self._num_waiting_rows += rows
        self._metrics.waiting_rows.set(self._num_waiting_rows)

    def _start_batches(self):
        while self._num_running < self._options.num_batch_threads:
            # While a heavy part runs, the last free thread is for light requests.
            is_last = self._options.num_batch_threads - self._num_running == 1
            may_be_heavy = not (is_last and self._num_running_heavy)
            keys = [key for key in self._waiting if may_be_heavy or not key[2]]
            if not keys:
                return
            key = min(keys, key=lambda key: self._waiting[key][0].since)
            remaining = self._waiting[key][0].since + self._options.batch_timeout_micros / 1e6 - time.monotonic()
            if self._num_running and self._options.is_enabled and remaining > 0 and not self._is_full(key):
                full = next(filter(self._is_full, keys), None)
                if full is None:
                    self._wake_after(remaining)
                    return
                key = full
            version, signature, is_heavy, _ = key
            tasks = self._take(key)
            self._num_running += 1
            self._num_running_heavy += is_heavy
            version.acquire()
            running = asyncio.ensure_future(self._run_batch(version, signature, tasks))
            self._batches.add(running)  # the event loop keeps only weak references
            running.add_done_callback(self._batches.discard)

    def _is_full(self, key):
        return sum(task.rows for task in self._waiting[key]) >= self._options.max_batch_size

    def _wake_after(self, seconds):
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(seconds, self._start_batches)

    def _take(self, key):
        queue, tasks, rows, tokens, values = self._waiting[key], [], 0, 0, 0
        while queue:
            task = queue[0]
            rows, tokens, values = rows + task.rows, tokens + task.tokens, values + task.values
            is_over = rows > self._options.max_batch_size or tokens > self._max_tokens or values > self._max_values
            if tasks and is_over:
                rows -= task.rows
                break
            tasks.append(queue.popleft())
            task.is_waiting = False
        self._forget_if_empty(key)
        self._count_waiting(-rows)
        return tasks

    async def _run_batch(self, version, signature, tasks):
        try:
            if len(tasks) > 1 and await self._run_merged(signature, tasks):
                return
            for task in tasks:
                if not task.future.done():
                    await self._run_single(signature, task)
        finally:
            version.release()
            self._num_running -= 1
            self._num_running_heavy -= tasks[0].is_heavy
            self._start_batches()

    async def _run_merged(self, signature, tasks):
        """Runs the tasks as one batch. Returns False if that fails; the caller then runs each task alone."""
        try:
            merged = [np.concatenate(columns) for columns in zip(*(task.arrays for task in tasks), strict=True)]
            outputs = await self._in_thread(signature, merged, max(task.deadline for task in tasks))
        except Exception:
            return False
        ends = np.cumsum([task.rows for task in tasks])
        if any(output.ndim == 0 or len(output) != ends[-1] for output in outputs):
            return False
        for task, end in zip(tasks, ends, strict=True):
            if not task.future.done():
                # A view would keep the outputs of all tasks in memory until this answer is sent. So copy the rows.
                task.future.set_result([output[end - task.rows : end].copy() for output in outputs])
        return True

    async def _run_single(self, signature, task):
        try:
            outputs = await self._in_thread(signature, task.arrays, task.deadline)
        except Exception as error:
            if not task.future.done():
                task.future.set_exception(error)
            return
        if not task.future.done():
            task.future.set_result(outputs)

    async def _in_thread(self, signature, arrays, deadline):
        self._metrics.batch_rows.observe(len(arrays[0]) if arrays[0].ndim else 1)
        options = None
        if self._timeout_seconds is not None:
            remaining = max(1, int(1000 * (deadline - time.monotonic())))
            options = tf.compat.v1.RunOptions(timeout_in_ms=remaining)
        return await asyncio.get_running_loop().run_in_executor(self._threads, signature.run, arrays, options)
