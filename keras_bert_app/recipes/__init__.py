"""Recipes: ways of training that people use, each a file whose docstring holds its command, its cost and its result.

A recipe has CONFIG (a published size), MODEL (keys of BertConfig) and RUN (fields of PretrainingConfig). `pretrain
--recipe=NAME` takes them in place of the defaults; flags that are given go before both.
"""

import importlib
import pkgutil

from keras_bert_app.errors import UserError, nearest


def recipe_names():
    """The names of all recipes."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__))


def load_recipe(name):
    """The module of a recipe.

    Raises:
        UserError: there is none of that name; the nearest is named.
    """
    if name not in recipe_names():
        raise UserError(f"--recipe={name} is not known: {nearest(name, recipe_names())}")
    return importlib.import_module(f"{__name__}.{name}")
