"""Reads of a traced tensor's memory, which has no values: numpy would show whatever lies there."""

from __future__ import annotations

from typing import Any, Final

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.overrides import TorchFunctionMode

from trnsim.device.program_line import program_line
from trnsim.errors import BadInput

_READS: Final = {
    getattr(Tensor, name): name for name in ("numpy", "__array__", "tolist", "__dlpack__")
}
_Mode: Any = TorchFunctionMode


class RefusedHostReads(_Mode):  # type: ignore[misc]
    """A mode of a trace, in which a read of a traced tensor's memory is an error."""

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """The result of `func`.

        Raises:
            BadInput: `func` reads the memory of a traced tensor.
        """
        del types
        if func in _READS and _is_traced(args[0]):
            raise BadInput(
                f"tensor.{_READS[func]}() of a traced tensor of shape {list(args[0].shape)}, which "
                "has no values; legal: PyTorch's operators",
                fix="compute with torch; or float(tensor), whose value for the example is frozen; "
                "or outside the traced function",
                source="aws-neuron-sdk, PyTorch NeuronX Tracing API, Fixed Control Flow",
                line=program_line(),
            )
        return func(*args, **(kwargs or {}))


def _is_traced(tensor: Tensor) -> bool:
    return isinstance(tensor, FakeTensor) or torch._is_functional_tensor(tensor)  # noqa: SLF001  # pyright: ignore[reportPrivateImportUsage]
