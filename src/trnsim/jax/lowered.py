"""Programs of JAX as graphs: what their calls are recorded as, and their values in `exact`.

A program becomes a graph when somebody asks: a recording that listens, exact numerics, or the
policy `chip`, which refuses what has no counterpart on the chip. The graph is compiled to one
program of a core by `trnsim.compiler`, as a graph of any framework is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from trnsim.compiler import Flags, program
from trnsim.device.call_log import Phase, Scope, listening, note, note_collective
from trnsim.device.call_time import TensorSpec
from trnsim.device.collective_log import CLOSED_FORMS, CollectiveCall
from trnsim.device.compiled_graph import compiled
from trnsim.device.device_core import target
from trnsim.device.fallback_policy import VARIABLE, left_to_host, state
from trnsim.device.numerics import mode
from trnsim.errors import (
    EmulatorError,
    IllegalInstruction,
    InternalError,
    NotModelled,
    OutOfMemory,
)
from trnsim.graph import Kind, TensorType
from trnsim.graph.ops.leaves import Rng, RngBitGenerator
from trnsim.lower import memory_plan, without_exchanges

if TYPE_CHECKING:
    from trnsim.device.call_time import CallTime, DeviceCall
    from trnsim.jax.stablehlo import Imported

_APART: Final = (Kind.CONTROL, Kind.CALL, Kind.COLLECTIVE)
_NO_ROOM: Final = (OutOfMemory, IllegalInstruction, InternalError, NotModelled)
_LOGGED: Final = CLOSED_FORMS | {"collective_permute": "send"}
"""Names of exchanges in graphs, and those of the log of collectives."""


@dataclass(frozen=True, slots=True)
class ArraySpec(TensorSpec):
    """An array without its values; a token has no dtype."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any] | None

    @property
    def type(self) -> TensorType:
        """Its type in the graph."""
        return TensorType(self.shape, str(self.dtype))


@dataclass(frozen=True, eq=False)
class Untimed:
    """A program without a graph, and so without a time.

    Attributes:
        name: of the program.
        reason: why it has none.
    """

    name: str
    reason: str

    @property
    def operation(self) -> str:
        """Its name."""
        return self.name

    def time(self, target: str) -> CallTime:
        """Refused on every chip.

        Raises:
            NotModelled: always.
        """
        raise NotModelled(f"{self.name} has no time on {target}: {self.reason}")


class Lowered:
    """The graph of a program.

    Attributes:
        name: of the program.
        arguments: what a device takes.
        partitions: over how many devices each copy is split.
    """

    def __init__(
        self,
        name: str,
        module: Callable[[], Any],
        arguments: Callable[[], Sequence[ArraySpec]],
        partitions: int,
    ) -> None:
        self.name = name
        self.partitions = partitions
        self._module = module
        self._arguments = arguments

    @cached_property
    def _found(self) -> Imported | EmulatorError:
        # Loaded late: importing the rules takes a while, and a program may never need them.
        from trnsim.jax.stablehlo import graph_of  # noqa: PLC0415

        try:
            found = graph_of(self._module())
        except EmulatorError as error:
            return error
        given = [value.shape for value in found.inputs]
        if self.partitions > 1 and given != [one.shape for one in self._arguments()]:
            return NotModelled(
                f"XLA splits it over {self.partitions} devices, and what each one computes is not "
                "known before",
                fix="say what a device computes: jax.shard_map, or jax.pmap",
            )
        return found

    def imported(self) -> Imported:
        """The program as a graph.

        Raises:
            NotModelled: for an operation that the graph has not, with the program's line.
        """
        found = self._found
        if isinstance(found, EmulatorError):
            raise found
        return found

    @cached_property
    def call(self) -> DeviceCall:
        """What a call of it is recorded as."""
        found = self._found
        if isinstance(found, EmulatorError):
            return Untimed(self.name, found.reason)
        plan = memory_plan(found.graph, found.names)
        inputs = tuple(self._arguments())
        flags = Flags.of_environment()
        return compiled(self.name, inputs, found.graph, plan, found.operators, (), flags)

    @cached_property
    def collectives(self) -> tuple[CollectiveCall, ...]:
        """What its devices exchange, in order."""
        if isinstance(self._found, EmulatorError):
            return ()
        _, exchanges = without_exchanges(self._found.graph)
        return tuple(
            CollectiveCall(_LOGGED.get(one.kind, one.kind), one.nbytes, (*range(one.ranks),))
            for one in exchanges
        )

    def note(self, cores: Sequence[int]) -> None:
        """Record a call on these cores, where a recording listens."""
        if not listening():
            return
        for core in cores:
            note(self.call, core, _nowhere)
        for one in self.collectives:
            note_collective(one)

    @cached_property
    def why_not(self) -> str:
        """Why its values are the host's in exact numerics; empty where the chip's program runs."""
        found = self._found
        if isinstance(found, EmulatorError):
            return found.reason
        apart = [node.name for node in found.graph.nodes if node.kind in _APART]
        if apart:
            return f"{apart[0]} is a program of its own"
        if any(isinstance(node.operation, Rng | RngBitGenerator) for node in found.graph.nodes):
            return "random numbers are the host's"
        held = [*found.graph.inputs, *(one for node in found.graph.nodes for one in node.results)]
        if any(not one.type.elements for one in held):
            return "it has arrays without elements"
        return ""

    def values(self, given: Sequence[npt.NDArray[Any]]) -> list[npt.NDArray[Any]] | None:
        """What the chip's program computes; None where the host does, which is counted.

        Raises:
            NotModelled: for what the host would have to compute, under the policy `chip`.
        """
        if not self.why_not:
            found = self.imported()
            arrays = found.arguments(
                [
                    np.asarray(array).astype(value.type.numpy_dtype())
                    for value, array in zip(found.inputs, given, strict=True)
                ]
            )
            try:
                return list(program.values(found.graph, arrays, target().name, frozenset()))
            except _NO_ROOM as error:
                self.why_not = error.reason
        if state.policy == "chip":
            raise NotModelled(
                f"{self.name} in exact numerics: {self.why_not}",
                fix=f"let the host compute it and count it: {VARIABLE}=host",
            )
        mode.on_host[self.why_not] += 1
        said = f"{self.name} runs on the host, not instruction by instruction: {self.why_not}"
        left_to_host(self.name, said)
        return None


def _nowhere() -> Scope:
    """JAX has no modules, and a step of it is one program."""
    return Scope("", Phase.forward)
