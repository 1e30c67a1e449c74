"""The program of a cut: the calls that its results need, in an order that equal programs share.

Two programs are equal if their calls, constants, shapes, dtypes and results are equal, and their
calls share inputs in the same way, as in torch_xla's hash. The digest is the same in every process.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final

from trnsim.xla.cuts.values import Geometry, HostNumber, RecordedCall, RecordedValue

_DIGEST_BYTES: Final = 16


@dataclass(frozen=True, slots=True)
class Reference:
    """An operand in a program: a result of a call, or an input.

    Attributes:
        call: the number of the call; -1 for an input.
        index: the index among the results of that call, or among the inputs.
    """

    call: int
    index: int


@dataclass(eq=False)
class CutProgram:
    """A program.

    Attributes:
        nodes: its calls, each after the calls whose results it reads.
        operands: for each call the references of its operands.
        inputs: the geometry of each input that is a tensor, and the number for each other input.
        is_read: True if the results go to the host alone, and stay lazy: torch_xla compiles such
            a program apart from one whose results are kept.
        donated: inputs whose memory results overwrite.
        data: the index of each input, by the `id` of its value, or by its number.
        digest: a hash that equal programs share.
    """

    nodes: list[RecordedCall]
    operands: list[tuple[Reference, ...]]
    inputs: list[Geometry | HostNumber]
    outputs: list[Reference]
    is_read: bool = False
    donated: tuple[int, ...] = ()
    data: dict[object, int] = field(default_factory=dict[object, int], repr=False)
    digest: str = field(init=False)

    def __post_init__(self) -> None:
        digest = blake2b(digest_size=_DIGEST_BYTES)
        for node, references in zip(self.nodes, self.operands, strict=True):
            digest.update(node.signature.digest)
            pairs = [(reference.call, reference.index) for reference in references]
            digest.update(repr(pairs).encode())
        shapes = [
            ((), str(value.dtype))
            if isinstance(value, HostNumber)
            else (tuple(value[0]), str(value[3]))
            for value in self.inputs
        ]
        results = [(reference.call, reference.index) for reference in self.outputs]
        digest.update(repr((shapes, results, self.is_read, self.donated)).encode())
        self.digest = digest.hexdigest()

    def source_of(self, reference: Reference) -> Geometry | HostNumber:
        """The geometry of an operand that is a tensor; else its number."""
        if reference.call < 0:
            return self.inputs[reference.index]
        return self.nodes[reference.call].signature.results[reference.index]


def program_of(
    values: Sequence[RecordedValue],
    *,
    is_read: bool = False,
    overwritten_values: Sequence[RecordedValue] = (),
) -> CutProgram:
    """The program whose results are `values`; `is_read` if they stay lazy.

    `overwritten_values` is data in memory that holds results afterwards.
    """
    program = _Builder()
    outputs = list(dict.fromkeys(program.reference(value) for value in values))
    data = program.data
    donated = input_indices(data, overwritten_values)
    return CutProgram(
        program.nodes, program.operands, program.inputs, outputs, is_read, donated, data
    )


def input_indices(data: dict[object, int], values: Sequence[RecordedValue]) -> tuple[int, ...]:
    """The indices of the inputs that are among `values`."""
    return tuple(sorted([data[id(value)] for value in values if id(value) in data]))


class _Builder:
    """A program in construction: its calls so far, with the numbers of calls and inputs."""

    def __init__(self) -> None:
        self.nodes: list[RecordedCall] = []
        self.operands: list[tuple[Reference, ...]] = []
        self.inputs: list[Geometry | HostNumber] = []
        self._calls: dict[int, int] = {}
        self.data: dict[object, int] = {}

    def reference(self, value: RecordedValue | HostNumber) -> Reference:
        """The reference of a value, whose calls are added first."""
        if isinstance(value, HostNumber) or value.node is None:
            return self._input(value)
        self._visit(value.node)
        return Reference(self._calls[id(value.node)], value.index)

    def _input(self, value: RecordedValue | HostNumber) -> Reference:
        key: object = value if isinstance(value, HostNumber) else id(value.source or value)
        place = self.data.get(key)
        if place is None:
            place = self.data[key] = len(self.inputs)
            self.inputs.append(value if isinstance(value, HostNumber) else value.geometry)
        return Reference(-1, place)

    def _visit(self, node: RecordedCall) -> None:
        """Add a call after its operands; a chain of calls may be longer than Python's stack."""
        stack = [(node, 0)]
        while stack:
            current, place = stack.pop()
            if id(current) in self._calls:
                continue
            for index in range(place, len(current.operands)):
                operand = current.operands[index]
                if isinstance(operand, RecordedValue) and operand.node is not None:
                    if id(operand.node) not in self._calls:
                        stack += [(current, index + 1), (operand.node, 0)]
                        break
                else:
                    self._input(operand)
            else:
                self._calls[id(current)] = len(self.nodes)
                self.nodes.append(current)
                self.operands.append(tuple(map(self.reference, current.operands)))
