"""`trnsim.record`: a kernel's instructions, recorded once and executed on other inputs.

`trnsim.run` calls the kernel's Python each time, since the kernel may read any state. `record`
avoids that for callers who promise that only the values of the inputs change.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, NoReturn

import numpy as np

from trnsim import arch
from trnsim.errors import BadInput
from trnsim.nki.boundary import Boundary, like
from trnsim.nki.kernel import Kernel
from trnsim.nki.language.objects import NKIObject
from trnsim.nki.tensor import NkiTensor
from trnsim.program import Capture, CoreContext, Executable
from trnsim.program.capture import refuse
from trnsim.runs import Run, collected, launch


@dataclass(frozen=True)
class Likeness:
    """Shape, dtype and kind of a tensor, without its values."""

    kind: str
    dtype: str
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"a {self.kind} array {self.dtype} {list(self.shape)}"


class Replay:
    """A recorded kernel; called with tensors like those recorded, it returns a `Run`.

    Instructions, times and warnings are those of the recorded call. Values, and errors that depend
    on values, come from executing the instructions on these tensors. The caller promises that the
    kernel's Python would issue the same instructions again.

    Attributes:
        run: the recorded call's run; its `outputs` is None.
    """

    def __init__(self, kernel: Kernel, run: Run, capture: Capture, leaves: dict[str, Any]) -> None:
        """The replay of a captured run, whose arguments were `leaves`.

        Raises:
            BadInput: if the capture cannot be executed again.
        """
        self.run = run
        self._kernel = kernel
        self._leaves = leaves
        tensors = list(_result_tensors(capture.result))
        bare = {tensor.storage.serial: tensor.storage.bare() for tensor in tensors}
        self._entered = [tensor.storage.serial for tensor in capture.entered]
        self._returned = [bare[serial] for serial in bare.keys() - set(self._entered)]
        self._result = _on_storages(capture.result, bare)
        returned = [storage.serial for storage in self._returned]
        issued = run.program.issued
        program = issued.without_edges or issued
        self._executable = Executable.of(program, capture, self._entered, returned)

    def __call__(self, *args: Any, **kwargs: Any) -> Run:
        """A run of the recorded instructions on arguments as for the kernel.

        Raises:
            BadInput: if more than the values of tensors differs from the recorded call.
            EmulatorError: if these values make an instruction undefined or illegal.
        """
        arguments = self._kernel.bind(args, kwargs)
        self._check(_leaves_of(arguments))
        boundary = Boundary(CoreContext(self.run.program.core))
        for name, value in arguments.items():
            boundary.enter(name, value)
        inputs = [tensor.storage for tensor in boundary.entered]
        data = [storage.data for storage in inputs if storage.data is not None]
        results = self._executable.execute(data, [storage.changed for storage in inputs])
        boundary.write_back()
        now = dict(zip(self._entered, inputs, strict=True))
        for storage, values in zip(self._returned, results, strict=True):
            now[storage.serial] = storage.holding(values)
        return collected(replace(self.run, outputs=boundary.leave(_on_storages(self._result, now))))

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
            recorded = self._leaves[path]
            if not _is_same(recorded, arguments[path]):
                self._refuse(path, f"{_as_text(arguments[path])}; recorded: {_as_text(recorded)}")

    def _refuse(self, path: str, difference: str) -> NoReturn:
        raise BadInput(
            f"replay of {self.run.title}: argument `{path}` is {difference}",
            fix="record the kernel for these arguments too, or call it by trnsim.run",
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
        kernel: an `@nki.jit` kernel, on one core.
        *args: its arguments, as for `trnsim.run`.
        target: the chip, one of the names of `arch.TARGETS`.
        capacity: as for `trnsim.run`.
        kernel_kwargs: keyword arguments whose names `record` itself uses.
        **kwargs: the kernel's other keyword arguments.

    Raises:
        BadInput: a kernel whose instructions depend on values, or that runs on two cores.
        EmulatorError: if the chip or its compiler would refuse the kernel, at its own line.
    """
    if not isinstance(kernel, Kernel) or kernel.cores != 1:
        shown = f"{kernel.title}[{kernel.cores}]" if isinstance(kernel, Kernel) else repr(kernel)
        raise BadInput(
            f"record was given {shown}; legal: an @nki.jit kernel on one core",
            fix="run it on one core, or call it by trnsim.run",
        )
    keywords = {**kwargs, **(kernel_kwargs or {})}
    leaves = _leaves_of(kernel.bind(args, keywords))
    capture = Capture()
    run = launch(kernel, args, keywords, arch.target(target), capacity=capacity, capture=capture)
    return Replay(kernel, replace(run, outputs=None), capture, leaves)


def _leaves_of(bound: Mapping[str, Any]) -> dict[str, Any]:
    """The leaves of arguments by path: tensors as their likeness, other values unchanged."""
    return dict(leaf for name, value in bound.items() for leaf in _walk(name, value))


def _walk(path: str, value: Any) -> Iterator[tuple[str, Any]]:
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
        yield path, Likeness(kind, str(value.dtype), tuple(value.shape))
    else:
        yield path, value


def _is_same(recorded: object, current: object) -> bool:
    """True if two leaves are the same: 1 is neither True nor 1.0, -0.0 is not 0.0, NaN is NaN."""
    if type(recorded) is not type(current):
        return False
    if isinstance(recorded, float) and isinstance(current, float):
        return recorded.hex() == current.hex()
    return recorded is current or bool(recorded == current)


def _as_text(leaf: Any) -> str:
    return str(leaf) if isinstance(leaf, Likeness) else f"{leaf!r:.80}"


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
        refuse(f"it returns {result!r:.60}")


def _on_storages(result: Any, storages: Mapping[int, Any]) -> Any:
    """A kernel's result with its tensors on other storages."""
    if isinstance(result, tuple | list):
        return like(result, [_on_storages(item, storages) for item in result])
    if isinstance(result, dict):
        return {key: _on_storages(item, storages) for key, item in result.items()}
    if not isinstance(result, NkiTensor):
        return result
    storage = storages[result.storage.serial]
    return NkiTensor.laid_out(storage, result.dtype, result.layout, result.buffer)
