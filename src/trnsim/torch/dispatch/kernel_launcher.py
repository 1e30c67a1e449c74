"""The launcher of `@nki.jit` kernels on neuron tensors, which NKI receives when it is imported.

`trnsim.torch.dispatch.launches` is imported with the first call: it imports NKI and other packages,
which may be partly initialized while they import NKI.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trnsim.torch.clients.imports import when_imported

if TYPE_CHECKING:
    from types import ModuleType

    from trnsim.nki.kernel import Kernel


def register() -> None:
    """Launch kernels on neuron tensors, as soon as NKI is imported."""
    when_imported("trnsim.nki.kernel", _add_launcher)


def _add_launcher(module: ModuleType) -> None:
    # First: PyTorch's compiler cannot trace the launcher of another framework.
    module.launchers.insert(0, launch)


def launch(kernel: Kernel, args: Any, kwargs: Any) -> Any:
    """`kernel(*args, **kwargs)`; NotImplemented if no argument is a neuron tensor.

    PyTorch's compiler traces this function.
    """
    from trnsim.torch.dispatch import launches  # noqa: PLC0415  see above

    return launches.launch(kernel, args, kwargs)
