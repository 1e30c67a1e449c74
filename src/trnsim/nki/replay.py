"""`trnsim.record`: a kernel's instructions, recorded once and executed on other inputs.

`trnsim.run` calls the kernel's Python each time, since the kernel may read any state. `record`
avoids that for callers who promise that only the values of the inputs change.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Final, Literal, NoReturn, TypeAlias

import numpy as np

from trnsim import arch
from trnsim.dtypes import Array
from trnsim.errors import BadInput
from trnsim.hazards import RaceDetector
from trnsim.nki.boundary import Boundary, rebuild
from trnsim.nki.kernel import Kernel
from trnsim.nki.language.objects import NKIObject
from trnsim.nki.tensor import NkiTensor
from trnsim.program import Capture, CoreContext, Executable
from trnsim.program.capture import refuse_recording
from trnsim.program.execution import Deviation
from trnsim.runs import Run, check_kernel_kwargs, collect, launch

MOST_RECORDINGS: Final = 64
"""Maximum number of recordings that a replay keeps.

Each is of another sequence of integers that instructions read from memory.
"""


@dataclass(frozen=True)
class TensorSpec:
    """Shape, dtype and kind of a tensor, without its values."""

    kind: str
    dtype: str
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"a {self.kind} array {self.dtype} {list(self.shape)}"


class Recording:
    """One captured run of a kernel, valid for the integers that its instructions read.

    Attributes:
        run: the run, without outputs.
        guards: for each core, the integers that its instructions read from memory, in order.
        saved_steps: see `Executable.saved_steps`.
        is_fixed: whether no values in memory decide which instructions are executed, or which
            elements they write.
        dtypes: the dtypes of the tensors among the arguments.
    """

    def __init__(self, run: Run, captures: Sequence[Capture]) -> None:
        """The recording of a captured run on one core or several.

        Raises:
            BadInput: if the captures cannot be executed again.
        """
        self.run = run.with_outputs(None)
        self.guards = [tuple(capture.guards.values()) for capture in captures]
        self._guard_steps = [tuple(capture.guards) for capture in captures]
        first_capture = captures[0]
        tensors = list(_result_tensors(first_capture.result))
        bare_storages = {tensor.storage.serial: tensor.storage.bare() for tensor in tensors}
        self._inputs = [tensor.storage.serial for tensor in first_capture.inputs]
        self._result_storages = [
            bare_storages[serial] for serial in bare_storages.keys() - set(self._inputs)
        ]
        self._result = _on_storages(first_capture.result, bare_storages)
        output_serials = [storage.serial for storage in self._result_storages]
        issued_programs = [timeline.program.issued for timeline in run.timelines]
        programs = [program.without_edges or program for program in issued_programs]
        self._executable = Executable.of(programs, captures, self._inputs, output_serials)
        self.saved_steps = self._executable.saved_steps
        self.is_fixed = self._executable.is_fixed
        self.dtypes = [tensor.dtype.dtype for tensor in first_capture.inputs]

    def execute(self, boundary: Boundary) -> Run:
        """The run of its instructions on the tensors that entered `boundary`.

        Raises:
            Deviation: if its instructions read other integers; no input is changed then.
            EmulatorError: if the values make an instruction undefined or illegal.
        """
        inputs = [tensor.storage for tensor in boundary.tensors]
        data = [storage.data for storage in inputs if storage.data is not None]
        executable, run = self._executable, self.run
        saved_inputs = [
            array.copy() if is_written and executable.has_guards else None
            for array, is_written in zip(data, executable.writes_inputs, strict=True)
        ]
        watcher = RaceDetector(len(self.guards)) if executable.watches_races else None
        try:
            results = executable.execute(data, [storage.changed for storage in inputs], watcher)
        except Deviation:
            for storage, array, saved_bytes in zip(inputs, data, saved_inputs, strict=True):
                if saved_bytes is not None:
                    array[...] = saved_bytes
                if storage.changed is not None:
                    storage.changed.clear()
            raise
        if watcher is not None:
            run = replace(run, doubtful=tuple(map(str, watcher.doubtful)))
        boundary.write_back()
        storages = dict(zip(self._inputs, inputs, strict=True))
        for storage, result in zip(self._result_storages, results, strict=True):
            storages[storage.serial] = storage.holding(result.data)
            storages[storage.serial].written = result.written
        return run.with_outputs(boundary.leave(_on_storages(self._result, storages)))

    def outputs(self, arrays: Sequence[Array]) -> Any:
        """The outputs of the recorded instructions on `arrays`; only for a fixed recording.

        Raises:
            EmulatorError: if the values make an instruction undefined or illegal.
        """
        data = [array.reshape(-1).view(np.uint8) for array in arrays]
        results = self._executable.execute(data)
        bytes_of = dict(zip(self._inputs, data, strict=True))
        for storage, result in zip(self._result_storages, results, strict=True):
            bytes_of[storage.serial] = result.data
        return _on_bytes(self._result, bytes_of)

    def begins(self, deviation: Deviation, executed_recording: Recording) -> bool:
        """True if this recording's integers begin with the integers read up to a deviation.

        Args:
            deviation: where a core read an integer that `executed_recording` does not have.
            executed_recording: the recording that was executed.
        """
        core = deviation.core
        count = executed_recording._guard_steps[core].index(deviation.step)
        prefix = (*executed_recording.guards[core][:count], deviation.values)
        return self.guards[core][: len(prefix)] == prefix


class Replay:
    """A recorded kernel; called with tensors like those recorded, it returns a `Run`.

    Instructions, times and warnings come from a recorded call whose instructions read the same
    integers from memory. Such integers are loaded into registers, or are indices that select a
    whole tile. For other integers the kernel's Python is called, and that call is recorded as well.
    Values, and errors that depend on values, come from executing the instructions on these tensors.
    The caller promises that the kernel's Python would issue the same instructions for the same
    integers.

    Attributes:
        run: the first recorded call's run; its `outputs` is None.
    """

    def __init__(
        self, kernel: Kernel, record: Callable[..., tuple[Run, Recording]], *call: Any
    ) -> None:
        """The replay of a kernel, with its first recording.

        Args:
            kernel: the kernel.
            record: function that runs the kernel on arguments and records the run.
            *call: positional arguments (a sequence) and keyword arguments (a mapping).

        Raises:
            BadInput: if the run cannot be executed again.
        """
        self._kernel = kernel
        self._record = record
        self._leaves = _leaves_of(kernel.bind(*call).arguments)
        run, recording = record(*call)
        self.run = run.with_outputs(None)
        self._recordings = [recording]
        self._context = CoreContext(run.program.core)
        self._plain = _plain_forms(call, recording)

    def __call__(self, *args: Any, **kwargs: Any) -> Run:
        """A run of the recorded instructions on arguments as for the kernel.

        Raises:
            BadInput: if more than the values of tensors differs from the recorded call.
            EmulatorError: if these values make an instruction undefined or illegal.
        """
        if self._plain is not None and not kwargs and _are_plain(args, self._plain):
            run = self.run.with_outputs(self._recordings[0].outputs(args))
            return collect(run)
        arguments = self._kernel.bind(args, kwargs).arguments
        self._check(_leaves_of(arguments))
        recording: Recording | None = self._recordings[-1]
        while recording is not None:
            boundary = Boundary(self._context)
            for name, value in arguments.items():
                boundary.enter(name, value)
            try:
                return collect(recording.execute(boundary))
            except Deviation as deviation:
                recording = self._matching_recording(recording, deviation)
        run, recording = self._record(args, kwargs)
        self._recordings = [*self._recordings[-MOST_RECORDINGS + 1 :], recording]
        return collect(run)

    @property
    def recordings(self) -> Sequence[Recording]:
        """The recordings that it keeps."""
        return self._recordings

    def _matching_recording(self, recording: Recording, deviation: Deviation) -> Recording | None:
        """The kept recording with the integers that were read, or None.

        It moves to the end of the list, from whose front recordings are dropped.
        """
        for candidate in reversed(self._recordings):
            if candidate.begins(deviation, recording):
                self._recordings = [r for r in self._recordings if r is not candidate] + [candidate]
                return candidate
        return None

    def _check(self, arguments: dict[str, Any]) -> None:
        """Refuse arguments that differ from the recorded call's.

        Raises:
            BadInput: naming the first argument that differs.
        """
        for path in dict.fromkeys([*self._leaves, *arguments]):
            if path not in arguments:
                self._refuse(path, "missing")
            if path not in self._leaves:
                self._refuse(path, f"{_as_text(arguments[path])}, and the recorded call had none")
            recorded_leaf = self._leaves[path]
            if not _is_same(recorded_leaf, arguments[path]):
                self._refuse(
                    path, f"{_as_text(arguments[path])}; recorded: {_as_text(recorded_leaf)}"
                )

    def _refuse(self, path: str, difference: str) -> NoReturn:
        raise BadInput(
            f"replay of {self.run.title}: argument `{path}` is {difference}",
            fix="record the kernel for these arguments too, or call it by trnsim.run",
        )


PlainForm: TypeAlias = tuple[np.dtype[Any], tuple[int, ...]]
"""Dtype and shape of an array."""


def _plain_forms(call: Sequence[Any], recording: Recording) -> list[PlainForm] | None:
    """Dtypes and shapes of a recorded call's arguments; None if the fast path cannot take them.

    The fast path takes positional numpy arrays that need no copy, in a fixed recording.
    """
    args, kwargs = call
    forms = [(array.dtype, array.shape) for array in args if _is_plain(array)]
    is_plain = len(forms) == len(args) and not kwargs and recording.is_fixed
    return forms if is_plain and recording.dtypes == [dtype for dtype, _ in forms] else None


def _is_plain(value: Any) -> bool:
    """True for a numpy array that a kernel can use in place: contiguous and writeable."""
    if type(value) is not np.ndarray:
        return False
    flags = value.flags
    return flags.c_contiguous and flags.writeable and value.ndim > 0


def _are_plain(args: Sequence[Any], forms: Sequence[PlainForm]) -> bool:
    """True if the arguments are plain arrays of these dtypes and shapes."""
    return len(args) == len(forms) and all(
        _is_plain(array) and array.shape == shape and array.dtype == dtype
        for array, (dtype, shape) in zip(args, forms, strict=True)
    )


def record(
    kernel: Kernel | object,
    *args: Any,
    target: str = "trn2",
    capacity: Literal["spill", "raise", "warn"] = "spill",
    kernel_kwargs: Mapping[str, Any] | None = None,
    **kwargs: Any,
) -> Replay:
    """Run `kernel` once and keep its instructions, to execute them on other inputs.

    Args:
        kernel: an `@nki.jit` kernel, on one core or two.
        *args: its arguments, as for `trnsim.run`.
        target: the chip, one of the names of `arch.TARGETS`.
        capacity: as for `trnsim.run`.
        kernel_kwargs: keyword arguments whose names `record` itself uses.
        **kwargs: the kernel's other keyword arguments.

    Raises:
        BadInput: a kernel that does more than issue instructions.
        EmulatorError: if the chip or its compiler would refuse the kernel, at its own line.
    """
    if not isinstance(kernel, Kernel):
        raise BadInput(
            f"record was given {kernel!r}; legal: an @nki.jit kernel",
            fix="decorate the function with @nki.jit",
        )
    check_kernel_kwargs("record", kernel_kwargs)
    chip, keywords = arch.target(target), {**kwargs, **(kernel_kwargs or {})}

    def run_and_record(args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Run, Recording]:
        """A run of the kernel, and its recording."""
        captures = [Capture()]
        captures += [captures[0].for_other_core() for _ in range(kernel.cores - 1)]
        run = launch(kernel, args, kwargs, chip, capacity=capacity, captures=captures)
        return run, Recording(run, captures)

    return Replay(kernel, run_and_record, args, keywords)


def _leaves_of(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The leaves of arguments by path: tensors as a `TensorSpec`, other values unchanged."""
    return dict(leaf for name, value in arguments.items() for leaf in _walk(name, value))


