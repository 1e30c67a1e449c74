"""One call of an NKI kernel: its argument shapes, the tensors it writes and returns, its time.

A run that computes values has its own outline. Where no values are needed, equal calls share an
outline per chip, from one run without values.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np

from trnsim.arch.environment import transposes_on_tensor_engine
from trnsim.behaviours.chosen import VersionChoice
from trnsim.device.call_time import CallTime, TensorSpec
from trnsim.device.program_line import program_line
from trnsim.dtypes import as_dtype
from trnsim.errors import BadInput
from trnsim.lower import Cost
from trnsim.memory import HbmBytes
from trnsim.nki.boundary import Boundary, rebuild
from trnsim.nki.kernel import Kernel, emulate
from trnsim.nki.tensor import NkiTensor
from trnsim.profile.measures.busy import busy_s
from trnsim.profile.measures.traffic import Totals
from trnsim.program import Team
from trnsim.runs import OBSERVERS, Run, collecting
from trnsim.timing import Timeline


class Tree(Protocol):
    """The nesting of a call's arguments; hashable. PyTorch and JAX each have such a class."""

    def unflatten(self, leaves: Any, /) -> Any:
        """The positional and the keyword arguments, with `leaves` in their places."""
        ...


@dataclass(frozen=True, slots=True)
class ResultSpec:
    """A tensor that a kernel returns, without its values.

    Attributes:
        dtype: its dtype's name in NKI.
    """

    shape: tuple[int, ...]
    dtype: str

    @property
    def numpy_dtype(self) -> np.dtype[Any]:
        """The dtype of numpy arrays of the tensor."""
        return as_dtype(self.dtype).dtype


@dataclass(frozen=True)
class Outline:
    """The effects and the time of a kernel call, without its values.

    Attributes:
        written: positions of the tensors that it writes, among `KernelCall.specs`.
        unreturned: positions of the tensors that it writes but does not return.
        results: a spec for each tensor that it returns, nested as it returns them.
        cost: its time.
        timelines: timelines of the run from which the outline was made.
        constant_bytes: bytes of arrays that are part of the kernel.
        scratchpad_bytes: bytes of its private HBM and of spills.
    """

    written: tuple[int, ...]
    unreturned: tuple[int, ...]
    results: Any
    cost: Cost
    timelines: tuple[Timeline, ...]
    constant_bytes: int = 0
    scratchpad_bytes: int = 0

    @property
    def name(self) -> str:
        """The kernel's name."""
        return self.cost.name

    @property
    def specs(self) -> list[ResultSpec]:
        """Specs of the tensors that it returns, flattened."""
        return results_in(self.results, self.results)


