"""Flags made from the fields of a configuration, with the help, choices and default of each field."""

import dataclasses
from collections.abc import Callable, Collection, Iterable
from typing import Any

from absl import flags

from keras_bert_app.config.bert_config import BertConfig
from keras_bert_app.errors import UserError
from pipelines import storage
from pipelines.channels import Channel, parse_channels

flags.disclaim_key_flags()  # --help then lists them under the command that calls this module

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

    The flags have no defaults of their own; the configuration supplies them. A command can therefore distinguish a
    missing flag from a flag that repeats the default.

    Args:
        fields: iterable of dataclasses.Field, with the metadata of training_config.field.
        is_path: collection of str. Names of flags whose values become absolute paths. The paths of a run then stay
            valid in other working directories.
        default: str. Help text about the default. Without it the help gives the default of the field.

    Returns:
        A function. It returns the values that the user set, as a dict.
    """
    for field in fields:
        choices = f" One of: {', '.join(field.metadata['choices'])}." if field.metadata["choices"] else ""
        value = ",".join(field.default) if isinstance(field.default, tuple) else field.default
        own = f"Default: {value}." if value != "" else ""
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
        leave_out: collection of str. Keys without a flag.

    Returns:
        A function. It returns the values that the user set, as a dict.
    """
    fields = [field for field in dataclasses.fields(BertConfig) if field.name not in leave_out]
    for field in fields:
        DEFINE[field.type](field.name, None, f"Replaces the {field.name} of --config.")
    return lambda: {
        field.name: flags.FLAGS[field.name].value for field in fields if flags.FLAGS[field.name].value is not None
    }


def check_casing_flag(tokenizer: str) -> None:
    """Refuses --do_lower_case for symbols.

    Args:
        tokenizer: str. One of choices.TOKENIZERS.

    Raises:
        UserError: the flag was given.
    """
    if tokenizer == "symbols" and flags.FLAGS["do_lower_case"].present:
        raise UserError("--do_lower_case: symbols stay as they are; leave --do_lower_case out")


def checked_channels(values: list[str], tokenizer: str) -> tuple[Channel, ...]:
    """Reads the value of --channels.

    Args:
        values: list of str, such as ["age:120"].
        tokenizer: str. One of choices.TOKENIZERS.

    Raises:
        UserError: the tokenizer reads no symbols.
        DataError: a value has another form.
    """
    if values and tokenizer != "symbols":
        raise UserError("--channels: only symbols have channels; leave --channels out, or add --tokenizer=symbols")
    return parse_channels(values)


def absolute(value: str | list[str]) -> str | tuple[str, ...]:
    """Makes a path, or each path of a list, absolute. Remote paths stay the same.

    Args:
        value: str or list of str. Paths.

    Returns:
        str, or tuple of str for a list.
    """
    if isinstance(value, list):
        return tuple(map(absolute, value))
    return storage.absolute(value)
