"""All tasks by name."""

from keras_bert_app.errors import UserError, nearest
from keras_bert_app.tasks.readers import choice_files, corpora, generic, glue, languages, squad, tagging_tasks

TASKS = {
    task.name: task
    for module in (glue, languages, generic, corpora, squad, tagging_tasks, choice_files)
    for task in module.TASKS
}


# Tasks whose output layers mean the same.
_ALIKE = (
    {"squad1", "squad2"},
    {"swag", "hellaswag", "codah", "dream"},
    {"mnli", "snli", "xnli"},
    {"mrpc", "qqp", "paws-x"},
)


def answer_alike(one, other):
    """Whether the output layer of one task is a start for the other's."""
    return one == other or any({one, other} <= group for group in _ALIKE)


def may_be_alike(one, other):
    """Whether what one task answers may be what the other asks: of a task over anybody's tables nobody but its owner knows."""
    of_anybody = {task.name for task in generic.TASKS}
    return answer_alike(one, other) or bool({one, other} & of_anybody)


def find(name):
    """The Task of a name.

    Raises:
        UserError: there is none; the nearest is named.
    """
    if name not in TASKS:
        raise UserError(f"--task={name} is not known: {nearest(name, sorted(TASKS))}")
    return TASKS[name]
