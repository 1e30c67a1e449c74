"""Registers of the engines' sequencers: register_alloc, _move, _load, _store.

A register holds an integer of 32 bits. Kernels use registers as dynamic loop bounds, conditions and
offsets; here their values are known as soon as the instruction that sets them has been issued. An
instruction that uses a register as an operand or as a tile's index waits for the instruction that
filled it. It reads the register as it starts, so a later instruction may refill the register while
the first one runs. The value of register_alloc is a compile-time constant, so nothing waits for it.

Not modelled: the time that a loop or a condition waits for its registers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Final, NoReturn

import numpy as np

from trnsim.arch import NeuronCore
from trnsim.errors import IllegalInstruction, NotModelled, UndefinedBehavior, Unspecified
from trnsim.isa.language.declaration import reads, reads_register, writes, writes_register
from trnsim.isa.language.fields import is_whole
from trnsim.isa.language.instruction import HBM, SBUF, Cost, Dims, Instruction
from trnsim.isa.language.machine import Machine
from trnsim.isa.language.modes import Engine
from trnsim.memory import Tile

_SOURCE = "nki.isa.VirtualRegister"
_ONE_ELEMENT = 1
_LEAST_VALUE = int(np.iinfo(np.int32).min)
_GREATEST_VALUE = int(np.iinfo(np.uint32).max)
AS_NUMBER: Final = "as a number (int(), range(), an index, ==)"
AS_CONDITION: Final = "as a condition (while, if, and, or, not)"
"""How Python itself uses a register, in words for errors."""
LONGEST_LOOP = 100_000
"""Maximum emulated turns of a device loop, which take seconds; a longer loop counts as endless."""


class UnsupportedOperator(IllegalInstruction, TypeError):
    """An operator that registers and tensors lack; also the TypeError that Python would raise."""


class FrozenRegister(UndefinedBehavior, AssertionError):
    """A write to the variable of a loop; also the AssertionError that AWS raises."""


def _allow(use: str) -> None:
    """The default of `when_python_reads`: every use is allowed."""


def _allow_answer(is_true: bool) -> None:
    """The default of `when_answered`: nothing follows from an answer."""


class VirtualRegister:
    """A register that reads as an integer; arithmetic on it gives new registers.

    Attributes:
        origins: the instructions that its value comes from (see `memory.index.Register`).
        formula: a number that stands for the arithmetic that made it, whatever the values; 0 for a
            register that an instruction or a loop sets.
        is_offset: whether it may address tensors.
        when_python_reads: function that is called when Python itself reads a register, with
            AS_NUMBER or AS_CONDITION; the front end may refuse the use there.
        when_answered: function that is called with the answer when Python has read a register as a
            condition.
    """

    when_python_reads: ClassVar[Callable[[str], None]] = staticmethod(_allow)
    when_answered: ClassVar[Callable[[bool], None]] = staticmethod(_allow_answer)

    def __init__(
        self, state: int | None = None, frozen: bool = False, *, is_offset: bool = True
    ) -> None:
        """A register that holds `state`, or nothing yet; a frozen one is a loop's variable."""
        self._state = state
        self._frozen = frozen
        self.is_offset = is_offset
        self._is_unknown = False
        self._on_read: Callable[[], None] | None = None
        self._turns_true = 0  # times in succession that it was true as a condition
        self.origins: tuple[tuple[int, int], ...] = ()
        self.formula = 0

    def __deepcopy__(self, memo: object) -> VirtualRegister:
        """The register itself: a copied object that refers to it must refer to the same one."""
        return self

    @property
    def value(self) -> int:
        """The value that it holds.

        Raises:
            UndefinedBehavior: if it was never set.
            NotModelled: if a run without values loaded it from memory.
        """
        state = self._unreported_value()
        if self._on_read is not None:
            self._on_read()
        return state

    def _unreported_value(self) -> int:
        """The value, without a call of the `on_read` function of `put`."""
        if self._is_unknown:
            raise NotModelled(
                "a register was loaded from memory in a shape-only run, which has no values",
                fix="run with numerics=True: the kernel's control flow depends on data",
            )
        if self._state is None:
            raise UndefinedBehavior(
                "a register is read before anything was put there",
                fix="give register_alloc a value, or fill it with register_move or register_load",
                source=_SOURCE,
            )
        return self._state

    @property
    def signature(self) -> type:
        """A key of all that a rule or a cost may depend on: only that it is a register."""
        return VirtualRegister

    def put(self, value: int, on_read: Callable[[], None] | None = None) -> None:
        """Replace its value; `on_read` is called whenever the value is read.

        Raises:
            FrozenRegister: for the induction register of a loop.
        """
        if self._frozen:
            raise FrozenRegister(
                "the induction register of a loop is written in its body; the loop alone sets it",
                fix="copy it to a register of its own with nisa.register_move",
                source="nki.language.fori_loop",
            )
        self._state = int(value)
        self._is_unknown = False
        self._on_read = on_read

    def duplicate(self) -> VirtualRegister:
        """A new register with the same value."""
        copy = VirtualRegister(self._unreported_value())
        copy._on_read = self._on_read
        copy.origins, copy.is_offset = self.origins, self.is_offset
        copy.formula = self.formula
        return copy

    def forget(self) -> None:
        """Mark the value as unknown: loaded in a run without values."""
        self._is_unknown = True

    def __index__(self) -> int:
        VirtualRegister.when_python_reads(AS_NUMBER)
        return self.value

    def __int__(self) -> int:
        VirtualRegister.when_python_reads(AS_NUMBER)
        return self.value

    def __bool__(self) -> bool:
        VirtualRegister.when_python_reads(AS_CONDITION)
        is_true = self.is_true()
        VirtualRegister.when_answered(is_true)
        return is_true

    def is_true(self) -> bool:
        """True if it is not zero: the condition of a loop on the device.

        Raises:
            NotModelled: if it was true in more turns than are emulated.
        """
        is_true = self.value != 0
        self._turns_true = self._turns_true + 1 if is_true else 0
        if self._turns_true > LONGEST_LOOP:
            refuse_endless("a loop `while register`", self)
        return is_true

    def __eq__(self, other: object) -> bool:
        if isinstance(other, int):
            VirtualRegister.when_python_reads(AS_NUMBER)
            return self.value == other
        if isinstance(other, VirtualRegister) and other is not self:
            _refuse("== of two registers")
        if isinstance(other, float):
            _refuse(f"== of a register and {other}")
        return self is other or NotImplemented

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self) -> str:
        if self._on_read is not None:
            self._on_read()
        return f"VirtualRegister({self._state})"

    def __format__(self, spec: str) -> str:
        """The register in words, in an f-string; a format of numbers is refused.

        Raises:
            IllegalInstruction: for a format.
        """
        if spec:
            _refuse(f"an f-string with the format {spec!r}")
        return repr(self)


