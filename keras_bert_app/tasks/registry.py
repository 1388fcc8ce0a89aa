"""All tasks by name."""

from keras_bert_app.config import nearest
from keras_bert_app.errors import UserError
from keras_bert_app.tasks import generic, glue

TASKS = {task.name: task for module in (glue, generic) for task in module.TASKS}


def find(name):
    """The Task of a name.

    Raises:
        UserError: there is none; the nearest is named.
    """
    if name not in TASKS:
        raise UserError(f"--task={name} is not known: {nearest(name, sorted(TASKS))}")
    return TASKS[name]
