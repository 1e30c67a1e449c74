"""`nki.isa`: a function for each declared instruction, with AWS's names and signatures.

The functions are generated from the classes of `trnsim.isa`; no instruction is described here.
"""

from __future__ import annotations

import inspect
from dataclasses import MISSING, fields, replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from trnsim.behaviours.chosen import asked_version
from trnsim.behaviours.instructions import INTEGER_ENUMS
from trnsim.behaviours.names import BY_FORM
from trnsim.behaviours.simulator import WARNS_OF_UNWRITTEN_PSUM
from trnsim.dtypes import UINT8
from trnsim.enumerations import Enumeration
from trnsim.errors import IllegalInstruction
from trnsim.isa import (
    CoreBarrier,
    DgeMode,
    DmaEngine,
    Engine,
    Instruction,
    MatmulPerfMode,
    NcMatmul,
    NcMatmulMx,
    NcVersion,
    OobMode,
    ReduceCmd,
)
from trnsim.isa.tensor.tensor_engine import mark_started
from trnsim.nki.absent import VersionedNames
from trnsim.nki.arguments import documented_in
from trnsim.nki.dialect import follows, require
from trnsim.nki.instruction import NkiInstruction as NkiInstruction
from trnsim.nki.instruction import dependency as dependency
from trnsim.nki.isa.older import CONVERSIONS, CURRENT_CALLS
from trnsim.nki.language_operators import OPERATORS, Operator, refuse_operator
from trnsim.nki.loop_bodies import check_turn
from trnsim.nki.notices import OlderFormWarning, is_simulator, refuse_or_warn
from trnsim.nki.registers import VirtualRegister as VirtualRegister
from trnsim.nki.scalars import NkiScalar as NkiScalar
from trnsim.nki.scalars import scalar_load, scalar_store
from trnsim.nki.settling import settle
from trnsim.nki.tensor import MemoryRegion, NkiTensor
from trnsim.program import current_core, running_core
from trnsim.user_warnings import warn

if TYPE_CHECKING:
    from collections.abc import Callable

engine = Engine
dge_mode = DgeMode
dma_engine = DmaEngine
oob_mode = OobMode
matmul_perf_mode = MatmulPerfMode
reduce_cmd = ReduceCmd
nc_version = NcVersion

tensor_engine = Engine.tensor
vector_engine = Engine.vector
scalar_engine = Engine.scalar
gpsimd_engine = Engine.gpsimd
unknown_engine = Engine.unknown
NkiValidationError = IllegalInstruction


@documented_in("nisa")
def get_nc_version() -> NcVersion:
    """The generation of the core that the kernel runs on."""
    return NcVersion(current_core().core.generation)


@documented_in("nisa")
def get_nc_sub_version() -> int:
    """The revision of the silicon within its generation: 0, the first."""
    return 0


_PLAIN_TYPES = frozenset({bool, int, float, type(None)})
"""Types of operands that need no conversion; most operands that are no tensors have them."""
_MEMBERS_SOURCE = "nki/migration/index.rst, Integer enum constants no longer supported"