def _operator(name: str) -> Callable[[VirtualRegister, Any], VirtualRegister]:
    """The method `name`, such as ``__radd__``: arithmetic of a register that makes a new one."""

    def apply(self: VirtualRegister, other: Any) -> VirtualRegister:
        if not (isinstance(other, VirtualRegister) or is_whole(other)):
            raise IllegalInstruction(
                f"arithmetic of a register and {type(other).__name__}; legal: registers and "
                "integers",
                fix="load the value into a register with nisa.register_load",
                source=_SOURCE,
            )
        try:
            result = VirtualRegister(_within_32_bits(getattr(self.value, name)(integer_of(other))))
        except ZeroDivisionError:
            raise UndefinedBehavior(
                "a register is divided by zero",
                fix="test the divisor before, or start it from 1",
                source=_SOURCE,
            ) from None
        result.origins = self.origins + getattr(other, "origins", ())
        result.is_offset = self.is_offset and getattr(other, "is_offset", True)
        operand = ("register", other.formula) if isinstance(other, VirtualRegister) else other
        result.formula = hash((name, self.formula, operand))
        return result

    return apply


def _within_32_bits(value: int) -> int:
    """`value`, a result of arithmetic, checked to be one that a register can hold."""
    if not _LEAST_VALUE <= value <= _GREATEST_VALUE:
        raise Unspecified(
            f"arithmetic of registers gives {value}; emulated: 32 bits, {_LEAST_VALUE} to "
            f"{_GREATEST_VALUE}, as AWS does not say whether a register wraps",
            fix="keep counters and offsets within 32 bits, or compute with scalars, which wrap: "
            "nisa.scalar_load",
            source=_SOURCE,
        )
    return value


