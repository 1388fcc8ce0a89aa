"""Flags made from the fields of a configuration: one for each, with its help, its choices and its default."""

import dataclasses
import os

from absl import flags

from keras_bert_app.config.bert_config import BertConfig

flags.disclaim_key_flags()  # they are those of the command that defines them here, and --help shows them

# The absl function of each type of field.
DEFINE = {
    str: flags.DEFINE_string,
    int: flags.DEFINE_integer,
    float: flags.DEFINE_float,
    bool: flags.DEFINE_bool,
    tuple: flags.DEFINE_list,
}


def define_flags(fields, is_path=(), default=""):
    """Defines the flags and returns a function that gives, as a dict, the values of those that the user set.

    A flag has no default of its own, so that one that is not given can be told from one that repeats the default; the
    configuration fills in what is missing.

    Args:
        fields: of dataclasses.fields, their metadata as in training_config. is_path: names whose values are made absolute,
            so that what is kept of them holds in any directory. default: what the help says of it, where it is not the
            field's.
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


def define_model_flags(leave_out=()):
    """Defines a flag for each key of BertConfig but some, and returns a function that gives those that the user set."""
    fields = [field for field in dataclasses.fields(BertConfig) if field.name not in leave_out]
    for field in fields:
        DEFINE[field.type](field.name, None, f"In place of the {field.name} of --config.")
    return lambda: {
        field.name: flags.FLAGS[field.name].value for field in fields if flags.FLAGS[field.name].value is not None
    }


def absolute(value):
    """A path, or several, made absolute; remote ones are so already."""
    if isinstance(value, list):
        return tuple(map(absolute, value))
    return value if "://" in value or not value else os.path.abspath(value)
