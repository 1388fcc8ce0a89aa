"""What a compiled TPU program moves between HBM and the core, and how long its parts take, read from its text.

The compiler's own "bytes accessed" counts reads of what it keeps in VMEM, and the whole of an array for each part of it
that is fetched ahead: several times what passes through HBM. In the text an array in VMEM has S(1) in its layout.
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


def hbm_traffic(text):
    """Bytes that the instructions of a program in HLO read from HBM and write there; a loop's body once."""
    instructions, sizes, inner, computation = [], {}, set(), ""
    for line in text.splitlines():
        if found := _COMPUTATION.match(line):
            computation = found[1]
        elif found := _INSTRUCTION.match(line):
            name, result, operation, rest = found.groups()
            sizes[name] = _in_hbm(result)
            inner.update(_CALLED.findall(rest))
            instructions.append((computation, name, operation, result, rest))
    total = 0
    for computation, name, operation, result, rest in instructions:
        # What is within a kernel passes through registers; the end of a transfer is counted at its start.
        if computation in inner or operation in _MOVES_NOTHING or operation.endswith("-done"):
            continue
        if operation.endswith("-start"):
            # The first array of the result is the source, the second what arrives.
            arrays = [_size(*array[:2]) for array in _ARRAY.findall(result)]
            total += arrays[1] if len(arrays) > 1 else 0
        else:
            total += sizes[name] + sum(sizes.get(each, 0) for each in re.findall(r"%([\w.\-]+)", rest.split(")")[0]))
    return total


def estimated_cycles(text):
    """Cycles of a program's kernels and copies as the compiler estimates them, a loop's body once.

    It says nothing of some, such as its own random numbers; and transfers that run beside a kernel are not in it.
    """
    return sum(map(int, _CYCLES.findall(text)))


def _in_hbm(result):
    return sum(_size(dtype, shape) for dtype, shape, layout in _ARRAY.findall(result) if "S(" not in layout)


def _size(dtype, shape):
    size = _BYTES[dtype]
    for length in filter(None, shape.split(",")):
        size *= int(length)
    return size
