"""The module that `import torch_xla` gives without the real package: the device is spelled "xla".

Source: torch_xla 2.9.0, torch_xla.py.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import wraps
from types import SimpleNamespace
from typing import Any, Final

import torch

from trnsim.torch.api import device as device_module
from trnsim.user_warnings import warn
from trnsim.xla import ranks
from trnsim.xla.absent_names import absent
from trnsim.xla.cuts.cutting import cuts
from trnsim.xla.cuts.ir_text import ir_text
from trnsim.xla.device_spelling import SPELLING, spell
from trnsim.xla.precision import VariableIgnored
from trnsim.xla.steps import step_closures

os.environ.setdefault("PJRT_DEVICE", "NEURON")  # NxD asks for it
if not os.environ["PJRT_DEVICE"].startswith("NEURON"):
    warn(
        f"PJRT_DEVICE={os.environ['PJRT_DEVICE']!r} has no effect: the device is a NeuronCore here"
        "\n  fix: PJRT_DEVICE=NEURON, or leave it out",
        VariableIgnored,
    )
ranks.map_launcher(os.environ)
spell()
cuts.begin()
ranks.register()

__version__: Final = "2.9.0"
"""The release whose names these are: programs compare it."""


_ir_debug: Final = [False]


def _set_ir_debug(value: bool) -> None:
    """Keep the setting, which has no effect: reports have the lines of a program anyway."""
    _ir_debug[:] = [bool(value)]


def _get_ir_debug() -> bool:
    """The setting."""
    return _ir_debug[0]


def _xla_sync_multi(
    tensors: list[torch.Tensor], devices: list[str], wait: bool = True, sync_xla_data: bool = True
) -> None:
    """Compute some tensors, which are data from then on."""
    del devices, wait, sync_xla_data
    cuts.sync(tensors, "_xla_sync_multi")


def _get_xla_tensors_text(tensors: list[torch.Tensor]) -> str:
    """The program that tensors need, as text."""
    return ir_text(cuts.program_of(tensors))


_absent_binding: Final = absent("torch_xla._XLAC", "torch_xla._XLAC")


class _Bindings(SimpleNamespace):
    """The names of torch_xla's module in C++ that programs call."""

    def __getattr__(self, name: str) -> Any:
        return _absent_binding(name)


_XLAC: Final = _Bindings(
    _set_ir_debug=_set_ir_debug,
    _get_ir_debug=_get_ir_debug,
    _xla_sync_multi=_xla_sync_multi,
    _get_xla_tensors_text=_get_xla_tensors_text,
)


def device(index: int | None = None) -> torch.device:
    """The device of this process; `index` is that of its core, 0 for None."""
    return torch.device(SPELLING, index or 0)


def devices() -> list[torch.device]:
    """The devices of this process."""
    return [device(index) for index in range(device_count())]


def real_devices() -> list[str]:
    """The devices of this process by the runtime's names."""
    return [f"NEURON:{index}" for index in range(device_count())]


def device_count() -> int:
    """The number of devices of this process."""
    return device_module.device_count()


def sync(wait: bool = False, reset_scope: bool = True) -> None:
    """End the step: everything is computed already, and the step's closures run."""
    del wait, reset_scope
    step_closures.end_step()


@contextmanager
def step() -> Generator[None]:
    """A context that is a step: the step before ends at its begin, and its own at its end."""
    sync()
    try:
        yield
    finally:
        sync()


def compile(  # noqa: A001  torch_xla's name
    f: Callable[..., Any] | None = None,
    full_graph: bool | None = False,
    name: str | None = None,
    num_different_graphs_allowed: int | None = None,
) -> Any:
    """A function whose every call is a step; without `f` a context of a step.

    The function runs operator by operator, so limits on its programs hold without a check.
    """
    del full_graph, name, num_different_graphs_allowed
    if f is None:
        return step()
    function = f

    @wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        with step():
            return function(*args, **options)

    return call


def manual_seed(seed: int, device: Any = None) -> None:
    """Seed the device."""
    from trnsim.xla.by_name.core import xla_model  # noqa: PLC0415  it imports this module

    xla_model.set_rng_state(seed, device)


def launch(
    fn: Callable[..., Any],
    args: tuple[Any, ...] = (),
    start_method: str = "spawn",
    debug_single_process: bool = False,
) -> None:
    """`fn(index, *args)` in this process if torchrun started it, else in processes started here."""
    from trnsim.xla.by_name.distributed import xla_multiprocessing  # noqa: PLC0415  likewise

    if _is_launched():
        fn(ranks.local_ordinal(), *args)
    else:
        count = 1 if debug_single_process else None
        xla_multiprocessing.spawn(fn, args, nprocs=count, start_method=start_method)


def _is_launched() -> bool:
    """True in a process that torchrun has started."""
    return torch.distributed.is_available() and torch.distributed.is_torchelastic_launched()


__getattr__ = absent("torch_xla", __name__)
