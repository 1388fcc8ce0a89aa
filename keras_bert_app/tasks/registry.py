"""The table of all tasks by name."""

from keras_bert_app.errors import UserError, nearest
from keras_bert_app.tasks.readers import (
    choice_files,
    generic,
    glue,
    languages,
    newsgroups,
    parallel,
    rerank,
    reuters,
    similarity,
    squad,
    tagging_tasks,
)
from keras_bert_app.tasks.task import Task

TASKS = {
    task.name: task
    for module in (
        glue,
        languages,
        generic,
        reuters,
        newsgroups,
        squad,
        tagging_tasks,
        choice_files,
        parallel,
        similarity,
        rerank,
    )
    for task in module.TASKS
}


# Sets of tasks whose output layers have the same meaning.
_ALIKE = (
    {"squad1", "squad2"},
    {"swag", "hellaswag", "codah", "dream"},
    {"mnli", "snli", "xnli"},
    {"mrpc", "qqp", "paws-x"},
)


def answer_alike(one: str, other: str) -> bool:
    """Whether the output layer of one task is a useful start for another task.

    Args:
        one: str. Name of a task.
        other: str. Name of a task.
    """
    return one == other or any({one, other} <= group for group in _ALIKE)


def may_be_alike(one: str, other: str) -> bool:
    """Whether the answers of two tasks may have the same meaning.

    Only the owner of a table knows the meaning of its labels. A generic task may therefore match any task.

    Args:
        one: str. Name of a task.
        other: str. Name of a task.
    """
    generic_tasks = {task.name for task in generic.TASKS}
    return answer_alike(one, other) or bool({one, other} & generic_tasks)


def find(name: str) -> Task:
    """The Task of a name.

    Args:
        name: str. A key of TASKS.

    Raises:
        UserError: no task has this name. The message has the nearest name.
    """
    if name not in TASKS:
        raise UserError(f"--task={name} is not known: {nearest(name, sorted(TASKS))}")
    return TASKS[name]
