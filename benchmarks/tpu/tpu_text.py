"""Counts all instructions in the text of a StableHLO program, and the instructions that a TPU cannot run."""

import collections
import dataclasses
import math
import re

# A line begins with the names of the results, and the operation follows.
_OPERATION = re.compile(r'^\s*(?:%[\w:]+(?:, %[\w:]+)* = )?"?(stablehlo|chlo|mhlo|tf|shape)\.(\w+)')
_TYPE = re.compile(r"tensor<[^<>]*(?:<[^<>]*>)?[^<>]*>")
# Constants of a single value are not matched, since they take no memory in a program.
_CONSTANT = re.compile(r'stablehlo\.constant dense<["\[].* : tensor<((?:\d+x)*)[a-z]*(\d+)>')
_IS_WIDE = re.compile(r"(?:^|x)(?:u?i64|f64)$")


@dataclasses.dataclass
class Summary:
    """Counts of a program.

    Attributes:
        instructions: int. Number of instructions.
        unlowered: Counter. TensorFlow ops that were not lowered, by name.
        dynamic: Counter. Instructions with a dynamic shape, by operation.
        wide: Counter. Instructions with a type of 64 bits, by operation.
        strings: Counter. Instructions with strings, by operation.
        constant_bytes: int. Bytes of the constant arrays, which a TPU reads from its memory.
    """

    instructions: int = 0
    unlowered: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    dynamic: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    wide: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    strings: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    constant_bytes: int = 0

    @property
    def is_lowered(self) -> bool:
        """Whether a TPU can run the whole program."""
        return not (self.unlowered or self.dynamic or self.strings)

    def line(self) -> str:
        """The counts as one line of text."""
        if not self.is_lowered:
            reasons = (("no TPU kernel", self.unlowered), ("dynamic shapes", self.dynamic), ("strings", self.strings))
            return "STOPPED: " + "; ".join(f"{what}: {_listed(counter)}" for what, counter in reasons if counter)
        return (
            f"lowered, {self.instructions:,} instructions, {self.constant_bytes / 1e3:,.0f} KB of constants, no "
            f"dynamic shape, no string, 64 bits: {_listed(self.wide) if self.wide else 'none'}"
        )


def summarize(text: str) -> Summary:
    """The Summary of a module in StableHLO.

    Args:
        text: str. The module.
    """
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
        # The types of operands and results come last, after those of attributes.
        types = [match[len("tensor<") : -1] for match in _TYPE.findall(line.rpartition(" : ")[2])]
        for counter, is_counted in (
            (summary.dynamic, any("?" in name or name.startswith("*") for name in types)),
            (summary.wide, any(_IS_WIDE.search(name) for name in types)),
            (summary.strings, any("string" in name for name in types)),
        ):
            counter[name] += is_counted
    for counter in (summary.dynamic, summary.wide, summary.strings):
        for name in [name for name, count in counter.items() if not count]:
            del counter[name]
    return summary


def _listed(counter, most=6):
    named = ", ".join(f"{count} {name}" for name, count in counter.most_common(most))
    return named + (f" and {len(counter) - most} others" if len(counter) > most else "")
