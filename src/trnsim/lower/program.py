"""A graph's program: the instructions of the whole graph, traced with or without values.

The program requests a layout for each weight. A run with values is preceded by one without, which
records these requests.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any, Final

import numpy as np

from trnsim import arch
from trnsim.errors import without_user_code
from trnsim.graph import Graph
from trnsim.lower.emit.attending import attention, attention_gradient
from trnsim.lower.emit.computing import product, reduction, rotation
from trnsim.lower.emit.emission import Emission
from trnsim.lower.emit.images import convolution, padding, pooling
from trnsim.lower.emit.inputs import ProgramInputs
from trnsim.lower.emit.naming import NamedStretch
from trnsim.lower.emit.places.walk import Frame
from trnsim.lower.emit.schedule import FIRST_SCHEDULE, RING, ROOM, SbufSchedule
from trnsim.lower.exchanges import ExchangeIssuer
from trnsim.lower.kernels import indexing, movement, rows
from trnsim.lower.kernels.tiles import Tensor, dtype_of
from trnsim.nki import language as nl
from trnsim.nki.kernel import Kernel
from trnsim.program import current_core
from trnsim.runner import observed_run
from trnsim.runs import Run, collect, launch
from trnsim.timing.occupancy import Integers
from trnsim.timing.time_limit import limit_time

Array = np.ndarray[Any, Any]
MIRRORED: Final = 2
"""Physical cores of a logical core, which run the same program (logical-neuroncore-config.rst)."""
_RULES: Final = (
    *(attention, attention_gradient, convolution, padding, pooling, product, reduction, rotation),
    *(indexing, movement, rows),
)
"""Importing them fills the table of emitters."""


@dataclass(frozen=True, slots=True)
class WeightPanel:
    """A range of a weight's columns in the layout of a frame: [rows of a block, blocks, columns].

    Attributes:
        number: number of the weight's value among the graph's inputs.
        frame: the matrix that the weight's dimensions form.
        start: the first column.
    """

    number: int
    frame: Frame
    start: int
    columns: int

    @property
    def shape(self) -> tuple[int, int, int]:
        """The panel's shape in HBM."""
        return min(self.frame.block, self.frame.rows), self.frame.blocks, self.columns

    def of(self, array: Array) -> Array:
        """The panel of an array; rows beyond the last one are zero."""
        frame = self.frame
        part = frame.matrix_of(array)[:, self.start : self.start + self.columns]
        rows, blocks, _ = self.shape
        padded = np.zeros((blocks * rows, self.columns), array.dtype)
        padded[: len(part)] = part
        return np.ascontiguousarray(padded.reshape(blocks, rows, -1).transpose(1, 0, 2))


@dataclass
class _Trace:
    """One run of the program's Python: the panels of weights that it requests, in order."""

    graph: Graph
    tensors: Sequence[Tensor] = ()
    panels: list[WeightPanel] = field(default_factory=list[WeightPanel])
    copies: dict[WeightPanel, Tensor] = field(default_factory=dict[WeightPanel, Tensor])

    def prepare(self, number: int, frame: Frame, start: int = 0, columns: int = 1) -> Tensor:
        """A panel of a weight in HBM."""
        key = WeightPanel(number, frame, start, columns)
        if key not in self.copies:
            self.panels.append(key)
            if self.tensors:
                self.copies[key] = self.tensors[len(self.panels) - 1]
            else:
                value = next(value for value in self.graph.inputs if value.number == number)
                dtype = dtype_of(value.dtype)
                self.copies[key] = nl.ndarray(key.shape, dtype=dtype, buffer=nl.shared_hbm)
        return self.copies[key]


@dataclass(frozen=True)
class TracedProgram:
    """A program that was traced.

    Attributes:
        run: the run of the program, with its timeline.
        names: the named stretches of its instructions.
        inputs: numbers of the graph's inputs by the serial of their storage; a weight has a storage
            for each of its layouts.
        outputs: serials of its outputs' storage.
        spilled: serials of results that are in HBM because SBUF had no room.
        shortages: the shortages of SBUF that another schedule may remove: `ROOM`, `RING`.
        wanted_bytes: the most bytes of a partition that unread results would take at once.
    """

    run: Run
    names: list[NamedStretch]
    inputs: dict[int, int]
    outputs: frozenset[int]
    spilled: frozenset[int]
    shortages: frozenset[str]
    wanted_bytes: int

    def stretches(self) -> Integers:
        """The index in `names` of the stretch of each instruction.

        If SBUF overflowed, spills were added among the issued instructions: each belongs to the
        stretch of the instruction after it. Loads that spills delay may be counted in a
        neighbouring stretch.
        """
        program = self.run.timeline.program
        spills = np.array([instruction.is_spill for instruction in program.checked], np.bool_)
        is_issued = ~spills[np.array(program.which, np.int64)]
        issue_places = np.minimum(np.cumsum(is_issued) - is_issued, is_issued.sum() - 1)
        firsts = np.array([stretch.first_instruction for stretch in self.names], np.int64)
        return np.asarray(np.searchsorted(firsts, issue_places, side="right") - 1)


