"""Flags made from the fields of a configuration: one for each field, with its help, its choices and its default."""

import dataclasses
from collections.abc import Callable, Collection, Iterable
from typing import Any

from absl import flags

from keras_bert_app.config.bert_config import BertConfig
from pipelines import storage

flags.disclaim_key_flags()  # --help then shows them as flags of the command that calls this module

# The absl function of each type of field.
DEFINE = {
    str: flags.DEFINE_string,
    int: flags.DEFINE_integer,
    float: flags.DEFINE_float,
    bool: flags.DEFINE_bool,
    tuple: flags.DEFINE_list,
}


def define_flags(
    fields: Iterable[dataclasses.Field], is_path: Collection[str] = (), default: str = ""
) -> Callable[[], dict[str, Any]]:
    """Defines a flag for each field.

    The flags have no defaults of their own, so that a command can tell a missing flag from one that repeats the
    default. The configuration supplies the defaults.

    Args:
        fields: dataclass fields with the metadata of training_config.field.
        is_path: names of flags whose values become absolute paths, so that a run directory stays valid elsewhere.
        default: help text on the default; by default the default of the field.

    Returns:
        A function that returns the values that the user set, as a dict.
    """
    for field in fields:
        choices = f" One of: {', '.join(field.metadata['choices'])}." if field.metadata["choices"] else ""
        own = f"Default: {field.default}." if field.default not in ("", ()) else ""
        DEFINE[field.type](field.name, None, f"{field.metadata['help']}{choices} {default or own}".rstrip())

    def given():
        values = {
            field.name: flags.FLAGS[field.name].value for field in fields if flags.FLAGS[field.name].value is not None
        }
        return {
            name: absolute(value) if name in is_path else tuple(value) if isinstance(value, list) else value
            for name, value in values.items()
        }

    return given


def define_model_flags(leave_out: Collection[str] = ()) -> Callable[[], dict[str, Any]]:
    """Defines a flag for each key of BertConfig.

    Args:
        leave_out: keys without a flag.

    Returns:
        A function that returns the values that the user set, as a dict.
    """
    fields = [field for field in dataclasses.fields(BertConfig) if field.name not in leave_out]
    for field in fields:
        DEFINE[field.type](field.name, None, f"In place of the {field.name} of --config.")
    return lambda: {
        field.name: flags.FLAGS[field.name].value for field in fields if flags.FLAGS[field.name].value is not None
    }


def absolute(value: str | list[str]) -> str | tuple[str, ...]:
    """Makes a path, or a list of paths, absolute. Remote paths stay as they are."""
    if isinstance(value, list):
        return tuple(map(absolute, value))
    return storage.absolute(value)
