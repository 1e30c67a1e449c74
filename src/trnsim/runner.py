"""`trnsim.run`: one call that runs a kernel, on one rank or several, and returns its `Run`."""

from __future__ import annotations

import inspect
from collections.abc import Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, Literal, cast, overload

from trnsim import arch
from trnsim.behaviours.chosen import pinned
from trnsim.context_values import context_value
from trnsim.errors import BadInput
from trnsim.program import current_core, has_current_core
from trnsim.runs import (
    OBSERVERS,
    Launchable,
    Run,
    check_kernel_kwargs,
    collect,
    launch,
    warn_of_overfull,
)

if TYPE_CHECKING:
    from trnsim.worlds import Inputs, World


@overload
def run(
    kernel: Launchable | object,
    *args: Any,
    ranks: None = None,
    target: str = ...,
    numerics: bool = ...,
    races: Literal["raise", "warn"] = ...,
    capacity: Literal["spill", "raise", "warn"] = ...,
    order: Literal["compiler", "issued"] | None = ...,
    nki: str | None = ...,
    kernel_kwargs: Mapping[str, Any] | None = ...,
    **kwargs: Any,
) -> Run: ...
@overload
def run(
    kernel: Launchable | object,
    *args: Any,
    ranks: int,
    inputs: Inputs = ...,
    lnc: int | None = ...,
    instance: str | None = ...,
    target: str = ...,
    numerics: bool = ...,
    races: Literal["raise", "warn"] = ...,
    capacity: Literal["spill", "raise", "warn"] = ...,
    order: Literal["compiler", "issued"] | None = ...,
    nki: str | None = ...,
    kernel_kwargs: Mapping[str, Any] | None = ...,
    **kwargs: Any,
) -> World: ...
def run(
    kernel: Launchable | object,
    *args: Any,
    ranks: int | None = None,
    target: str = "trn2",
    numerics: bool = True,
    races: Literal["raise", "warn"] = "raise",
    capacity: Literal["spill", "raise", "warn"] = "spill",
    order: Literal["compiler", "issued"] | None = None,
    nki: str | None = None,
    kernel_kwargs: Mapping[str, Any] | None = None,
    **kwargs: Any,
) -> Run | World:
    """Run `kernel` on an emulated NeuronCore: compute its outputs and estimate its time.

    Args:
        kernel: an `@nki.jit` kernel.
        *args: its arguments; numpy and torch arrays become tensors in HBM.
        ranks: number of ranks that run it and exchange tensors by `nki.collectives`; the result is
            then a `World`. Three more keywords go with it: `inputs`, a tuple of positional
            arguments for each rank or a function of its number that returns it, in place of
            `*args`; `lnc`, the NeuronCores of a rank, which must agree with the kernel's grid;
            and `instance`, the instance type of the ranks, such as "trn2.48xlarge".
        target: the chip, a name of `arch.TARGETS`: "trn2".
        numerics: False to get instructions and times without computing values.
        races: "raise" an error on a data race between two cores, or "warn" and go on.
        capacity: where live tensors exceed SBUF or PSUM, "spill" tensors to the next memory, as
            AWS's compiler does (memory-hierarchy-overview.rst; its choice is not public), and
            warn; "raise" an error; or "warn" and go on as if spills took no time.
        order: "compiler" (the default) to time an engine's instructions in an order that AWS's
            compiler might give them, "issued" in the order of the kernel; values are the same.
        nki: the version of NKI whose rules the kernel follows, "0.2" to "0.7"; by default that of
            a line ``# nki: 0.4`` in its file, of the variable TRNSIM_NKI, or the newest in which
            every form that the file uses exists.
        kernel_kwargs: keyword arguments of the kernel whose names clash with those of `run`.
        **kwargs: the kernel's other keyword arguments.

    Raises:
        BadInput: for any other `numerics`, `races`, `capacity`, `order` or `nki`, or for kernel[2]
            on a chip without logical cores.
        EmulatorError: where the chip or its compiler would refuse the kernel; names its line.
    """
    kernel = _launchable(kernel)
    if has_current_core():
        current_core().refuse_capture("it runs another kernel by trnsim.run")
    _check_options(numerics, kernel_kwargs)
    chip = arch.target(target)
    options = {"numerics": numerics, "races": races, "capacity": capacity, "order": order}
    with pinned(nki, f"run(nki={nki!r})"):
        if ranks is None:
            _check_keywords(kernel, kwargs)
            arguments = {**kwargs, **(kernel_kwargs or {})}
            result = observed_run(kernel, args, arguments, chip, **options)
            warn_of_overfull(result)
            return result
        world_options = {name: kwargs.pop(name) for name in _WORLD_KEYWORDS if name in kwargs}
        arguments = {**kwargs, **(kernel_kwargs or {})}
        return _run_on_ranks(kernel, args, arguments, chip, ranks=ranks, **options, **world_options)


