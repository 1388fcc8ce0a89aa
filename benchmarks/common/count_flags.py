"""Flags whose values are whole numbers joined by commas."""

from absl import flags

# Without this call, --help lists the flags under this module and not under the module that defines them.
flags.disclaim_key_flags()


class Counts(flags.ListParser):
    """Parser of a flag whose value is a list of integers.

    Args:
        lowest: int. The smallest number that is allowed.
    """

    def __init__(self, lowest: int = 1):
        super().__init__()
        self.lowest = lowest

    def flag_type(self):
        return "comma separated list of whole numbers"

    def parse(self, argument):
        words = super().parse(argument)
        try:
            numbers = [int(word) for word in words]
        except ValueError:
            numbers = []
        if not numbers or min(numbers) < self.lowest:
            raise ValueError(f"expected whole numbers, each at least {self.lowest}, joined by commas, as in 1,32")
        return numbers


def define(name: str, default: list[int], what: str, lowest: int = 1) -> flags.FlagHolder:
    """Defines a flag whose value is a list of integers.

    Args:
        name: str. The flag's name.
        default: list of int. The value when the flag is not given.
        what: str. The help text.
        lowest: int. The smallest number that is allowed.

    Returns:
        The flag's holder.
    """
    return flags.DEFINE(Counts(lowest), name, default, what, serializer=flags.CsvListSerializer(","))
