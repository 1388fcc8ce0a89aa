"""How batches come to the devices: several steps at a time, the next ones made while the devices compute."""

import concurrent.futures

import tensorflow as tf


class Batches:
    """Stacks of batches of one shape from an iterator.

    Args:
        ahead: whether begin() makes the next stack in a thread, while the devices work on the one before. Otherwise it does
            nothing, and only what the pipeline itself has ready waits for the devices.
    """

    def __init__(self, iterator, ahead):
        self.iterator, self.next = iterator, None
        self.thread, self.begun = concurrent.futures.ThreadPoolExecutor(1) if ahead else None, None

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        if self.thread:
            self.thread.shutdown()

    def begin(self, count):
        """Sets about the stack that take(count) will be asked for next."""
        if self.thread and count:
            self.begun = self.thread.submit(self._stack, count)

    def take(self, count):
        """(dict of tensors [k, B, ...], position after them) of the next batches; k is at most `count`."""
        begun, self.begun = self.begun, None
        return begun.result() if begun else self._stack(count)

    def _stack(self, count):
        stack, position = [], None
        while len(stack) < count:
            batch, after = self.next or next(self.iterator)
            self.next = None
            if stack and any(values.shape != stack[0][name].shape for name, values in batch.items()):
                self.next = batch, after
                break
            stack.append(batch)
            position = after
        return {name: tf.stack([batch[name] for batch in stack]) for name in stack[0]}, [int(part) for part in position]