def _check_options(numerics: object, kernel_kwargs: object) -> None:
    """Refuse `numerics` other than True and False, and `kernel_kwargs` that are no mapping.

    Raises:
        BadInput: says what is legal.
    """
    if not isinstance(numerics, bool):
        raise BadInput(
            f"run(numerics={numerics!r}); legal: True, to compute values, or False",
            fix="leave it out; numerics=False gives instructions and times alone",
        )
    check_kernel_kwargs("run", kernel_kwargs)


def _check_keywords(kernel: Launchable, kwargs: Mapping[str, Any]) -> None:
    """Refuse keywords that go with `ranks`, unless the kernel has parameters of their names.

    Raises:
        BadInput: says what the keyword is for and what to write.
    """
    world_keywords = kwargs.keys() & _WORLD_KEYWORDS
    if not world_keywords or not callable(kernel):
        return
    parameters = inspect.signature(kernel).parameters
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        return
    for name in sorted(world_keywords - parameters.keys()):
        raise BadInput(
            f"run({name}=) without ranks=, and {kernel.title} has no parameter "
            f"{name}: it is {_WORLD_KEYWORDS[name][0]}",
            fix=f"write ranks= too, or {_WORLD_KEYWORDS[name][1]}",
        )


def _launchable(kernel: object) -> Launchable:
    """`kernel`, if it can be launched; types are cached, as a check of the protocol is slow.

    Raises:
        BadInput: for any other object.
    """
    kind = type(kernel)
    if kind not in _LAUNCHABLE_TYPES:
        if not isinstance(kernel, Launchable):
            raise BadInput(
                f"run was given {kernel!r}; legal: a kernel",
                fix="decorate the function with @nki.jit",
            )
        _LAUNCHABLE_TYPES.add(kind)
    return cast("Launchable", kernel)


def observed_run(
    kernel: Launchable,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    chip: arch.Target,
    **options: Any,
) -> Run:
    """The run of a kernel on one rank; observers and `collecting` blocks receive it.

    Its arguments are those of `launch`.
    """
    OBSERVERS.begins()
    try:
        result = collect(launch(kernel, args, kwargs, chip, **options, on_start=OBSERVERS.issues))
        OBSERVERS.ended(result)
    finally:
        OBSERVERS.all_over()
    return result


_LAUNCHABLE_TYPES: Final[set[type]] = set()
"""Types of kernels that ran."""

_WORLD_KEYWORDS: Final = {
    "inputs": ("the arguments of each rank", "pass the arguments themselves"),
    "lnc": ("the NeuronCores of a rank", "run kernel[2] for both cores of a logical one"),
    "instance": ("the instance type of the ranks", "target= for the chip alone"),
}
"""Keywords that `run` takes only beside `ranks`: the meaning, and what to write without `ranks`."""


def _run_on_ranks(kernel: Launchable, *args: Any, **options: Any) -> World:
    """The run of a kernel on ranks, added to the lists of the surrounding `collecting` blocks."""
    from trnsim.worlds import run_world  # noqa: PLC0415  few kernels run on ranks

    world = run_world(kernel, *args, **options)
    collect(world.runs[0])
    warn_of_overfull(world.runs[0])
    worlds = _worlds.get()
    if worlds is not None:
        worlds.append(world)
    return world


_ranks_of_block: ContextVar[tuple[int, str | None] | None] = ContextVar(
    "trnsim_ranks", default=None
)


def on_ranks(ranks: int | None, instance: str | None) -> AbstractContextManager[None]:
    """In this block, kernels that are called run on `ranks` ranks, each with the same arguments.

    A call returns the outputs of rank 0. Without `ranks` nothing changes.
    """
    return context_value(_ranks_of_block, None if ranks is None else (ranks, instance))


def run_of_call(kernel: Launchable, args: Sequence[Any], **options: Any) -> Run:
    """The run of a kernel that is called: that of rank 0 in an `on_ranks` block."""
    setting = _ranks_of_block.get()
    if setting is None:
        single: Run = run(kernel, *args, **options)
        return single
    ranks, instance = setting
    world: World = run(kernel, *args, ranks=ranks, instance=instance, **options)
    return world.runs[0]


_worlds: ContextVar[list[World] | None] = ContextVar("trnsim_worlds", default=None)


@contextmanager
def collecting_worlds() -> Generator[list[World]]:
    """A list that receives every run on ranks made in this block, in order."""
    worlds: list[World] = []
    with context_value(_worlds, worlds):
        yield worlds
