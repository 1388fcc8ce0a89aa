"""Dev examples in two halves: one chooses the best weights, the second one gives the reported score.

The best of many scores on the same examples is too high by chance. An experiment with random labels shows the effect.
The best of 31 evaluations on 408 examples was 0.544 +- 0.007 over three seeds, although random labels cannot be
learned. The baseline had 0.461 (95 % interval of the difference 0.067 to 0.099).
"""

import hashlib
from collections.abc import Sequence

from keras_bert_app.errors import UserError
from keras_bert_app.tasks.task import Examples, Task

CHOOSING, REPORTED = "the half of dev that chooses the weights", "the half of dev that did not choose the weights"


def split(task: Task, examples: Examples) -> tuple[Examples, Examples]:
    """Divides the dev examples into the half that chooses the weights and the half that is reported.

    The hash of an example's source, such as its text, decides its half. Examples of one text therefore stay together,
    and an example keeps its half when other examples are added or removed. If dev has only one text, the function
    hashes the numbers of the examples. If the task can score only some examples, both halves get some of these.

    Args:
        task: Task.
        examples: the dev examples, in the order of their files.

    Returns:
        (examples that choose the weights, examples that are reported).

    Raises:
        UserError: there is only one example.
    """
    sources = task.family.sources(examples)
    for keys in (sources, range(len(examples))):
        hashes = {key: hashlib.sha256(repr(key).encode("utf-8", "surrogatepass")).digest() for key in set(keys)}
        if len(hashes) > 1:
            break
    else:
        raise UserError(
            f"dev of task {task.name} has one example, which cannot both choose the best weights and be reported; "
            "give more, or --test_file"
        )
    is_reported = _halves(hashes)
    if task.can_score:
        scored = {key for key, example in zip(keys, examples, strict=True) if task.can_score(example)}
        if len(scored) > 1:
            is_reported |= _halves({key: hashes[key] for key in scored})
    halves = []
    for half in (False, True):
        numbers = [number for number, key in enumerate(keys) if is_reported[key] == half]
        halves.append(examples.of(examples[number] for number in numbers))
        if keys is sources:
            halves[-1].sources = [keys[number] for number in numbers]
    return tuple(halves)


def sources_of(task: Task, examples: Sequence) -> Sequence:
    """The source of each example, which an interval draws as a whole.

    Args:
        task: Task.
        examples: Examples of a half, which has the sources of the whole, or any others.
    """
    return getattr(examples, "sources", None) or task.family.sources(examples)


def _halves(hashes):
    """dict key -> whether it is in the half to report, by the first byte of its hash."""
    is_reported = {key: digest[0] % 2 == 1 for key, digest in hashes.items()}
    if len(set(is_reported.values())) == 1:  # a handful of texts may all fall into one half
        later = set(sorted(hashes, key=hashes.get)[len(hashes) // 2 :])
        is_reported = {key: key in later for key in hashes}
    return is_reported


def seen(task: Task, examples: Sequence, others: Sequence) -> int:
    """The number of examples whose source also occurs among the other examples.

    Args:
        task: Task.
        examples: the examples to count.
        others: the examples to compare with, such as the training examples.
    """

    def source(example):  # one example alone, so that a tagged sentence has its words as its source, not its document
        return task.family.sources([example])[0]

    known = {source(example) for example in others} - {()}
    return sum(source(example) in known for example in examples)
