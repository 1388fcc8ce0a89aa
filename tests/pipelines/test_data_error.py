"""Errors for callers from Python name arguments."""

import pytest

from pipelines import DataError
from pipelines.data_error import for_python, in_arguments


@pytest.mark.parametrize(
    ("of_a_command", "from_python"),
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
def test_flags_become_arguments(of_a_command, from_python):
    assert in_arguments(of_a_command) == from_python


def test_a_function_for_python_raises_its_own_errors_in_terms_of_arguments_and_leaves_others_alone():
    def fail(error):
        raise error

    call, other = for_python(fail, DataError), ValueError("--x")
    with pytest.raises(DataError, match="^x is missing$"):
        call(DataError("--x is missing"))
    with pytest.raises(ValueError, match="^--x$"):
        call(other)
