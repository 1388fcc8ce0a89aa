"""All tasks by name."""

from keras_bert_app.config import nearest
from keras_bert_app.errors import UserError
from keras_bert_app.tasks import choice_files, corpora, generic, glue, languages, squad, tagging_tasks

TASKS = {task.name: task for module in (glue, languages, generic, corpora, squad, tagging_tasks, choice_files)
         for task in module.TASKS}


def find(name):
    """The Task of a name.

    Raises:
        UserError: there is none; the nearest is named.
    """
    if name not in TASKS:
        raise UserError(f"--task={name} is not known: {nearest(name, sorted(TASKS))}")
    return TASKS[name]
