"""Dev examples in two halves: one chooses the best weights, the other one gives the score that is reported.

The best of many scores on the same examples is too high by chance: with 31 evaluations on 408 examples with random
labels, three seeds had 0.544 +- 0.007 beside a baseline of 0.461 (95 % interval of the difference 0.067 to 0.099).
"""

import hashlib
from collections.abc import Sequence

from keras_bert_app.errors import UserError
from keras_bert_app.tasks.task import Examples, Task

CHOOSING, REPORTED = "the half of dev that chooses the weights", "the half of dev that did not choose the weights"


def halves(task: Task, examples: Examples) -> tuple[Examples, Examples]:
    """(the examples that choose, the examples that are reported).

    A hash of what an example was made from assigns it to a half, so that examples of one text stay together, and an
    example stays in its half when others come or go. If dev has only one text, the examples' numbers are hashed.

    Args:
        task: Task.
        examples: the dev examples, in the order of their files.

    Raises:
        UserError: there is only one example.
    """
    for keys in (task.family.sources(examples), range(len(examples))):
        hashes = {key: hashlib.sha256(repr(key).encode("utf-8", "surrogatepass")).digest() for key in set(keys)}
        if len(hashes) > 1:
            break
    else:
        raise UserError(
            f"dev of task {task.name} has one example, which cannot both choose the best weights and be reported; "
            "give more, or --test_file"
        )
    is_reported = {key: digest[0] % 2 == 1 for key, digest in hashes.items()}
    if len(set(is_reported.values())) == 1:  # a handful of texts may all fall into one half
        later = sorted(hashes, key=hashes.get)[len(hashes) // 2 :]
        is_reported = {key: key in set(later) for key in hashes}
    parts = ([], [])
    for key, example in zip(keys, examples, strict=True):
        parts[is_reported[key]].append(example)
    return examples.of(parts[0]), examples.of(parts[1])


def seen(task: Task, examples: Sequence, others: Sequence) -> int:
    """How many of the examples were made from texts that the others have, too.

    Args:
        task: Task.
        examples: examples.
        others: examples, such as those that a model learned from.
    """

    def source(example):  # of one sentence alone, and not of its document
        return task.family.sources([example])[0]

    known = {source(example) for example in others} - {()}
    return sum(source(example) in known for example in examples)
