"""Recipes: named sets of options for `pretrain`. The docstring of each file has the command, the cost and the result.

A recipe has CONFIG (a published size), MODEL (keys of BertConfig) and RUN (fields of PretrainingConfig). `pretrain
--recipe=NAME` uses these values as its defaults. Flags that the user gives go before them.
"""

import importlib
import pkgutil
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from keras_bert_app.config.pretraining_config import PretrainingConfig
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


def run_values(recipe: ModuleType | None, given: Mapping[str, Any], is_resumed: bool = False) -> dict[str, Any]:
    """The values of a command: those of its recipe, and before them the flags that the user gave.

    Ramps and warm-up are given either in steps or as a share of the run. The recipe's way yields to the user's, and a
    run that is resumed keeps its own.

    Args:
        recipe: module of a recipe, or None.
        given: dict name -> value of the flags.
        is_resumed: whether the command goes on with a run.
    """
    values = dict(recipe.RUN) if recipe else {}
    for names in PretrainingConfig.SHARES.items():
        if is_resumed or not given.keys().isdisjoint(names):
            values = {name: value for name, value in values.items() if name not in names}
    return {**values, **given}
