"""The PJRT plugin of the platform "neuron": its registration with JAX, and its end at exit."""

from __future__ import annotations

import atexit
from importlib import import_module
from typing import Final

import jax
from jax.extend.backend import clear_backends

from trnsim.device import rank_figures
from trnsim.device.call_log import record_whole_program
from trnsim.device.program_line import exclude_frames
from trnsim.jax import dlpack, private
from trnsim.jax.host_client import host
from trnsim.jax.pjrt import events, interrupts
from trnsim.jax.pjrt.table import FunctionTable
from trnsim.jax.processes import leave_processes

_PRIORITY: Final = 500
"""Above JAX's own, so that neuron is the default backend. Source: jax/_src/xla_bridge.py: CPU 0,
TPU 300, other plugins 400."""
_SLOT_MODULES: Final = (
    *("buffers", "calls", "client", "devices", "errors", "events", "executables", "memories"),
    "topology",
)
"""The modules of `trnsim.jax.pjrt` that declare slots of the table."""
_registered_tables: Final[list[FunctionTable]] = []
"""The table, which must live as long as the process; none before `register`."""


def register() -> None:
    """Register the platform "neuron" with JAX; a second call does nothing."""
    if _registered_tables:
        return
    exclude_frames(jax)
    record_whole_program()
    rank_figures.write_at_end()
    for name in _SLOT_MODULES:
        import_module(f"trnsim.jax.pjrt.{name}")
    table = FunctionTable()
    _registered_tables.append(table)
    private.register(table.capsule(), _PRIORITY)
    private.lower_decompositions()
    private.lower_placements()
    private.install_dlpack(dlpack.capsule_of_copy, dlpack.capsule_device)
    private.lower_callbacks(lambda: host().client)
    interrupts.install_handler()
    atexit.register(_shut_down)


def _shut_down() -> None:
    """Free the objects that C++ holds, and disable the table, while Python can still run."""
    if private.client() is not None:
        clear_backends()  # type: ignore[no-untyped-call]
    events.drain()
    leave_processes()
    _registered_tables[0].neutralise()