def _hashable_form(value: Any) -> Any:
    """`value` in an instruction's hashable form: numbers of Python, lists as tuples."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, list):
        return tuple(_hashable_form(item) for item in value)
    return value


def _member(
    instruction: type[Instruction], enumeration: type[Enumeration], key: str, value: Any
) -> Enumeration:
    """The member of an enumeration whose number is `value`, or whose name on AWS's simulator.

    AWS's migration guide says that numbers are refused since NKI 0.3, but its library of that
    release (nki-library 2.29) passes them in its kernels for the chip (dge_mode=3), and a name
    (perf_mode="double_row").

    Raises:
        IllegalInstruction: for any other value, and for a name unless on AWS's simulator.
    """
    legal = ", ".join(enumeration[name].spelled for name in enumeration.public_names())
    reason = f"{instruction.opcode}: `{key}` is {value!r}; legal: {legal}"
    by_number = {member.value: member for member in enumeration}
    is_number = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if is_number and value in by_number:
        if asked_version() is not None and not follows(INTEGER_ENUMS):
            warn(
                f"{instruction.opcode}: `{key}` is {value!r}; {INTEGER_ENUMS.otherwise}\n"
                f"  fix: write {by_number[value].spelled}\n  source: {_MEMBERS_SOURCE}",
                OlderFormWarning,
            )
        return by_number[value]
    member = enumeration.__members__.get(value) if isinstance(value, str) else None
    if member is not None:
        refuse_or_warn(reason, f"write {member.spelled}", _MEMBERS_SOURCE)
        return member
    raise IllegalInstruction(reason, fix="name the member", source=_MEMBERS_SOURCE)


def _lenient_barrier(barrier: CoreBarrier) -> CoreBarrier:
    """`barrier`; on AWS's simulator `data` outside of shared HBM is replaced by a dummy tensor."""
    data: object = barrier.data
    is_shared = isinstance(data, NkiTensor) and data.buffer is MemoryRegion.shared_hbm
    if is_shared or not (isinstance(data, NkiTensor) and is_simulator()):
        return barrier
    refuse_or_warn(
        f"core_barrier: `data` is {data} in {data.buffer.value}; legal: shared HBM",
        "name the tensor in shared HBM that both cores use",
        "nki.isa.core_barrier",
    )
    storage, layout = current_core().memory.allocate_shared((1, 1), UINT8)
    dummy_tensor = NkiTensor.laid_out(storage, UINT8, layout, MemoryRegion.shared_hbm)
    return replace(barrier, data=dummy_tensor)


def _lenient_matmul(matmul: NcMatmul | NcMatmulMx) -> NcMatmul | NcMatmulMx:
    """`matmul`; AWS's simulator warns if it adds to unwritten PSUM, and reads that as NaN."""
    dst: object = matmul.dst
    if not (is_simulator() and matmul.accumulate is True and isinstance(dst, NkiTensor)):
        return matmul
    is_psum = dst.buffer is MemoryRegion.psum and dst.index is None and dst.dtype.is_float
    if not is_psum or not current_core().has_values or not dst.storage.written.is_empty:
        return matmul
    if follows(WARNS_OF_UNWRITTEN_PSUM):
        refuse_or_warn(
            f"{matmul.opcode}: accumulate=True onto {dst}, which nothing wrote",
            "use accumulate=False for the first matmul, or leave accumulate out",
            "release notes of NKI 0.5, nc_matmul with accumulate=True on uninitialized PSUM",
        )
    base = dst.base_tensor
    base.fill(np.array(np.nan).astype(base.dtype.dtype))
    base.mark_written()
    mark_started(base)
    return matmul


_SIMULATOR_ADAPTERS: dict[type[Instruction], Callable[[Any], Instruction]] = {
    CoreBarrier: _lenient_barrier,
    NcMatmul: _lenient_matmul,
    NcMatmulMx: _lenient_matmul,
}
"""By class: the function that adapts an instruction which AWS's simulator alone accepts."""


def _signature(instruction: type[Instruction]) -> inspect.Signature:
    """The signature of the instruction's function: its fields, then `name`."""
    parameters = [
        inspect.Parameter(
            field.name,
            inspect.Parameter.POSITIONAL_OR_KEYWORD,
            default=inspect.Parameter.empty if field.default is MISSING else field.default,
        )
        for field in fields(instruction)
    ]
    name = inspect.Parameter("name", inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None)
    return inspect.Signature([*parameters, name])


def _conversion(instruction: type[Instruction]) -> Callable[[dict[str, Any]], None]:
    """The function that converts the operands of a call, in place, to those of `instruction`.

    A call has operators of `nki.language`, numbers of numpy, lists, and members of enumerations or
    their numbers; the instruction has names of operators, numbers of Python, tuples and members.
    """
    enumerations = {
        field.name: type(field.default)
        for field in fields(instruction)
        if isinstance(field.default, Enumeration)
    }
    operators = {field.name for field in fields(instruction) if str(field.type).startswith("str")}

    def convert_operands(operands: dict[str, Any]) -> None:
        """Convert the operands, by name; tensors and most others stay as they are.

        Raises:
            IllegalInstruction: for another value where the instruction takes an operator, or a
                member of an enumeration.
        """
        for key, value in operands.items():
            kind = value.__class__
            if kind is NkiTensor or (kind in _PLAIN_TYPES and key not in enumerations):
                continue
            enumeration = enumerations.get(key)
            if enumeration is not None:
                if kind is not enumeration:
                    operands[key] = _member(instruction, enumeration, key, value)
            elif isinstance(value, Operator):
                operands[key] = value.name
            elif key in operators:
                refuse_operator(f"{instruction.opcode}: `{key}`", value)
            else:
                operands[key] = _hashable_form(value)

    return convert_operands


