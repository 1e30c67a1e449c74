"""The environment variables of AWS's entry points, read whenever a kernel is called.

Source: nki_simulator.rst, Target Platform, Precise Floating-Point Mode; nki.jit.
"""

from __future__ import annotations

import os

from trnsim.arch.availability import INSTANCE_VARIABLE, configured_cores
from trnsim.arch.catalogue import catalogue
from trnsim.arch.targets import TARGETS, target
from trnsim.errors import BadInput
from trnsim.formatting import counted

TARGET_VARIABLE = "NEURON_PLATFORM_TARGET_OVERRIDE"
GENERATION_VARIABLE = "NKI_NC_VERSION"  # of nki_cpu_simulator, which nki-library's harness sets
SIMULATOR_VARIABLE = "NKI_SIMULATOR"
PRECISION_VARIABLE = "NKI_PRECISE_FP"
TRANSPOSE_VARIABLE = "NKI_DMA_TRANSPOSE_AS_PE_TRANSPOSE"

DEFAULT_TARGET = "trn2"
SIMULATED_TARGET = "trn3"
"""The chip of AWS's simulator; nki_simulator.rst, Target Platform: unset means trn3."""
_NO = ("", "0", "false", "no")


def default_target(platform: str = "") -> str:
    """The target of a call that names none: the first that is set of the following.

    1. The target that NEURON_PLATFORM_TARGET_OVERRIDE or NKI_NC_VERSION names.
    2. `platform`.
    3. The chip of TRNSIM_INSTANCE.
    4. The default: trn2, or trn3 if NKI_SIMULATOR is set.

    Args:
        platform: the platform_target of `nki.jit`, or "".

    Raises:
        BadInput: where a variable names no generation, or no instance that is emulated.
    """
    default = SIMULATED_TARGET if asks_for_simulator() else DEFAULT_TARGET
    platform_target = target(platform).name if platform else None
    return _named_target() or platform_target or instance_target() or default


def simulated_target(*variables: str) -> str:
    """The target of AWS's simulator: that of the first variable that is set, else trn3.

    Args:
        *variables: names of variables that are read before NEURON_PLATFORM_TARGET_OVERRIDE and
            NKI_NC_VERSION.

    Raises:
        BadInput: where the variable names no generation.
    """
    return _named_target(*variables, default=SIMULATED_TARGET) or SIMULATED_TARGET


def chosen_target() -> tuple[str, str]:
    """The target of `trnsim run` and of PyTorch's device, and the reason for it.

    Raises:
        BadInput: where a variable names no generation, or no instance that is emulated.
    """
    variable = _first_set_variable()
    if variable is None:
        name = instance_target()
        if name is not None:
            return name, INSTANCE_VARIABLE
        return DEFAULT_TARGET, f"the default; {TARGET_VARIABLE} names another"
    return _named_target() or DEFAULT_TARGET, variable


def instance_target() -> str | None:
    """The target of the chip of TRNSIM_INSTANCE; None if it is not set.

    Raises:
        BadInput: there is no such instance, or nothing runs on its chip.
    """
    name = os.environ.get(INSTANCE_VARIABLE)
    if not name:
        return None
    rows = catalogue()
    chip = rows.instance(name).accelerator
    targets = {target.chip: target.name for target in TARGETS.values()}
    if chip not in targets:
        is_neuron = chip in rows.chips
        legal = [row.name for row in rows.instances.values() if row.accelerator in targets]
        reason = "a chip that is catalogued and not emulated" if is_neuron else "no Neuron devices"
        raise BadInput(
            f"{INSTANCE_VARIABLE}={name} has {chip.capitalize()}, {reason}; legal: "
            f"{', '.join(legal)}",
            fix=f"unset {INSTANCE_VARIABLE}, or name one of these",
        )
    return targets[chip]


def _first_set_variable(*variables: str) -> str | None:
    """The first of `variables` and of AWS's two variables of a target that is set, or None."""
    names = (*variables, TARGET_VARIABLE, GENERATION_VARIABLE)
    return next((name for name in names if os.environ.get(name)), None)


def _named_target(*variables: str, default: str = DEFAULT_TARGET) -> str | None:
    """The target that the first set variable names, or None if none is set."""
    variable = _first_set_variable(*variables)
    if variable is None:
        return None
    try:
        return target(os.environ[variable]).name
    except BadInput as error:
        raise BadInput(
            f"${variable}: {error.reason}",
            fix=f"set {variable}={DEFAULT_TARGET}, or leave it unset for {default}",
            source=error.source,
        ) from None


def asks_for_simulator() -> bool:
    """True if NKI_SIMULATOR makes a plain call of a kernel run as on AWS's simulator."""
    return _is_on(SIMULATOR_VARIABLE, is_on_unset=False)


def is_precise(*, is_on_unset: bool = True) -> bool:
    """True if low-precision floats are rounded when stored (NKI_PRECISE_FP)."""
    return _is_on(PRECISION_VARIABLE, is_on_unset=is_on_unset)


def transposes_on_tensor_engine() -> bool:
    """True if the compiler turns DMA transposes into Tensor Engine transposes (default no)."""
    return _is_on(TRANSPOSE_VARIABLE, is_on_unset=False)


def check_logical_cores(title: str, cores: int) -> None:
    """Check a kernel's launch grid against NEURON_LOGICAL_NC_CONFIG, where that is set.

    Raises:
        BadInput: if they differ, which is an error of the runtime too.
    """
    name, configured = configured_cores() or ("", "")
    if configured and configured != str(cores):
        raise BadInput(
            f"{title} is launched on {counted(cores, 'core')}, but {name} is {configured}",
            fix=f"launch it as {title}[{configured}](...), or unset {name}",
            source="nki.jit",
        )


def _is_on(variable: str, *, is_on_unset: bool) -> bool:
    value = os.environ.get(variable)
    return is_on_unset if value is None else value.lower() not in _NO
