# Made by docs/makers/stubs.py from trnsim's own modules.
from . import collectives as collectives
from . import compiler as compiler
from . import isa as isa
from . import language as language
from . import typing as typing
from trnsim.nki.kernel import Kernel as Kernel
from trnsim.nki.tensor import NkiTensor as NkiTensor
from typing import Any

def cpu_simulate(kernel: Any) -> Any:
    """`simulate` of the package nki_cpu_simulator: NKI_NC_VERSION is read first.

    It is called as ``cpu_simulate(kernel)[cores](**kwargs)``.
    """
    ...
def jit(fn: Any = None, *, compile_config: Any = None, specialization_config: Any = None, **kwargs: Any) -> Any:
    """`@nki.jit` or `@nki.jit(...)`: a decorator that makes a function a kernel.

    Args:
        fn: the function.
        compile_config: a `nki.compiler.CompileConfig`: options of AWS's compiler.
        specialization_config: a `nki.compiler.SpecializationConfig`.
        **kwargs: options of older versions (mode, debug_kernel, experimental_flags ...), which are
            stored in `Kernel.options` without effect.

    Source: nki.jit.

    Raises:
        IllegalInstruction: for platform_target, if the user has chosen a version that lacks it.
        BadInput: for unknown options.
    """
    ...
def simulate(kernel: Any) -> Any:
    """A callable that runs `kernel`, or `kernel[2]`; a plain function becomes a kernel first."""
    ...
def __getattr__(name: str) -> Any: ...