for _name in ("add", "sub", "mul", "floordiv", "mod"):
    for _side in ("__", "__r"):
        setattr(VirtualRegister, f"{_side}{_name}__", _operator(f"{_side}{_name}__"))


def integer_of(value: VirtualRegister | int) -> int:
    """The value of a register, or the number itself as a plain integer."""
    return value.value if isinstance(value, VirtualRegister) else int(value)


def refuse_endless(loop: str, condition: VirtualRegister) -> NoReturn:
    """Refuse a loop that has not ended after the turns that are emulated."""
    raise NotModelled(
        f"{loop} has run its body {LONGEST_LOOP:,} times, and its condition is still "
        f"{condition.value}; emulated: device loops of up to {LONGEST_LOOP:,} turns",
        fix="end the body with nisa.register_load(register, flag), and let the flag become 0",
        source="nki.language.while_loop",
    )


def _refuse(use: str) -> NoReturn:
    """Refuse a use of a register by Python's operators."""
    raise UnsupportedOperator(
        f"{use}; legal: + - * // % and == with integers, and the register itself as a condition",
        fix="compare tiles, and load the result with nisa.register_load",
        source=_SOURCE,
    )


def _refusing_method(name: str) -> Callable[[VirtualRegister, Any], NoReturn]:
    """A method that refuses the operator `name`."""

    def refuse(self: VirtualRegister, other: Any = None) -> NoReturn:
        del self, other
        _refuse(f"{name} of a register")

    return refuse


for _name in (
    *("lt", "le", "gt", "ge", "truediv", "rtruediv", "and", "rand", "or", "ror", "xor", "rxor"),
    *("neg", "pos", "abs", "invert", "lshift", "rlshift", "rshift", "rrshift", "pow", "rpow"),
    *("divmod", "rdivmod"),
):
    setattr(VirtualRegister, f"__{_name}__", _refusing_method(f"__{_name}__"))


class RegisterInstruction(Instruction, engines=()):
    """Common base of the register instructions: their engine and their price."""

    def cost(self, core: NeuronCore, n: Dims) -> Cost:
        """One step of a sequencer."""
        del n
        return Cost(interval_s=core.register_s, latency_s=0.0)

    def _check_register(self, name: str, register: object) -> None:
        if not isinstance(register, VirtualRegister):
            self.refuse(
                f"`{name}` is {type(register).__name__}; legal: a register",
                "make one with nisa.register_alloc",
            )

    def _check_width(self, value: object) -> None:
        if isinstance(value, int) and not _LEAST_VALUE <= value <= _GREATEST_VALUE:
            self.refuse(
                f"{value} in a register; legal: 32 bits, {_LEAST_VALUE} to {_GREATEST_VALUE}",
                "keep counters and offsets within 32 bits",
            )

    def _check_single(self, name: str, tile: Tile) -> None:
        if tile.pattern.elements != _ONE_ELEMENT:
            self.refuse(
                f"`{name}` is {tile}; legal: one element",
                "slice a single element: tensor[0:1, 0:1]",
            )


