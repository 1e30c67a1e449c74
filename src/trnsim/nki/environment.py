"""The environment variables of AWS's entry points, read whenever a kernel is called.

Source: nki_simulator.rst, Target Platform, Precise Floating-Point Mode; nki.jit.
"""

from __future__ import annotations

import os

from trnsim.arch import target
from trnsim.errors import BadInput

TARGET_VARIABLE = "NEURON_PLATFORM_TARGET_OVERRIDE"
GENERATION_VARIABLE = "NKI_NC_VERSION"  # of nki_cpu_simulator, which nki-library's harness sets
SIMULATOR_VARIABLE = "NKI_SIMULATOR"
PRECISION_VARIABLE = "NKI_PRECISE_FP"
CORES_VARIABLE = "NEURON_LOGICAL_NC_CONFIG"
TRANSPOSE_VARIABLE = "NKI_DMA_TRANSPOSE_AS_PE_TRANSPOSE"

_DEFAULT_TARGET = "trn3"  # nki_simulator.rst, Target Platform: unset means trn3
_NO = ("", "0", "false", "no")


def default_target(*first: str) -> str:
    """The target of AWS's own entry points: the first variable that is set, else trn3.

    Args:
        *first: variables to ask before NEURON_PLATFORM_TARGET_OVERRIDE and NKI_NC_VERSION.

    Raises:
        BadInput: where the variable names no generation.
    """
    for variable in (*first, TARGET_VARIABLE, GENERATION_VARIABLE):
        value = os.environ.get(variable)
        if value:
            try:
                return target(value).name
            except BadInput as error:
                raise BadInput(
                    f"${variable}: {error.reason}",
                    fix=f"set {variable}=trn2, or leave it unset for {_DEFAULT_TARGET}",
                    source=error.source,
                ) from None
    return _DEFAULT_TARGET


def asks_for_simulator() -> bool:
    """Whether NKI_SIMULATOR makes a plain call of a kernel run as on AWS's simulator."""
    return _is_on(SIMULATOR_VARIABLE, is_on_unset=False)


def is_precise() -> bool:
    """Whether low-precision floats are rounded as they are stored (NKI_PRECISE_FP, default yes)."""
    return _is_on(PRECISION_VARIABLE, is_on_unset=True)


def transposes_on_tensor_engine() -> bool:
    """Whether the compiler makes Tensor Engine transposes of the DMA's (unset: it does not)."""
    return _is_on(TRANSPOSE_VARIABLE, is_on_unset=False)


def check_logical_cores(title: str, cores: int) -> None:
    """A kernel's launch grid must be what NEURON_LOGICAL_NC_CONFIG says, where that is set.

    Raises:
        BadInput: where they differ, as the runtime would.
    """
    configured = os.environ.get(CORES_VARIABLE)
    if configured and configured != str(cores):
        raise BadInput(
            f"{title} is launched on {cores} cores, but {CORES_VARIABLE} is {configured}",
            fix=f"launch it as {title}[{configured}](...), or unset {CORES_VARIABLE}",
            source="nki.jit",
        )


def _is_on(variable: str, *, is_on_unset: bool) -> bool:
    value = os.environ.get(variable)
    return is_on_unset if value is None else value.lower() not in _NO