def _issue_function(instruction: type[Instruction]) -> Callable[..., Any]:
    """The function of `nki.isa` that issues `instruction` to the current core."""
    signature = _signature(instruction)
    keys = list(signature.parameters)
    adapt = _SIMULATOR_ADAPTERS.get(instruction)
    convert_operands = _conversion(instruction)
    has_result = instruction.result is not Instruction.result
    handle = NkiInstruction  # the module serves the name in some versions alone

    def issue(*args: Any, name: str | None = None, **kwargs: Any) -> Any:
        convert_operands(kwargs)
        if args:
            if len(args) == len(keys) and name is None:
                args, name = args[:-1], args[-1]
            operands = dict(zip(keys, args, strict=False))
            convert_operands(operands)
            args = (*operands.values(), *args[len(keys) :])
        try:
            instance = instruction(*args, **kwargs)
        except TypeError:
            raise _illegal_operands(instruction, signature, len(args), sorted(kwargs)) from None
        core = running_core() or current_core()
        if adapt is not None:
            instance = adapt(instance)
        if core.nesting.turns:
            check_turn(instance)
        if core.may_be_in_psum:
            instance = settle(instance)
        if not core.issue_next(instance):
            core.issue(instance)
        return instance.result() if has_result else handle(core, name)

    function: Any = _versioned_function(instruction.opcode, issue)
    if not has_result:
        function = _comparing_function(instruction, function, is_adapted=adapt is not None)
    function.__name__ = function.__qualname__ = instruction.opcode
    function.__doc__ = instruction.__doc__
    function.__signature__ = signature
    return function  # type: ignore[no-any-return]


def _comparing_function(
    kind: type[Instruction], function: Callable[..., NkiInstruction], *, is_adapted: bool
) -> Callable[..., NkiInstruction]:
    """A function that compares a call with the record's next step, and else calls `function`.

    Args:
        kind: class of the instruction that `function` issues.
        function: the function.
        is_adapted: whether AWS's simulator adapts the instruction.
    """
    handle = NkiInstruction

    def issue_compared(*args: Any, **kwargs: Any) -> NkiInstruction:
        core = running_core()
        if core is None or args or (is_adapted and is_simulator()):
            return function(*args, **kwargs)
        if core.issue_again(kind, kwargs):
            return handle(core)
        try:
            return function(**kwargs)
        finally:
            core.unknown_call = None

    return issue_compared


def _versioned_function(opcode: str, issue: Callable[..., Any]) -> Callable[..., Any]:
    """`issue` under the rules of the running kernel's version of NKI.

    Keywords that the version lacks are refused, and calls in the syntax of older versions are
    converted to today's.
    """
    prefix = f"nisa.{opcode}("
    rows = {
        form.removeprefix(prefix).removesuffix("=)"): row
        for form, row in BY_FORM.items()
        if form.startswith(prefix)
    }
    convert_call, versioned_keywords = CONVERSIONS.get(opcode), frozenset(rows)
    max_args, old_names = CURRENT_CALLS.get(opcode, (-1, versioned_keywords))
    if not rows and convert_call is None:
        return issue

    def issue_of_version(*args: Any, **kwargs: Any) -> Any:
        if not versioned_keywords.isdisjoint(kwargs):
            for key in kwargs:
                if key in rows:
                    require(rows[key], f"{prefix}{key}=)")
        if convert_call is None or (len(args) <= max_args and old_names.isdisjoint(kwargs)):
            return issue(*args, **kwargs)
        call = convert_call(args, kwargs)
        if call.opcode == opcode:
            return issue(*call.args, **call.kwargs)
        return _FUNCTIONS[call.opcode](*call.args, **call.kwargs)

    return issue_of_version


