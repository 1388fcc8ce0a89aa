"""What can be read from the text of a program in StableHLO: its instructions, and those that a TPU has no use for."""

import collections
import dataclasses
import math
import re

# An operation stands at the beginning of its line, after the names of its results.
_OPERATION = re.compile(r'^\s*(?:%[\w:]+(?:, %[\w:]+)* = )?"?(stablehlo|chlo|mhlo|tf|shape)\.(\w+)')
_TYPE = re.compile(r"tensor<[^<>]*(?:<[^<>]*>)?[^<>]*>")
# One value for all places is no array of its own in a program.
_CONSTANT = re.compile(r'stablehlo\.constant dense<["\[].* : tensor<((?:\d+x)*)[a-z]*(\d+)>')
_IS_WIDE = re.compile(r"(?:^|x)(?:u?i64|f64)$")


@dataclasses.dataclass
class Summary:
    """Attributes:
    instructions: how many there are. unlowered: Counter of the TensorFlow ops that are left, by name.
    dynamic, wide, strings: Counters, by operation, of instructions with a shape that is not known, with a type of
        64 bits, with strings.
    constant_bytes: of the arrays that stand in the program value by value, which a TPU reads from its memory.
    """

    instructions: int = 0
    unlowered: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    dynamic: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    wide: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    strings: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    constant_bytes: int = 0

    @property
    def is_lowered(self):
        """Whether a TPU runs all of it."""
        return not (self.unlowered or self.dynamic or self.strings)

    def line(self):
        """One line for people."""
        if not self.is_lowered:
            found = (("no TPU kernel", self.unlowered), ("dynamic shapes", self.dynamic), ("strings", self.strings))
            return "STOPPED: " + "; ".join(f"{what}: {_listed(counter)}" for what, counter in found if counter)
        return (
            f"lowered, {self.instructions:,} instructions, {self.constant_bytes / 1e3:,.0f} KB of constants, no dynamic shape, "
            f"no string, 64 bits: {_listed(self.wide) if self.wide else 'none'}"
        )


def summarize(text):
    """The Summary of a module in StableHLO."""
    summary = Summary()
    for line in text.splitlines():
        match = _OPERATION.match(line)
        if not match:
            continue
        dialect, name = match.groups()
        summary.instructions += 1
        if dialect == "tf":
            summary.unlowered[name] += 1
        constant = _CONSTANT.search(line)
        if constant:
            sizes = [int(size) for size in constant[1].split("x")[:-1]]
            summary.constant_bytes += math.prod(sizes) * max(1, int(constant[2]) // 8)
        # The types of operands and results come last; those before it are of attributes.
        types = [found[len("tensor<") : -1] for found in _TYPE.findall(line.rpartition(" : ")[2])]
        for counter, is_so in (
            (summary.dynamic, any("?" in one or one.startswith("*") for one in types)),
            (summary.wide, any(_IS_WIDE.search(one) for one in types)),
            (summary.strings, any("string" in one for one in types)),
        ):
            counter[name] += is_so
    for counter in (summary.dynamic, summary.wide, summary.strings):
        for name in [name for name, count in counter.items() if not count]:
            del counter[name]
    return summary


def _listed(counter, most=6):
    named = ", ".join(f"{count} {name}" for name, count in counter.most_common(most))
    return named + (f" and {len(counter) - most} others" if len(counter) > most else "")
