"""The module that `import torch_xla` gives without the real package: the device is spelled "xla".

Source: torch_xla 2.9.0, torch_xla.py.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, Final

import torch

from trnsim.device.program_line import program_line
from trnsim.errors import BadInput, SourceLine
from trnsim.torch.api import device as device_module
from trnsim.user_warnings import warn
from trnsim.xla import ranks
from trnsim.xla.absent_names import absence_getter
from trnsim.xla.cuts.cutting import cuts
from trnsim.xla.cuts.ir_text import ir_text
from trnsim.xla.cuts.values import Place
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


class CompileRefused(BadInput, RuntimeError):
    """A step of a function from `compile` that breaks a limit which the call gave."""


__version__: Final = "2.9.0"
"""The release whose names these are: programs compare it."""


_ir_debug: Final = [False]


def _set_ir_debug(value: bool) -> None:
    """Keep the setting, which has no effect: reports have the lines of a program anyway."""
    _ir_debug[:] = [bool(value)]


def _get_ir_debug() -> bool:
    """The value that `_set_ir_debug` kept; False without a call of it."""
    return _ir_debug[0]


def _xla_sync_multi(
    tensors: list[torch.Tensor], devices: list[str], wait: bool = True, sync_xla_data: bool = True
) -> None:
    """Compute some tensors, which are data from then on."""
    del devices, wait, sync_xla_data
    cuts.sync(tensors, "_xla_sync_multi")


def _get_xla_tensors_text(tensors: list[torch.Tensor]) -> str:
    """The program that tensors need, as text."""
    return ir_text(cuts.program_of(tensors, "_get_xla_tensors_text"))


_absent_binding: Final = absence_getter("torch_xla._XLAC", "torch_xla._XLAC")


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
    """A context of one step: the step before it ends where the context begins."""
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

    Args:
        f: the function.
        full_graph: True to refuse a cut within the function.
        name: the function's name in errors; its own by default.
        num_different_graphs_allowed: most programs that the steps may have; None for any number.

    Raises:
        CompileRefused: when a step breaks one of these limits, at its end; at once for an `f` that
            is no function, or a number that is no whole number.
    """
    if f is not None and not callable(f):  # pyright: ignore[reportUnnecessaryComparison]  of a user
        raise CompileRefused(
            f"torch_xla.compile of {f!r:.60}; legal: a function, or None for a context",
            fix="torch_xla.compile(function), or with torch_xla.compile():",
            line=program_line(),
        )
    limit: Any = num_different_graphs_allowed
    if limit is not None and not isinstance(limit, int):
        raise CompileRefused(
            f"torch_xla.compile with num_different_graphs_allowed={limit!r:.60}; legal: a whole "
            "number, or None for any number of programs",
            fix="num_different_graphs_allowed=1",
            line=program_line(),
        )
    title = str(name or getattr(f, "__name__", "a step"))
    context = _limited_step(title, bool(full_graph), num_different_graphs_allowed, set())
    return context if f is None else context(f)


@contextmanager
def _limited_step(
    title: str, is_whole: bool, most_programs: int | None, programs: set[int]
) -> Generator[None]:
    """A step in one program if `is_whole`; `programs` are the numbers of all steps' programs."""
    sync()
    previous_executions = _executions()
    try:
        yield
        if is_whole:
            _refuse_cuts(title, _executions() - previous_executions)
    finally:
        sync()
    programs.update(number for _, _, number in _executions() - previous_executions)
    if most_programs is not None and len(programs) > most_programs:
        raise CompileRefused(
            f"torch_xla.compile of {title} with num_different_graphs_allowed={most_programs}: its "
            f"steps have {len(programs)} programs",
            fix="keep shapes and constants equal from call to call (trnsim run FILE --report DIR "
            "says what changed), or allow more",
            line=program_line(),
        )


def _executions() -> Counter[tuple[str, Place | None, int]]:
    """Number of executions so far, by (kind of the cut, line of the cut, number of the program)."""
    return Counter(
        {
            (cut.kind, cut.place, number): count
            for cut in cuts.ledger.cuts.values()
            for number, count in cut.executions.items()
        }
    )


def _refuse_cuts(title: str, executions: Counter[tuple[str, Place | None, int]]) -> None:
    """Refuse a step that was cut before its end."""
    for kind, place, _ in executions:
        line = SourceLine(*place) if place is not None else None
        raise CompileRefused(
            f"torch_xla.compile of {title} with full_graph=True: a value is read within it "
            f"({kind}), which cuts its program",
            fix="read it after the call, or leave full_graph out",
            line=line or program_line(),
        )


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


__getattr__ = absence_getter("torch_xla", __name__)