def _walk(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    """(path, leaf) of each leaf in an argument, and (path, type and length) of each container."""
    if isinstance(value, tuple | list):
        yield path, (type(value), len(value))
        for i, item in enumerate(value):
            yield from _walk(f"{path}[{i}]", item)
    elif isinstance(value, dict):
        yield path, (dict, tuple(value))
        for key, item in value.items():
            yield from _walk(f"{path}[{key!r}]", item)
    elif isinstance(value, NKIObject):
        yield path, (type(value), tuple(vars(value)))
        for key, item in vars(value).items():
            yield from _walk(f"{path}.{key}", item)
    elif hasattr(value, "shape") and hasattr(value, "dtype") and not isinstance(value, np.generic):
        kind = type(value).__module__.partition(".")[0]
        yield path, TensorSpec(kind, _dtype_name(value.dtype), tuple(value.shape))
    else:
        yield path, value


@cache
def _dtype_name(dtype: Hashable) -> str:
    return str(dtype)


def _is_same(recorded_leaf: object, leaf: object) -> bool:
    """True if two leaves are the same: 1 is neither True nor 1.0, -0.0 is not 0.0, NaN is NaN."""
    if type(recorded_leaf) is not type(leaf):
        return False
    if isinstance(recorded_leaf, float) and isinstance(leaf, float):
        return recorded_leaf.hex() == leaf.hex()
    if isinstance(recorded_leaf, np.generic) and isinstance(leaf, np.generic):
        return recorded_leaf.dtype == leaf.dtype and recorded_leaf.tobytes() == leaf.tobytes()
    return recorded_leaf is leaf or bool(recorded_leaf == leaf)


def _as_text(leaf: Any) -> str:
    return str(leaf) if isinstance(leaf, TensorSpec) else f"{leaf!r:.80}"


def _result_tensors(result: Any) -> Iterator[NkiTensor]:
    """The tensors in a kernel's result.

    Raises:
        BadInput: if the result holds values other than tensors and numbers.
    """
    if isinstance(result, tuple | list | dict):
        for item in result.values() if isinstance(result, dict) else result:
            yield from _result_tensors(item)
    elif isinstance(result, NkiTensor):
        yield result
    elif not isinstance(result, bool | int | float | str | None):
        refuse_recording(f"it returns {result!r:.60}")


def _on_storages(result: Any, storages: Mapping[int, Any]) -> Any:
    """A kernel's result with its tensors moved to other storages, by serial of the old ones."""

    def move(tensor: NkiTensor) -> NkiTensor:
        storage = storages[tensor.storage.serial]
        return NkiTensor.laid_out(storage, tensor.dtype, tensor.layout, tensor.buffer)

    return _map_tensors(result, move)


def _on_bytes(result: Any, data: Mapping[int, Array]) -> Any:
    """A kernel's result with an array in the place of each tensor, by serial of its storage."""

    def array_of(tensor: NkiTensor) -> Array:
        shape, strides, offset = tensor.pattern
        return np.ndarray(shape, tensor.dtype.dtype, data[tensor.storage.serial], offset, strides)

    return _map_tensors(result, array_of)


def _map_tensors(result: Any, function: Callable[[NkiTensor], Any]) -> Any:
    """A kernel's result with `function(tensor)` in the place of each tensor."""
    if isinstance(result, tuple | list):
        return rebuild(result, [_map_tensors(item, function) for item in result])
    if isinstance(result, dict):
        return {key: _map_tensors(item, function) for key, item in result.items()}
    return function(result) if isinstance(result, NkiTensor) else result