@dataclass(frozen=True)
class KernelCall:
    """A kernel with everything that its instructions depend on: equal calls take the same time.

    Attributes:
        kernel: the kernel, with its launch grid.
        leaves: its arguments in order, tensors as specs.
        tree: the nesting of its arguments.
        types: the types of the leaves, since 1, 1.0 and True are equal but not to a kernel.
        is_transposed_by_engine: true if the Tensor Engine does the DMA's transposes.
    """

    kernel: Kernel
    leaves: tuple[Hashable, ...]
    tree: Tree
    types: tuple[type, ...]
    is_transposed_by_engine: bool

    @classmethod
    def of(cls, kernel: Kernel, leaves: Sequence[Any], tree: Tree) -> KernelCall:
        """The call of a kernel with these arguments, tensors as specs.

        Raises:
            BadInput: for an argument that is neither a tensor nor hashable.
        """
        for leaf in leaves:
            if not _is_hashable(leaf):
                raise BadInput(
                    f"the kernel {kernel.title} was called with a {type(leaf).__name__}, "
                    f"{leaf!r:.60}, which is not hashable: no compiled kernel is found by it",
                    fix="pass tensors, numbers, words, dtypes, or tuples of them",
                    source="nki-language-guide.rst, kernels are cached by their arguments",
                    line=program_line(),
                )
        types = tuple(type(leaf) for leaf in leaves)
        return cls(kernel, tuple(leaves), tree, types, transposes_on_tensor_engine())

    @property
    def name(self) -> str:
        """The kernel's name, spelled like an operator's ("nki::softmax")."""
        return f"nki::{self.kernel.title}"

    @property
    def operation(self) -> str:
        """The kernel's name alone ("softmax")."""
        return self.kernel.title

    @property
    def specs(self) -> tuple[TensorSpec, ...]:
        """Specs of its tensors."""
        return tuple(leaf for leaf in self.leaves if isinstance(leaf, TensorSpec))

    def time(self, target: str) -> CallTime:
        """Its time on a chip.

        Raises:
            EmulatorError: as `measure`.
        """
        return CallTime((self.outline(target).cost,))

    def arguments(self, tensors: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The call's arguments, `tensors` in the place of its specs."""
        queue = iter(tensors)
        leaves = [next(queue) if isinstance(leaf, TensorSpec) else leaf for leaf in self.leaves]
        args, kwargs = self.tree.unflatten(leaves)
        return args, kwargs

    def run(self, tensors: Sequence[Any], chip: str) -> tuple[Any, Outline]:
        """The kernel's results on CPU tensors, which it may write in place, and its outline."""
        args, kwargs = self.arguments(tensors)
        observed_kernel = _ObservedKernel(self.kernel, tensors)
        with OBSERVERS.paused():  # the caller records the call
            run = emulate(observed_kernel, args, kwargs, target=chip, is_simulator=False)
        outline = _outlines.get((self, chip))
        if outline is None or outline.timelines is not run.timelines:
            outline = _outlines[self, chip] = _outline(observed_kernel, run)
        return run.outputs, outline

    def values(self, arrays: Sequence[Any], chip: str) -> list[Any]:
        """The numpy arrays that it returns, flattened."""
        returned, outline = self.run(arrays, chip)
        return results_in(outline.results, returned)

    def measure(self, chip: str) -> Outline:
        """Its outline on a chip, from a run without values.

        Raises:
            EmulatorError: for anything that the chip would refuse, at the kernel's own line.
        """
        arrays = [np.empty(spec.shape, spec.type.numpy_dtype()) for spec in self.specs]
        observed_kernel = _ObservedKernel(self.kernel, arrays)
        args, kwargs = self.arguments(arrays)
        # The user did not launch this run, so no report lists it.
        with collecting(), OBSERVERS.paused():
            run = emulate(
                observed_kernel, args, kwargs, target=chip, is_simulator=False, numerics=False
            )
        outline = _outlines[self, chip] = _outline(observed_kernel, run)
        return outline

    def outline(self, chip: str) -> Outline:
        """The outline of its latest run on a chip, or else of a run without values.

        Raises:
            EmulatorError: as `measure`.
        """
        return _outlines.get((self, chip)) or self.measure(chip)


_outlines: Final[dict[tuple[KernelCall, str], Outline]] = {}


class _ObservedKernel:
    """A kernel that keeps the tensors of its call, its results, and its bytes in HBM."""

    def __init__(self, kernel: Kernel, tensors: Sequence[Any]) -> None:
        self.kernel = kernel
        self.title = kernel.title
        self.cores = kernel.cores
        self.records = kernel.records
        self.may_spill = kernel.may_spill
        self.entered: dict[int, NkiTensor] = {}
        self._tensors = tensors
        self.returned: Any = None
        self.hbm = HbmBytes()

    def version(self) -> VersionChoice:
        """The version of NKI whose rules it follows."""
        return self.kernel.version()

    def launch(self, team: Team, args: Sequence[Any], kwargs: Mapping[str, Any]) -> object:
        """Issue the kernel's instructions; outputs as the caller's kind of array."""
        boundary = Boundary(team.contexts[0], self.kernel.line)
        self.returned = self.kernel.issue(team, boundary, args, kwargs)
        positions = boundary.positions(self._tensors)
        self.entered = {
            position: tensor
            for position, tensor in zip(positions, boundary.tensors, strict=True)
            if position is not None
        }
        self.hbm = team.hbm
        return boundary.leave(self.returned)


def _outline(observed_kernel: _ObservedKernel, run: Run) -> Outline:
    written_serials = {
        serial
        for timeline in run.timelines
        for serial, use in timeline.program.uses.items()
        if use.written_bytes
    }
    written = tuple(
        position
        for position, tensor in sorted(observed_kernel.entered.items())
        if tensor.storage.serial in written_serials
    )
    results = _specs(observed_kernel.returned)
    returned_serials = {
        tensor.storage.serial for tensor in results_in(results, observed_kernel.returned)
    }
    unreturned = tuple(
        position
        for position in written
        if observed_kernel.entered[position].storage.serial not in returned_serials
    )
    timeline = run.timeline
    totals = [Totals(t.program) for t in run.timelines]
    cost = Cost(
        run.title,
        timeline.device_time_s,
        timeline.launch_s,
        sum(len(t) for t in run.timelines),
        float(sum(total.model_flops for total in totals)),
        sum(total.of("hbm_read_bytes") + total.of("hbm_write_bytes") for total in totals),
        busy_s(timeline),
    )
    spilled_bytes = sum(
        use.nbytes for t in run.timelines for use in t.program.uses.values() if use.is_spill
    )
    scratchpad_bytes = observed_kernel.hbm.scratchpad + spilled_bytes
    return Outline(
        written,
        unreturned,
        results,
        cost,
        run.timelines,
        observed_kernel.hbm.constants,
        scratchpad_bytes,
    )


def _specs(result: Any) -> Any:
    """A kernel's result with a spec in the place of each tensor."""
    if isinstance(result, NkiTensor):
        return ResultSpec(tuple(result.shape), str(result.dtype))
    if isinstance(result, tuple | list):
        return rebuild(result, [_specs(item) for item in result])
    if isinstance(result, dict):
        return {key: _specs(item) for key, item in result.items()}
    return result


def results_in(specs: Any, value: Any) -> list[Any]:
    """The leaves of `value` at the positions of the specs of an outline's results, in order."""
    if isinstance(specs, ResultSpec):
        return [value]
    if isinstance(specs, tuple | list):
        pairs = list(zip(specs, value, strict=True))
    elif isinstance(specs, dict):
        pairs = [(spec, value[key]) for key, spec in specs.items()]
    else:
        return []
    return [tensor for spec, part in pairs for tensor in results_in(spec, part)]


def with_results(specs: Any, values: Iterator[Any]) -> Any:
    """An outline's results with the next of `values` in the place of each spec."""
    if isinstance(specs, ResultSpec):
        return next(values)
    if isinstance(specs, tuple | list):
        return rebuild(specs, [with_results(spec, values) for spec in specs])
    if isinstance(specs, dict):
        return {key: with_results(spec, values) for key, spec in specs.items()}
    return specs


def _is_hashable(leaf: object) -> bool:
    try:
        hash(leaf)
    except TypeError:
        return False
    return True
