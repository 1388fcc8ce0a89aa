"""Recipes: named sets of options for `pretrain`.

The docstring of each file has the command, the cost and the result.
A recipe has CONFIG (a published size), MODEL (keys of BertConfig) and RUN (fields of PretrainingConfig). A first phase
also has NEXT (the recipe of the phase that continues it). `pretrain
--recipe=NAME` uses these values as its defaults. A flag that the user gives overrides the value of the recipe.
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

    Args:
        name: a name that recipe_names returns.

    Raises:
        UserError: the name is unknown. The message names the nearest recipe.
    """
    if name not in recipe_names():
        raise UserError(f"--recipe={name} is not known: {nearest(name, recipe_names())}")
    return importlib.import_module(f"{__name__}.{name}")


def model_values(recipe: ModuleType | None, architecture: str) -> dict[str, Any]:
    """The values of a recipe for the keys of a model. Dropout rates of a recipe are for Transformers.

    Args:
        recipe: module of a recipe, or None.
        architecture: BertConfig.architecture of the model.
    """
    values = dict(recipe.MODEL) if recipe else {}
    if architecture == "lstm_lm":
        values = {name: value for name, value in values.items() if not name.endswith("dropout_prob")}
    return values


def run_values(recipe: ModuleType | None, given: Mapping[str, Any], is_resumed: bool = False) -> dict[str, Any]:
    """The values of a command's options: those of its recipe, overridden by the flags of the user.

    Ramps and warm-up have two forms: a number of steps, or a share of the run. If the user gives one form, the function
    drops both forms of the recipe. It also drops them for a resumed run, which keeps its own values. If the user gives
    the number of steps, and no time, the steps end the run instead of the recipe's time.

    Args:
        recipe: module of a recipe, or None.
        given: dict name -> value of the flags.
        is_resumed: whether the command resumes a run.
    """
    values = dict(recipe.RUN) if recipe else {}
    for names in PretrainingConfig.SHARES.items():
        if is_resumed or not given.keys().isdisjoint(names):
            values = {name: value for name, value in values.items() if name not in names}
    if "num_train_steps" in given:
        values.pop("train_minutes", None)
    return {**values, **given}
