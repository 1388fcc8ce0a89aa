"""Errors for Python callers name arguments of functions instead of flags of commands."""

import pytest

from pipelines import DataError
from pipelines.data_error import for_python, in_arguments


@pytest.mark.parametrize(
    ("command_message", "python_message"),
    [
        ("--pooling=cls: leave --layer out", "pooling=cls: leave layer out"),
        ("missing (--allow_missing=pooler continues)", "missing (allow_missing=pooler continues)"),
        ("--swap_pairs=true and --header=false, or", "swap_pairs=True and header=False, or"),
        ("leave the flag out; flags that differ", "leave the argument out; arguments that differ"),
        (
            "write one with `export --kind=embeddings`, as --model",
            "write one with `export --kind=embeddings`, as model",
        ),
        ("a -- b, x--y, runs/a--b: 1-2", "a -- b, x--y, runs/a--b: 1-2"),
    ],
)
def test_flags_become_arguments(command_message, python_message):
    assert in_arguments(command_message) == python_message


def test_a_function_for_python_names_arguments_in_its_data_errors_and_keeps_other_errors():
    def fail(error):
        raise error

    call, other = for_python(fail, DataError), ValueError("--x")
    with pytest.raises(DataError, match="^x is missing$"):
        call(DataError("--x is missing"))
    with pytest.raises(ValueError, match="^--x$"):
        call(other)
