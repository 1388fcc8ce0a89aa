"""Dynamic batching: requests that wait at the same time run together."""

import asyncio
import collections
import concurrent.futures
import dataclasses
import time

import numpy as np

from keras_bert_app.serving.request_errors import RequestError


@dataclasses.dataclass(eq=False, slots=True)
class _Task:
    """A request: arrays in the order of inputs, number of rows, future of the outputs, time of arrival."""

    arrays: list
    rows: int
    future: asyncio.Future
    since: float
    is_waiting: bool = True


class Batcher:
    """A queue that runs requests in batches on a pool of threads.

    One event loop owns it and makes all calls.

    A request starts at once if no batch is running. While other batches run, it may wait for further requests, at most
    batch_timeout_micros, even if a thread is free. The oldest request goes first.

    Args:
        options: BatchingOptions. The limits of a batch and of the queue.
        threads: Executor with options.num_batch_threads threads.
        run_options: tf.compat.v1.RunOptions of every run.
        metrics: Metrics. The counters of the server.
    """

    def __init__(self, options, threads: concurrent.futures.Executor, run_options, metrics):
        self._options, self._threads, self._run_options, self._metrics = options, threads, run_options, metrics
        # Waiting requests by key. Requests with one key can share a batch: same version, signature, and sizes of a row.
        self._waiting = {}
        self._num_waiting_rows = 0
        self._num_running = 0
        self._batches = set()
        self._timer = None

    async def run(self, version, signature, arrays: list[np.ndarray]) -> list[np.ndarray]:
        """Runs a request, alone or with others.

        Args:
            version: Version. The version of the signature; it stays loaded during the run.
            signature: Signature. The signature to run.
            arrays: list of np.ndarray in the order of signature.inputs.

        Returns:
            list of np.ndarray in the order of signature.outputs.

        Raises:
            RequestError: the request has more rows than a batch may have, or the queue is full.
            tf.errors.OpError: the model failed.
        """
        rows = len(arrays[0]) if signature.can_be_merged else 1
        if rows > self._options.max_batch_size:
            raise RequestError(
                400,
                f"the batch has {rows:,} rows; expected at most {self._options.max_batch_size:,} "
                "(max_batch_size): send it in parts",
            )
        if self._num_waiting_rows + rows > self._options.max_batch_size * self._options.max_enqueued_batches:
            raise RequestError(503, f"{self._num_waiting_rows:,} rows wait already, the most that may; try again later")
        task = _Task(arrays, rows, asyncio.get_running_loop().create_future(), time.monotonic())
        can_be_merged = self._options.is_enabled and signature.can_be_merged
        key = (version, signature, tuple(array.shape[1:] for array in arrays) if can_be_merged else task)
        self._waiting.setdefault(key, collections.deque()).append(task)
        self._count_waiting(rows)
        self._start_batches()
        try:
            return await task.future
        except asyncio.CancelledError:
            if task.is_waiting:  # the client left, or the time limit passed
                self._waiting[key].remove(task)
                self._forget_if_empty(key)
                self._count_waiting(-rows)
            raise

    def _forget_if_empty(self, key):
        if not self._waiting[key]:
            del self._waiting[key]

    def _count_waiting(self, rows):
        self._num_waiting_rows += rows
        self._metrics.waiting_rows.set(self._num_waiting_rows)

    def _start_batches(self):
        while self._waiting and self._num_running < self._options.num_batch_threads:
            key = min(self._waiting, key=lambda key: self._waiting[key][0].since)
            remaining = self._waiting[key][0].since + self._options.batch_timeout_micros / 1e6 - time.monotonic()
            if self._num_running and self._options.is_enabled and remaining > 0 and not self._is_full(key):
                full = next(filter(self._is_full, self._waiting), None)
                if full is None:
                    self._wake_after(remaining)
                    return
                key = full
            version, signature, _ = key
            tasks = self._take(key)
            self._num_running += 1
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
        queue, tasks, rows = self._waiting[key], [], 0
        while queue and (not tasks or rows + queue[0].rows <= self._options.max_batch_size):
            tasks.append(queue.popleft())
            tasks[-1].is_waiting = False
            rows += tasks[-1].rows
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
            self._start_batches()

    async def _run_merged(self, signature, tasks):
        """Runs the tasks as one batch and returns whether it worked. If not, one is at fault: run each alone."""
        try:
            merged = [np.concatenate(columns) for columns in zip(*(task.arrays for task in tasks), strict=True)]
            outputs = await self._in_thread(signature, merged)
        except Exception:
            return False
        ends = np.cumsum([task.rows for task in tasks])
        if any(output.ndim == 0 or len(output) != ends[-1] for output in outputs):
            return False
        for task, end in zip(tasks, ends, strict=True):
            if not task.future.done():
                task.future.set_result([output[end - task.rows : end] for output in outputs])
        return True

    async def _run_single(self, signature, task):
        try:
            outputs = await self._in_thread(signature, task.arrays)
        except Exception as error:
            if not task.future.done():
                task.future.set_exception(error)
            return
        if not task.future.done():
            task.future.set_result(outputs)

    async def _in_thread(self, signature, arrays):
        self._metrics.batch_rows.observe(len(arrays[0]) if arrays[0].ndim else 1)
        return await asyncio.get_running_loop().run_in_executor(self._threads, signature.run, arrays, self._run_options)
