"""Loops: Python's, which are unrolled while tracing, and loops that run on the device.

A device loop's variable is a register or a scalar that only the loop sets. Its bounds may be
registers and scalars too.

Not modelled: the time that a loop waits for its bounds. An instruction that uses the loop's
variable waits for the bounds if the variable is a scalar.

Source: nki.language.dynamic_range, fori_loop, while_loop, no_reorder.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any, Final, NoReturn

from trnsim.behaviours.language import (
    DYNAMIC_LOOPS_WARN,
    DYNAMIC_VARIABLE_IS_REGISTER,
    LOOP_VARIABLE_COMPUTES,
)
from trnsim.behaviours.scalars import FORI_GIVES_SCALARS, RANGES_ARE_PYTHONS
from trnsim.context_values import context_value
from trnsim.dtypes import INT32
from trnsim.errors import EmulatorError, IllegalInstruction, NotModelled
from trnsim.isa import Scalar, VirtualRegister
from trnsim.isa.control import register
from trnsim.nki.arguments import documented, documented_class, integers
from trnsim.nki.dialect import follows, running_version
from trnsim.nki.loop_bodies import check_call, check_end_of_turn
from trnsim.nki.registers import warn_of_removal
from trnsim.nki.scalars import NkiScalar, in_turn, require_in_turn
from trnsim.program import current_core, has_current_core

Bound = int | VirtualRegister | NkiScalar
"""A bound of a device loop."""
_INT32_END: Final = 2**31
_is_ordered: ContextVar[bool] = ContextVar("trnsim_nki_is_ordered", default=False)
"""True inside `no_reorder`."""


@documented
def sequential_range(start: int, stop: int | None = None, step: int = 1) -> range:
    """Python's `range`: every loop over it is unrolled while the kernel is traced."""
    return _python_range("sequential_range", start, stop, step)


@documented
def static_range(start: int, stop: int | None = None, step: int = 1) -> range:
    """Python's `range`: every loop over it is unrolled while the kernel is traced."""
    return _python_range("static_range", start, stop, step)


def _python_range(name: str, start: Any, stop: Any, step: Any) -> range:
    """The range of these bounds, as Python reads them.

    Raises:
        IllegalInstruction: for a bound that is no whole number, and for step 0.
    """
    bounds = (0, start, step) if stop is None else (start, stop, step)
    source = f"nki.language.{name}"
    try:
        return range(*bounds)
    except EmulatorError:  # of a register or a scalar, which is also a TypeError
        raise
    except TypeError:
        integers(f"nl.{name}", *bounds, source=source)
        raise
    except ValueError:
        raise IllegalInstruction(
            f"nl.{name}{bounds}; legal: a step other than 0",
            fix="leave the step out: it is 1",
            source=source,
        ) from None


@documented_class("nl.affine_range")
class affine_range(Sequence[int]):  # noqa: N801  AWS's name
    """`range` whose iterations are declared independent; `Run.warnings` reports dependences.

    From NKI 0.7 on a call returns Python's range.

    Source: nki-dynamic-loops.rst, affine_range; nki/deep-dives/nki-loops.
    """

    def __new__(cls, start: int, stop: int | None = None, step: int = 1) -> Any:
        """Python's `range`, if the running kernel's version has no class of its own."""
        first, end = (0, start) if stop is None else (start, stop)
        bounds = integers("nl.affine_range", first, end, step, source="nki.language.affine_range")
        turns = _python_range("affine_range", *bounds)
        if has_current_core() and follows(RANGES_ARE_PYTHONS):
            return turns
        instance = super().__new__(cls)
        instance._range = turns
        return instance

    _range: range

    def __iter__(self) -> Iterator[int]:
        watcher = current_core().loops if has_current_core() else None
        if watcher is None:
            yield from self._range
            return
        with watcher.loop() as loop:
            for i in self._range:
                watcher.iterate(loop)
                yield i

    @property
    def span(self) -> slice:
        """The equivalent slice, where the range indexes a tensor."""
        return slice(self._range.start, self._range.stop, self._range.step)

    def __len__(self) -> int:
        return len(self._range)

    def __getitem__(self, index: Any) -> Any:
        """The element or the slice that Python's range has at `index`."""
        return self._range[index]


@documented
def dynamic_range(
    start: Bound, stop: Bound | None = None, step: int = 1
) -> Generator[VirtualRegister]:
    """A loop on the device: a register for each of range(start, stop, step).

    NKI 0.6 warns of it, NKI 0.7 refuses it. Before NKI 0.4 its variable cannot be the offset of an
    access pattern.

    Raises:
        IllegalInstruction: for a step that is not a positive integer.
        NotModelled: for more turns (iterations) than `register.LONGEST_LOOP`.
    """
    if has_current_core() and follows(DYNAMIC_LOOPS_WARN):
        warn_of_removal("nl.dynamic_range")
    first, end = (0, start) if stop is None else (start, stop)
    turns = _turns("nl.dynamic_range", first, end, step)
    is_offset = not has_current_core() or follows(DYNAMIC_VARIABLE_IS_REGISTER)
    return _loop_registers(turns, is_offset=is_offset)


