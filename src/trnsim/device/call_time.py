"""A call on a device, independent of the framework, and its time on a chip."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from trnsim.errors import EmulatorError

if TYPE_CHECKING:  # a program of NKI kernels alone loads neither
    from trnsim.graph import TensorType
    from trnsim.lower import Cost


class TensorSpec:
    """A framework's tensor without its values; hashable. Each framework has a subclass."""

    __slots__ = ()

    shape: tuple[int, ...]
    dtype: Any

    @property
    def type(self) -> TensorType:
        """Its type in the graph.

        Raises:
            Unlowered: for a dtype that the chip does not have.
        """
        raise NotImplementedError


def spec_text(spec: TensorSpec) -> str:
    """A tensor as text: "float32[4, 8]"."""
    return f"{str(spec.dtype).rpartition('.')[2]}{list(spec.shape)}"


class DeviceCall(Protocol):
    """An operator, a compiled graph or an NKI kernel on tensors of given shapes.

    Hashable: calls that are equal take the same time.
    """

    @property
    def name(self) -> str:
        """Its full name ("aten::add.Tensor", "nki::softmax", "forward-0")."""
        ...

    @property
    def operation(self) -> str:
        """Its plain name ("add")."""
        ...

    def time(self, target: str) -> CallTime:
        """Its time on a chip.

        Raises:
            EmulatorError: where it has none.
        """
        ...


@dataclass(frozen=True, slots=True)
class CallTime:
    """The time of a call on a chip.

    Attributes:
        kernels: costs of its kernels; () for a call without work, such as a copy of nothing.
        missing_reason: the reason why all or part of its time is unknown, or "".
        is_one_launch: True if the kernels are one compiled graph, started once.
        modules: seconds of each module of the model (a torch.nn.Module) in a compiled graph.
        lines: seconds of each line of the user's program ("train.py:12") in a compiled graph.
    """

    kernels: tuple[Cost, ...]
    missing_reason: str = ""
    is_one_launch: bool = False
    modules: tuple[tuple[str, float], ...] = ()
    lines: tuple[tuple[str, float], ...] = ()

    @property
    def device_time_s(self) -> float:
        """The kernels' time, one after the other, without launches."""
        return sum(kernel.device_time_s for kernel in self.kernels)

    @property
    def launches_s(self) -> list[float]:
        """The fixed cost of starting each kernel; a compiled graph pays it once, at its first."""
        return [
            0.0 if index and self.is_one_launch else kernel.launch_s
            for index, kernel in enumerate(self.kernels)
        ]

    @property
    def launch_s(self) -> float:
        """The fixed cost of starting the kernels."""
        return sum(self.launches_s)

    @property
    def flop(self) -> float:
        """Multiplications and additions of matrix products."""
        return sum(kernel.flop for kernel in self.kernels)


def time_of(call: DeviceCall, target: str) -> CallTime:
    """The time of a call on a chip; where it has none, `missing_reason` has the reason."""
    try:
        return call.time(target)
    except EmulatorError as error:
        return CallTime((), error.reason)
