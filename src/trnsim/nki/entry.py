"""AWS's entry points for running a kernel on a CPU: simulate, cpu_simulate, simulate_kernel.

They take and return numpy, torch or jax arrays. Code that AWS's simulator runs although its
compiler refuses it, and races between two cores, give warnings here, and errors in `trnsim.run`.

Source: nki.simulate; vllm-neuron's nki_cpu_simulator.md; nki-library's simulation_setup.py.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from trnsim.arch.environment import GENERATION_VARIABLE, simulated_target
from trnsim.errors import BadInput
from trnsim.nki.arguments import documented_in
from trnsim.nki.kernel import Kernel, emulate, jit


class SimulatedKernel:
    """A kernel that runs as on AWS's simulator; `simulated[2](...)` launches it on two cores."""

    def __init__(self, kernel: object, *variables: str) -> None:
        """A simulated kernel; `variables` are environment variables that may name the chip.

        Raises:
            BadInput: for a value that is no kernel.
        """
        if not isinstance(kernel, Kernel):
            raise BadInput(
                "nki.simulate without a kernel; legal: a kernel, or a function",
                fix="pass the kernel: nki.simulate(kernel)(x)",
                source="nki.simulate",
            )
        self._kernel = kernel
        self._variables = variables
        functools.update_wrapper(self, kernel)

    def __getitem__(self, grid: Any) -> SimulatedKernel:
        """The simulated kernel for a launch grid."""
        return SimulatedKernel(self._kernel[grid], *self._variables)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The kernel's result, in the kind of array of its arguments."""
        target = simulated_target(*self._variables)
        return emulate(self._kernel, args, kwargs, target=target, is_simulator=True).outputs


@documented_in("nki")
def simulate(kernel: Any) -> SimulatedKernel:
    """A callable that runs `kernel`, or `kernel[2]`; a plain function becomes a kernel first."""
    return SimulatedKernel(jit(kernel))


@documented_in("nki")
def cpu_simulate(kernel: Any) -> SimulatedKernel:
    """`simulate` of the package nki_cpu_simulator: NKI_NC_VERSION is read first.

    It is called as ``cpu_simulate(kernel)[cores](**kwargs)``.
    """
    return SimulatedKernel(jit(kernel), GENERATION_VARIABLE)


@documented_in("nki.simulator")
def simulate_kernel(
    func: Callable[..., Any],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    lnc: int = 1,
) -> Any:
    """`func(*args, **kwargs)` on `lnc` cores; it is also `nki.simulator.simulate_kernel`."""
    return simulate(func)[lnc](*args, **(kwargs or {}))