@documented
def fori_loop(lower: Bound, upper: Bound, body_fun: Callable[[Any], object], step: int = 1) -> None:
    """`body_fun(i)` on the device for each i of range(lower, upper, step).

    i is an NkiScalar of int32, or a VirtualRegister if a bound is one. In NKI 0.6 it is always a
    register, and refuses arithmetic. It is passed by value: writes of the body to it have no effect
    on the loop. Tensors that the body allocates end with the loop.

    Args:
        lower: the first value: an integer, a register or an int32 scalar.
        upper: the end of the values, exclusive; of the same types.
        body_fun: a function of i that returns nothing.
        step: a positive integer that is known when the kernel is compiled.

    Raises:
        IllegalInstruction: for other bounds (such as int64 scalars) and other steps, for a body
            that returns something, and inside nl.no_reorder.
        NotModelled: for more turns than `register.LONGEST_LOOP`.
    """
    _check_body("fori_loop", body_fun)
    turns = _turns("nl.fori_loop", lower, upper, step)
    bounds = (lower, upper)
    origins = tuple(origin for bound in bounds for origin in getattr(bound, "origins", ()))
    gives_registers = any(isinstance(bound, VirtualRegister) for bound in bounds)
    gives_registers = gives_registers or not follows(FORI_GIVES_SCALARS)
    register_kind = VirtualRegister if follows(LOOP_VARIABLE_COMPUTES) else _LoopVariable
    with _body("nl.fori_loop") as begin_turn:
        for turn in turns:
            begin_turn()
            with in_turn():
                if gives_registers:
                    result = body_fun(register_kind(turn))
                else:
                    result = body_fun(NkiScalar.of_value(turn, origins))
            if result is not None:
                _refuse_result(result)
            _end_turn()


@documented
def while_loop(init: VirtualRegister, body_fun: Callable[[VirtualRegister], object]) -> None:
    """`register = body_fun(register)` on the device while the register is not zero.

    The register is passed by value: `init` keeps its value. Tensors that the body allocates end
    with the loop.

    Raises:
        IllegalInstruction: if the body does not return a register.
        NotModelled: if the loop does not end (`register.LONGEST_LOOP`), or for a scalar.
    """
    _refuse_reordering("a device loop")
    _check_body("while_loop", body_fun)
    condition = _condition(init)
    _check_loop("nl.while_loop")
    with _body("nl.while_loop") as begin_turn:
        for _ in range(register.LONGEST_LOOP):
            if not condition.is_true():
                return
            begin_turn()
            with in_turn():
                result = body_fun(condition.duplicate())
            condition = _condition(result)
            _end_turn()
    if condition.is_true():
        register.refuse_endless("nl.while_loop", condition)


@documented
@contextmanager
def no_reorder() -> Generator[None]:
    """Context in which instructions, also of functions that are called, are issued in order.

    Each engine, and the DMA queues together, start instructions of the block in program order.
    Different engines may still overlap. Values are the same with and without the context.

    Source: nki.language.no_reorder; how-to-scheduling-apis.rst, Using no_reorder.
    """
    in_order = current_core().in_order() if has_current_core() else nullcontext()
    with context_value(_is_ordered, True), in_order:
        yield


def _turns(loop: str, first: object, end: object, step: Any) -> range:
    """The values of a device loop's variable, with checked bounds.

    Args:
        loop: name of the function, such as "nl.fori_loop".
        first: the first value.
        end: the end of the values, exclusive.
        step: difference between a value and the one before it.
    """
    source = f"nki.language.{loop.removeprefix('nl.')}"
    if _constant_step(step) < 1:
        raise IllegalInstruction(
            f"{loop} with step {step}; legal: a positive integer known at compile time",
            fix="count up by a constant, and compute the index from it",
            source=f"{source}, step",
        )
    _refuse_reordering("a device loop")
    bounds = [_bound(loop, bound) for bound in (first, end)]
    turns = range(*integers(loop, *bounds, step, source=source))
    if turns[register.LONGEST_LOOP :]:
        raise NotModelled(
            f"a device loop over {turns}; emulated: up to {register.LONGEST_LOOP:,} turns",
            fix="check what was loaded into the registers of its bounds, or run fewer turns",
            source=source,
        )
    _check_loop(loop, first, end, step)
    return turns


def _constant_step(step: Any) -> int:
    """The step as an integer; 0 (an illegal step) for a value that is known only at run time."""
    if isinstance(step, VirtualRegister | Scalar):
        return 0
    try:
        return operator.index(step)
    except TypeError:
        return 0