def trace_without_values(
    graph: Graph, target: str, weights: frozenset[int], **options: Any
) -> TracedProgram:
    """The trace of a graph's program without values; `options` are further arguments of `trace`."""
    inputs = [np.empty(value.shape, value.type.numpy_dtype()) for value in graph.inputs]
    return trace(graph, inputs, target, weights, numerics=False, **options)


def run_graph(
    graph: Graph,
    inputs: Sequence[Array],
    target: str,
    weights: frozenset[int],
    *,
    numerics: bool,
) -> Run:
    """The run of a graph's program; every operation of the graph must have instructions."""
    return trace(graph, inputs, target, weights, numerics=numerics).run


def trace(
    graph: Graph,
    inputs: Sequence[Array],
    target: str,
    weights: frozenset[int],
    *,
    numerics: bool,
    lnc: int = 1,
    schedule: SbufSchedule = FIRST_SCHEDULE,
    links: ExchangeIssuer | None = None,
    name: str = "graph",
    limit_s: float = inf,
) -> TracedProgram:
    """The run of a graph's program, and the operation to which each instruction belongs.

    With `lnc` 2, it is that of one of two equal cores. With `lnc` 2 or `links`, it has no values.

    Raises:
        TimeLimitExceededError: the work of one engine alone takes longer than `limit_s`.
    """
    tracers: list[_Trace] = []
    emissions: list[Emission] = []
    serials: list[tuple[dict[int, int], frozenset[int]]] = []
    chip = arch.target(target)

    def kernel(tensors: tuple[Any, ...], prepared: tuple[Any, ...]) -> Any:
        tracer = _Trace(graph, prepared)
        tracers.append(tracer)
        program_inputs = ProgramInputs(weights, tracer.prepare, schedule.ring_bytes)
        emissions.append(Emission(graph, program_inputs, _resident_bytes(chip, schedule), links))
        with without_user_code(), limit_time(current_core(), limit_s):
            outputs = emissions[-1].run(tensors)
        numbers = zip(tensors, (value.number for value in graph.inputs), strict=True)
        inputs = {tensor.storage.serial: number for tensor, number in numbers}
        inputs |= {tensor.storage.serial: key.number for key, tensor in tracer.copies.items()}
        serials.append((inputs, _serials(outputs)))
        return outputs

    kernel.__name__ = name
    arrays = tuple(array.view(np.uint8) if array.dtype == np.bool_ else array for array in inputs)
    nki_kernel = Kernel(kernel, {})

    def issue() -> Run:
        return collect(
            launch(nki_kernel, (arrays, ()), {}, chip, numerics=False, is_mirrored=lnc == MIRRORED)
        )

    if numerics:
        if weights:
            issue()  # its trace lists the layouts that the program needs of the weights
        by_number = dict(zip((value.number for value in graph.inputs), arrays, strict=True))
        panels = tracers[0].panels if tracers else ()
        parts = tuple(panel.of(by_number[panel.number]) for panel in panels)
        run = observed_run(nki_kernel, (arrays, parts), {}, chip)
    else:
        run = issue()
    emission = emissions[-1]
    names, residents = emission.names.stretches, emission.residents
    spilled, wanted_bytes = _serials(residents.spilled), residents.demand.wanted_bytes
    return TracedProgram(run, names, *serials[-1], spilled, _shortages(emission, run), wanted_bytes)


def _serials(tensors: Iterable[Tensor]) -> frozenset[int]:
    return frozenset(tensor.storage.serial for tensor in tensors)


def _resident_bytes(chip: arch.Target, schedule: SbufSchedule) -> int:
    """Bytes of a partition for results: those that the schedule leaves."""
    return chip.core.sbuf_partition_bytes - schedule.passing_bytes


def _shortages(emission: Emission, run: Run) -> frozenset[str]:
    """The shortages of a program: `ROOM` if results spilled, `RING` if weights waited."""
    spilled = emission.residents.spilled
    is_spilled = spilled or any(entry.is_spill for entry in run.timeline.program.checked)
    return frozenset([ROOM] * bool(is_spilled) + [RING] * emission.inputs.is_ring_full)
