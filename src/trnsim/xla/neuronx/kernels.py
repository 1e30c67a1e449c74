"""`nki_jit`: the older spelling of `nki.jit` in programs of torch_xla.

Kernels of NKI 0.2 and later run on tensors of the device and in traced programs, and are timed
there. Those of the first generation, `neuronxcc.nki`, are refused by name.

Source: aws-neuron-sdk about-neuron/announcements/neuron2.x/announce-no-support-nki-jit-torch.rst.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from trnsim import nki
from trnsim.device.program_line import program_line
from trnsim.errors import NotModelled
from trnsim.nki.kernel import Kernel

_SOURCE: Final = "aws-neuron-sdk, announce-no-support-nki-jit-torch.rst"
_FIRST_GENERATION: Final = "neuronxcc"


class KernelRefused(NotModelled, TypeError):
    """A kernel of the first generation of NKI."""


def nki_jit(func: Callable[..., Any] | None = None, **options: Any) -> Any:
    """The kernel of `func`, or a decorator if it is None. `options` of older releases do nothing.

    Raises:
        KernelRefused: for a kernel of `neuronxcc.nki`.
    """
    del options
    if func is None:
        return nki_jit
    if isinstance(func, Kernel):
        return func
    function = getattr(func, "func", func)
    module = str(getattr(function, "__module__", ""))
    if module.partition(".")[0] == _FIRST_GENERATION:
        raise KernelRefused(
            f"nki_jit of {module}.{getattr(function, '__name__', function)}, a kernel of NKI 0.1",
            fix="use its successor of nkilib or nki-samples, written for nki.jit",
            source=_SOURCE,
            line=program_line(),
        )
    return nki.jit(function)
