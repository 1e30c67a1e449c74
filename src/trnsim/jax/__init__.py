"""A JAX platform "neuron", in pure Python.

`pip install 'trnsim[jax]'` gives JAX the devices of a chip: `jax.devices()` shows its NeuronCores,
and programs run unmodified. JAX finds the platform by itself (`trnsim.jax.autoload`), unless
TRNSIM_AUTOLOAD=0; JAX_PLATFORMS=cpu leaves it out of one run.

The package promises arrays on devices with the size of their HBM; the values that XLA computes on
the host, each operation rounded to its dtype (`fast`); the values of the chip's own program, with
its order of sums (`exact`); and that program's time. docs/limits.md lists its limits.

A device is a NeuronCore as AWS's runtime makes it (`trnsim.device.device_core`), under the same
variables as PyTorch's: NEURON_RT_VISIBLE_CORES, NEURON_RT_NUM_CORES, NEURON_LOGICAL_NC_CONFIG and
NEURON_PLATFORM_TARGET_OVERRIDE.
"""

from __future__ import annotations

from importlib import import_module
from typing import NoReturn

from trnsim.errors import EmulatorError


def initialize() -> None:
    """JAX's entry point for plugins: register the platform, unless it is to stay away.

    With a JAX outside the tested range nothing happens, until a program asks for the platform by
    name: then JAX shows the reason.
    """
    try:
        import_module("trnsim.jax.versions").check()
    except EmulatorError as error:
        _refuse(error)
        return
    if not import_module("trnsim.jax.autoload").stays_away():
        import_module("trnsim.jax.plugin").register()


def launch_kernels() -> None:
    """Launch NKI kernels on JAX's arrays from now on; not with a JAX outside the tested range.

    With such a JAX, kernels take its arrays as the host's.
    """
    try:
        import_module("trnsim.jax.versions").check()
    except EmulatorError:
        return
    import_module("trnsim.jax.launches").register()


def _refuse(error: EmulatorError) -> None:
    """Register a platform that raises `error` when it is asked for."""

    def refuse() -> NoReturn:
        raise error

    bridge = import_module("jax._src.xla_bridge")  # nothing else of JAX is certain here
    bridge.register_backend_factory("neuron", refuse, priority=-1, fail_quietly=True)
