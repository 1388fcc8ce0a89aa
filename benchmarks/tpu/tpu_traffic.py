"""Reads from the text of a compiled TPU program how many bytes pass through HBM, and the estimated cycles of its parts.

The compiler's own "bytes accessed" is several times the traffic of HBM. It counts reads of arrays in VMEM, and counts
the whole array for each part that is fetched ahead. In the text, an array in VMEM has S(1) in its layout.
"""

import re

_BYTES = {
    "f32": 4,
    "s32": 4,
    "u32": 4,
    "bf16": 2,
    "f16": 2,
    "s16": 2,
    "u16": 2,
    "pred": 1,
    "s8": 1,
    "u8": 1,
    "f64": 8,
    "s64": 8,
    "u64": 8,
}
_ARRAY = re.compile(rf"\b({'|'.join(_BYTES)})\[([\d,]*)\](?:\{{([^}}]*)\}})?")
_INSTRUCTION = re.compile(r"^\s+(?:ROOT )?%?([\w.\-]+) = (.*?) ([a-z][\w\-]*)\((.*)$")
_COMPUTATION = re.compile(r"^(?:ENTRY )?%?([\w.\-]+) .*\{\s*$")
_CALLED = re.compile(r"(?:calls|to_apply)=%?([\w.\-]+)")
_CYCLES = re.compile(r'"estimated_cycles":"(\d+)"')
_MOVES_NOTHING = frozenset(
    (
        "parameter",
        "tuple",
        "get-tuple-element",
        "bitcast",
        "constant",
        "while",
        "conditional",
        "after-all",
        "partition-id",
        "replica-id",
    )
)


def hbm_traffic(text: str) -> int:
    """Bytes that the instructions of a program in HLO read from HBM and write to HBM.

    A loop's body counts once.

    Args:
        text: str. The compiled program in HLO.
    """
    instructions, sizes, inner, computation = [], {}, set(), ""
    for line in text.splitlines():
        if match := _COMPUTATION.match(line):
            computation = match[1]
        elif match := _INSTRUCTION.match(line):
            name, result, operation, rest = match.groups()
            sizes[name] = _in_hbm(result)
            inner.update(_CALLED.findall(rest))
            instructions.append((computation, name, operation, result, rest))
    total = 0
    for computation, name, operation, result, rest in instructions:
        # Values inside a kernel stay in registers. A transfer is counted at its start.
        if computation in inner or operation in _MOVES_NOTHING or operation.endswith("-done"):
            continue
        if operation.endswith("-start"):
            # The first array of the result is the source, and the second one is the copy.
            arrays = [_size(*array[:2]) for array in _ARRAY.findall(result)]
            total += arrays[1] if len(arrays) > 1 else 0
        else:
            total += sizes[name] + sum(sizes.get(each, 0) for each in re.findall(r"%([\w.\-]+)", rest.split(")")[0]))
    return total


def estimated_cycles(text: str) -> int:
    """The compiler's estimate for the cycles of a program's kernels and copies.

    A loop's body counts once. The compiler gives no estimate for some kernels, such as random numbers. Transfers
    that run beside a kernel are not included.

    Args:
        text: str. The compiled program in HLO.
    """
    return sum(map(int, _CYCLES.findall(text)))


def _in_hbm(result):
    return sum(_size(dtype, shape) for dtype, shape, layout in _ARRAY.findall(result) if "S(" not in layout)


def _size(dtype, shape):
    size = _BYTES[dtype]
    for length in filter(None, shape.split(",")):
        size *= int(length)
    return size