class RegisterAlloc(RegisterInstruction, engines=(Engine.sync,)):
    """A new register, holding `x` if given."""

    x: int | None = None

    def check(self, core: NeuronCore, n: Dims) -> None:
        """`x` is an integer, or None."""
        del core, n
        is_integer = isinstance(self.x, VirtualRegister) or is_whole(self.x)
        if self.x is not None and not is_integer:
            self.refuse(
                f"x is {type(self.x).__name__}; legal: an integer, or None",
                "load a value from memory with nisa.register_load",
            )
        self._check_width(self.x)

    def execute(self, machine: Machine) -> None:
        """No values change; `result` makes the register."""

    def result(self) -> VirtualRegister:
        """The new register."""
        return VirtualRegister(None if self.x is None else integer_of(self.x))


class RegisterMove(RegisterInstruction, engines=(Engine.sync,)):
    """``dst = src`` for a register and an integer or another register."""

    dst: VirtualRegister = writes_register()
    src: VirtualRegister | int = reads_register()

    def check(self, core: NeuronCore, n: Dims) -> None:
        """`dst` is a register, src a register or an integer."""
        del core, n
        self._check_register("dst", self.dst)
        if not (is_whole(self.src) or isinstance(self.src, VirtualRegister)):
            self.refuse(
                f"`src` is {type(self.src).__name__}; legal: an integer, or a register",
                "load a value from memory with nisa.register_load",
            )
        self._check_width(self.src)

    def execute(self, machine: Machine) -> None:
        """A copy of the integer."""
        del machine
        self.dst.put(integer_of(self.src))


class RegisterLoad(RegisterInstruction, engines=(Engine.sync,)):
    """``dst = src`` for a register and a tensor of one element in HBM or SBUF.

    Note:
        AWS publishes no cost of registers; one step of a sequencer is assumed.
    """

    dst: VirtualRegister = writes_register()
    src: Tile = reads("", SBUF, HBM)

    def check(self, core: NeuronCore, n: Dims) -> None:
        """`dst` is a register, src a tensor of one element."""
        del core, n
        self._check_register("dst", self.dst)
        self._check_single("src", self.src)
        if self.src.dtype.is_packed:
            self.refuse(
                f"`src` is {self.src}; legal: a number of up to 32 bits",
                "view it as an integer: tensor.view(nl.uint32)",
            )

    def execute(self, machine: Machine) -> None:
        """The element as an integer; a fraction is refused, as AWS documents no rounding."""
        del machine
        if self.src.storage.data is None:
            self.dst.forget()
            return
        value = float(self.src.load().reshape(-1)[0]) if self.src.dtype.is_float else 0.0
        if not (value.is_integer() and _LEAST_VALUE <= value <= _GREATEST_VALUE):
            raise Unspecified(
                f"register_load of {value:g}; AWS does not say how a register rounds, or wraps "
                f"beyond 32 bits; emulated: whole numbers of {_LEAST_VALUE} to {_GREATEST_VALUE}",
                fix="round to an integer first: nisa.tensor_copy into an int32 tile",
                source=self.source,
            )
        self.dst.put(int(self.src.bits().reshape(-1)[0]))


class RegisterStore(RegisterInstruction, engines=(Engine.sync,)):
    """``dst = src`` for a tensor of one element in HBM or SBUF and a register."""

    dst: Tile = writes("", SBUF, HBM)
    src: VirtualRegister = reads_register()

    def check(self, core: NeuronCore, n: Dims) -> None:
        """`src` is a register, dst a tensor of one element."""
        del core, n
        self._check_single("dst", self.dst)
        self._check_register("src", self.src)

    def execute(self, machine: Machine) -> None:
        """The integer in the tensor's dtype; bit for bit where that is an integer of 32 bits."""
        del machine
        dtype = self.dst.dtype.dtype
        if dtype.kind in "iu" and dtype.itemsize == np.dtype(np.uint32).itemsize:
            low_bits = np.asarray([self.src.value & _GREATEST_VALUE], np.uint32)
            self.dst.store(low_bits.view(dtype))
        else:
            self.dst.store(np.asarray([self.src.value]))
