"""Loops: Python's, which are unrolled while tracing, and loops that run on the device.

A device loop's variable is a register that only the loop sets. Its bounds may be registers too.

Source: nki.language.dynamic_range, fori_loop, while_loop, no_reorder.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any

from trnsim.errors import IllegalInstruction, NotModelled
from trnsim.isa import VirtualRegister
from trnsim.isa.control import register
from trnsim.nki.arguments import integers
from trnsim.program import current_core, has_current_core

# Every loop over compile-time bounds is unrolled while the kernel is traced.
sequential_range = range
static_range = range

Bound = int | VirtualRegister
_is_ordered: ContextVar[bool] = ContextVar("trnsim_nki_is_ordered", default=False)


class affine_range(Sequence[int]):  # noqa: N801  AWS's name
    """`range` whose iterations are declared independent; `Run.warnings` reports dependences.

    Source: nki-dynamic-loops.rst, affine_range.
    """

    def __init__(self, start: int, stop: int | None = None, step: int = 1) -> None:
        first, last = (0, start) if stop is None else (start, stop)
        bounds = integers("nl.affine_range", first, last, step, source="nki.language.affine_range")
        self._range = range(*bounds)

    def __iter__(self) -> Iterator[int]:
        watcher = current_core().loops if has_current_core() else None
        if watcher is None:
            yield from self._range
            return
        with watcher.loop() as running:
            for i in self._range:
                watcher.iterate(running)
                yield i

    def __len__(self) -> int:
        return len(self._range)

    def __getitem__(self, index: Any) -> Any:
        """The element or slice, as of a range."""
        return self._range[index]


def dynamic_range(
    start: Bound, stop: Bound | None = None, step: int = 1
) -> Generator[VirtualRegister]:
    """A loop on the device: a register for each of range(start, stop, step).

    Raises:
        IllegalInstruction: for a step that is not a positive integer.
        NotModelled: for more turns than `register.LONGEST_LOOP`.
    """
    first, last = (0, start) if stop is None else (start, stop)
    if not hasattr(step, "__index__") or isinstance(step, VirtualRegister) or step < 1:
        raise IllegalInstruction(
            f"a device loop with step {step}; legal: a positive integer known at compile time",
            fix="count up by a constant, and compute the index from it",
            source="nki.language.fori_loop, step",
        )
    _refuse_reordering("a device loop")
    bounds = (
        bound.value if isinstance(bound, VirtualRegister) else bound for bound in (first, last)
    )
    turns = range(*integers("a device loop", *bounds, step, source="nki.language.dynamic_range"))
    if turns[register.LONGEST_LOOP :]:
        raise NotModelled(
            f"a device loop over {turns}; emulated: up to {register.LONGEST_LOOP:,} turns",
            fix="check what was loaded into the registers of its bounds, or run fewer turns",
            source="nki.language.fori_loop",
        )
    return _registers(turns)


def fori_loop(
    lower: Bound, upper: Bound, body_fun: Callable[[VirtualRegister], object], step: int = 1
) -> None:
    """`body_fun(i)` on the device for each i of range(lower, upper, step).

    The register is passed by value: writes of the body to it have no effect on the loop.
    """
    _check_body("fori_loop", body_fun)
    for turn in dynamic_range(lower, upper, step):
        body_fun(VirtualRegister(turn.value))


def while_loop(init: VirtualRegister, body_fun: Callable[[VirtualRegister], object]) -> None:
    """`register = body_fun(register)` on the device while the register is not zero.

    The register is passed by value: `init` keeps its value.

    Raises:
        IllegalInstruction: if the body does not return a register.
        NotModelled: if the loop does not end (`register.LONGEST_LOOP`).
    """
    _refuse_reordering("a device loop")
    _check_body("while_loop", body_fun)
    condition = _condition(init)
    for _ in range(register.LONGEST_LOOP):
        if not condition:
            return
        condition = _condition(body_fun(condition.copied()))
    if condition:
        register.refuse_endless("nl.while_loop", condition)


@contextmanager
def no_reorder() -> Generator[None]:
    """Context in which instructions are timed in program order under every order policy.

    Device loops are refused inside.
    """
    token = _is_ordered.set(True)
    try:
        with current_core().in_order() if has_current_core() else nullcontext():
            yield
    finally:
        _is_ordered.reset(token)


def _condition(value: object) -> VirtualRegister:
    if not isinstance(value, VirtualRegister):
        raise IllegalInstruction(
            f"while_loop with a condition of type {type(value).__name__}; legal: a "
            "register, and a body that returns the next one",
            fix="end the body with: nisa.register_load(r, flag); return r",
            source="nki.language.while_loop",
        )
    return value


def _check_body(loop: str, body: object) -> None:
    if not callable(body):
        raise IllegalInstruction(
            f"{loop} with a body of type {type(body).__name__}; legal: a function",
            fix="pass a function of the loop's register",
            source=f"nki.language.{loop}",
        )


def _registers(turns: range) -> Generator[VirtualRegister]:
    for value in turns:
        yield VirtualRegister(value, frozen=True)


def _refuse_reordering(construct: str) -> None:
    if _is_ordered.get():
        raise IllegalInstruction(
            f"{construct} inside nl.no_reorder(); legal: nl.affine_range, nl.sequential_range, "
            "nl.static_range",
            fix="unroll the loop, or leave no_reorder before it",
            source="nki.language.no_reorder",
        )