def _illegal_operands(
    instruction: type[Instruction],
    signature: inspect.Signature,
    count: int,
    keywords: list[str],
) -> IllegalInstruction:
    """The error of a call whose operands do not fit the signature.

    Args:
        instruction: class of the instruction.
        signature: signature of its function.
        count: number of positional operands of the call.
        keywords: names of its keyword operands.
    """
    legal = list(signature.parameters)
    unknown_names = [name for name in keywords if name not in legal]
    similar_names = [match for name in unknown_names for match in get_close_matches(name, legal, 1)]
    keyword_text = f" and {', '.join(keywords)}" if keywords else " and no named ones"
    plain_signature = signature.replace(
        parameters=[_readable_parameter(parameter) for parameter in signature.parameters.values()]
    )
    hints = [f"perhaps with {', '.join(similar_names)}"] if similar_names else []
    hints += [
        _REPLACEMENTS_OF_NKI_01[name] for name in unknown_names if name in _REPLACEMENTS_OF_NKI_01
    ]
    is_without_dst = "dst" in legal[count:] and "dst" not in keywords
    if is_without_dst and not similar_names and keywords:
        hints.append(_REPLACEMENTS_OF_NKI_01["dst"])
    try:
        signature.bind(*(None,) * count, **dict.fromkeys(keywords))
        reason = ""
    except TypeError as error:
        reason = f": {error}"
    return IllegalInstruction(
        f"{instruction.opcode} was given {count} positional operands{keyword_text}{reason}; "
        f"legal: {', '.join(legal)}",
        fix="; ".join((f"call it as nisa.{instruction.opcode}{plain_signature}", *hints)),
        source=instruction.source,
    )


_REPLACEMENTS_OF_NKI_01: Final = {
    "dst": "since NKI 0.2 an instruction writes dst, and returns no tile",
    "mask": "masks ended with NKI 0.1: slice the operands to what is within bounds",
    "dtype": "since NKI 0.2 the dtype is that of dst",
}
"""By an operand of NKI 0.1: its replacement (nki/migration/index.rst, NKI 0.1 to 0.2)."""


def _readable_parameter(parameter: inspect.Parameter) -> inspect.Parameter:
    """A parameter whose default is written as a program writes it: nisa.engine.vector."""
    default = parameter.default
    if default in OPERATORS:
        return parameter.replace(default=OPERATORS[default])
    is_member = isinstance(default, Enumeration)
    return parameter.replace(default=_UnquotedText(default.spelled)) if is_member else parameter


class _UnquotedText(str):
    """A text that `repr` shows without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    opcode: _issue_function(kind)
    for opcode, kind in Instruction.registry.items()
    if kind.is_in_nki_isa
} | {"scalar_load": scalar_load, "scalar_store": scalar_store}
globals().update(_FUNCTIONS)


def tensor_copy_dynamic_src(
    dst: Any, src: Any, engine: Any = Engine.unknown, name: Any = None
) -> Any:
    """`tensor_copy` of a `src` at a dynamic offset. Source: the stub of nki.isa of v2.27."""
    return _FUNCTIONS["tensor_copy"](dst, src, engine, name=name)


def tensor_copy_dynamic_dst(
    dst: Any, src: Any, engine: Any = Engine.unknown, name: Any = None
) -> Any:
    """`tensor_copy` to a `dst` at a dynamic offset. Source: the stub of nki.isa of v2.27."""
    return _FUNCTIONS["tensor_copy"](dst, src, engine, name=name)


_VERSIONED_NAMES = VersionedNames(__name__, "nki.isa", lambda _: None, "nisa")
_VERSIONED_NAMES.withdraw(globals())


def __getattr__(name: str) -> Any:
    return _VERSIONED_NAMES.serve(name)


def __dir__() -> list[str]:
    return _VERSIONED_NAMES.names(globals())
