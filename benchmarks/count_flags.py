"""Flags of whole numbers joined by commas."""

from absl import flags

flags.disclaim_key_flags()  # they are of the module that defines them, whose --help has them


class Counts(flags.ListParser):
    """Of a flag's text a list of integers from 1 on."""

    def flag_type(self):
        return "comma separated list of whole numbers"

    def parse(self, argument):
        words = super().parse(argument)
        try:
            numbers = [int(word) for word in words]
        except ValueError:
            numbers = []
        if not numbers or min(numbers) < 1:
            raise ValueError("expected whole numbers from 1 on, joined by commas, as in 1,32")
        return numbers


def define(name, default, what):
    """The holder of a new flag, whose value is a list of integers. Args: default: such a list. what: the flag's help."""
    return flags.DEFINE(Counts(), name, default, what, serializer=flags.CsvListSerializer(","))
