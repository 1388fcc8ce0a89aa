"""Recipes: named sets of options for `pretrain`. The docstring of each file has the command, the cost and the result.

A recipe has CONFIG (a published size), MODEL (keys of BertConfig) and RUN (fields of PretrainingConfig). `pretrain
--recipe=NAME` uses these values as its defaults. Flags that the user gives go before them.
"""

import importlib
import pkgutil
from types import ModuleType

from keras_bert_app.errors import UserError, nearest


def recipe_names() -> list[str]:
    """The names of all recipes."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__))


def load_recipe(name: str) -> ModuleType:
    """Loads the module of a recipe.

    Raises:
        UserError: the name is unknown. The message names the nearest recipe.
    """
    if name not in recipe_names():
        raise UserError(f"--recipe={name} is not known: {nearest(name, recipe_names())}")
    return importlib.import_module(f"{__name__}.{name}")