def _bound(loop: str, bound: object) -> object:
    """The value of a bound: 32 bits.

    Raises:
        IllegalInstruction: for a scalar of int64, the result of a comparison, or a larger number.
    """
    if isinstance(bound, Scalar) and (bound.is_comparison or bound.dtype is not INT32):
        raise IllegalInstruction(
            f"{loop} with the bound {bound!r}; legal: integers, registers and scalars of int32, as "
            "the comparison that ends a loop has 32 bits",
            fix="load the bound from an nl.int32 tensor; an int64 scalar can be an offset inside",
            source="nki.language.fori_loop, lower and upper",
        )
    require_in_turn(bound)
    value = bound.value if isinstance(bound, VirtualRegister | Scalar) else bound
    if isinstance(value, int) and not -_INT32_END <= value < 2 * _INT32_END:
        raise IllegalInstruction(
            f"{loop} with the bound {value}; legal: 32 bits, {-_INT32_END} to {2 * _INT32_END - 1}",
            fix="count fewer turns, and compute the offset from the variable",
            source="nki.language.fori_loop, lower and upper",
        )
    return value


@contextmanager
def _body(loop: str) -> Generator[Callable[[], None]]:
    """Context of a device loop; tensors that its body allocates are freed where it ends.

    It yields a function to call before each turn.
    """
    if not has_current_core():
        yield _nothing
        return
    core = current_core()
    with core.memory.loop(loop), core.nesting.loop() as begin_turn:
        yield begin_turn


def _check_loop(loop: str, *bounds: object) -> None:
    """Check the call of a device loop inside the body of another."""
    if has_current_core():
        check_call(loop, *bounds)


def _end_turn() -> None:
    if has_current_core():
        check_end_of_turn()


def _refuse_result(result: object) -> NoReturn:
    raise IllegalInstruction(
        f"the body of nl.fori_loop returned {type(result).__name__}; legal: nothing",
        fix="keep what the next turn needs in SBUF or HBM, and write it there in place",
        source="nki/migration/index.rst, Rules for migrated loops",
    )


def _condition(value: object) -> VirtualRegister:
    """`value`, checked to be a register, the condition of nl.while_loop."""
    if isinstance(value, Scalar):
        raise NotModelled(
            f"nl.while_loop with {value!r}; emulated: registers, as nothing public says that a "
            "scalar may be a condition",
            fix="use a register: nisa.register_load(nisa.register_alloc(), flag)",
            source="nki.language.while_loop",
        )
    if not isinstance(value, VirtualRegister):
        raise IllegalInstruction(
            f"while_loop with a condition of type {type(value).__name__}; legal: a "
            "register, and a body that returns the next one",
            fix="end the body with: nisa.register_load(r, flag); return r",
            source="nki.language.while_loop",
        )
    return value


def _check_body(loop: str, body: object) -> None:
    """Refuse a loop's body that is no function of one operand; `loop` is the loop's name."""
    if not callable(body):
        raise IllegalInstruction(
            f"{loop} with a body of type {type(body).__name__}; legal: a function",
            fix="pass a function of the loop's register",
            source=f"nki.language.{loop}",
        )
    try:
        signature = inspect.signature(body)
    except ValueError:  # of a builtin without a signature
        return
    try:
        signature.bind(None)
    except TypeError as error:
        name = getattr(body, "__name__", "body")
        raise IllegalInstruction(
            f"nl.{loop} with the body {name}{signature}: {error}; legal: a function of one "
            "operand, which the loop passes",
            fix=f"write def {name}(i): ...; bind further operands by functools.partial",
            source=f"nki.language.{loop}, body_fun",
        ) from None


def _loop_registers(turns: range, *, is_offset: bool) -> Generator[VirtualRegister]:
    """The loop's variable in each turn, as a frozen register."""
    with current_core().nesting.loop() if has_current_core() else nullcontext(_nothing) as begin:
        for turn in turns:
            begin()
            yield VirtualRegister(turn, frozen=True, is_offset=is_offset)
            _end_turn()


class _LoopVariable(VirtualRegister):
    """The variable of nl.fori_loop in versions in which it takes no arithmetic."""


def _refused_operator(sign: str) -> Callable[..., NoReturn]:
    def refuse(self: _LoopVariable, *other: Any) -> NoReturn:
        del self, other
        usage = f"`{sign}` with the variable of nl.fori_loop"
        raise LOOP_VARIABLE_COMPUTES.refusal(running_version(), usage)

    return refuse


for _name, _sign in {"add": "+", "sub": "-", "mul": "*", "floordiv": "//", "mod": "%"}.items():
    for _side in ("", "r"):
        setattr(_LoopVariable, f"__{_side}{_name}__", _refused_operator(_sign))
setattr(_LoopVariable, "__neg__", _refused_operator("-"))  # noqa: B010  mypy knows no such method


def _nothing() -> None:
    """Do nothing: outside a kernel no instruction is in a loop."""


def _refuse_reordering(construct: str) -> None:
    """Refuse a construct inside nl.no_reorder()."""
    if _is_ordered.get():
        raise IllegalInstruction(
            f"{construct} inside nl.no_reorder(); legal: nl.affine_range, nl.sequential_range, "
            "nl.static_range",
            fix="unroll the loop, or leave no_reorder before it",
            source="nki.language.no_reorder",
        )
