"""Stacks of batches for calls that run several steps. A thread can make the next stack while the devices compute."""

import concurrent.futures
from collections.abc import Iterator

import tensorflow as tf


class StopAsked(Exception):
    """A batch was not made, because a signal came while it was made."""


class Batches:
    """Makes stacks of batches from an iterator. All batches of a stack have one shape.

    Args:
        iterator: endless iterator of (dict of tensors [B, ...], position in the data after the batch, a tuple of int).
        ahead: whether begin() makes the next stack in a thread while the devices compute. Otherwise begin() does
            nothing, and only the pipeline's own prefetching works ahead.
    """

    def __init__(self, iterator: Iterator, ahead: bool):
        self.iterator, self.left_over = iterator, None
        self.executor, self.begun = concurrent.futures.ThreadPoolExecutor(1) if ahead else None, None

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        if self.executor:
            self.executor.shutdown()

    def begin(self, count: int) -> None:
        """Begins to make the stack that the next take(count) returns.

        Args:
            count: largest number of batches. With 0 the method does nothing.
        """
        if self.executor and count:
            self.begun = self.executor.submit(self._stack, count)

    def take(self, count: int) -> tuple[dict[str, tf.Tensor], list[int]]:
        """Takes the next batches.

        Args:
            count: largest number k of batches. The stack ends before a batch of another shape.

        Returns:
            (dict of tensors [k, B, ...], position in the data after these batches, a list of int).

        Raises:
            StopAsked: a signal came. No batch is lost: the position before this call is still that of the run.
        """
        begun, self.begun = self.begun, None
        return begun.result() if begun else self._stack(count)

    def _stack(self, count):
        stack, position = [], None
        while len(stack) < count:
            batch, after = self.left_over or next(self.iterator)
            self.left_over = None
            if stack and any(values.shape != stack[0][name].shape for name, values in batch.items()):
                self.left_over = batch, after
                break
            stack.append(batch)
            position = after
        return {name: tf.stack([batch[name] for batch in stack]) for name in stack[0]}, [int(part) for part in position]
