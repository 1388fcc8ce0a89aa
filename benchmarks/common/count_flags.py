"""Flags of whole numbers joined by commas."""

from absl import flags

flags.disclaim_key_flags()  # they are of the module that defines them, whose --help has them


class Counts(flags.ListParser):
    """Of a flag's text a list of integers. Args: lowest: that they may be."""

    def __init__(self, lowest=1):
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
            raise ValueError(f"expected whole numbers from {self.lowest} on, joined by commas, as in 1,32")
        return numbers


def define(name, default, what, lowest=1):
    """The holder of a new flag, whose value is a list of integers. Args: default: such a list. what: the flag's help."""
    return flags.DEFINE(Counts(lowest), name, default, what, serializer=flags.CsvListSerializer(","))
