"""The rewrite of a row of the table of behaviours, where it is mechanical.

A rewrite is a function of a file and a trace (a place that relies on the row). It returns edits, or
raises `ByHand` with the reason why the user has to edit the place. Rewrites of loops are in
`loops`, of `nisa.dma_copy` in `copies`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Final, TypeAlias

from trnsim.behaviours import Behaviour, instructions, language, scalars
from trnsim.behaviours.names import BY_FORM
from trnsim.nki.migrate.edits import Edit, Places
from trnsim.nki.migrate.file import Function, SourceFile, argument
from trnsim.nki.migrate.traces import ENUMERATIONS, Trace

Rewrite: TypeAlias = Callable[[Places, Trace], list[Edit]]

REWRITES: Final[dict[str, Rewrite]] = {}
"""Name of a row -> its rewrite."""


class ByHand(Exception):
    """The rewrite of a place is not mechanical; the text says why."""


def rewrite(*rows: Behaviour | str) -> Callable[[Rewrite], Rewrite]:
    """Decorator that registers a function as the rewrite of rows, each a row or its form."""

    def register(function: Rewrite) -> Rewrite:
        for row in rows:
            REWRITES[row if isinstance(row, str) else row.name] = function
        return function

    return register


def module(file: SourceFile, name: str) -> str:
    """The file's own spelling of a module of NKI: "nl" for "nki.language".

    Raises:
        ByHand: the file does not import it.
    """
    names = {path.removeprefix("trnsim."): local for local, path in file.reader.names.items()}
    if name in names:
        return names[name]
    if "nki" in names:
        return f"{names['nki']}.{name.removeprefix('nki.')}"
    raise ByHand(f"the file does not import {name}")


def own_spelling(file: SourceFile, usual_name: str) -> str:
    """The file's own spelling of a name of NKI; `usual_name` is its usual one, "nl.sbuf"."""
    modules = {"nl": "nki.language", "nisa": "nki.isa", "ncc": "nki.collectives"}
    prefix, _, name = usual_name.partition(".")
    return f"{module(file, modules[prefix])}.{name}"


def free_name(file: SourceFile, node: ast.AST, *candidates: str) -> str:
    """The first of `candidates`, then of ``last_2``, ``last_3``, ..., that the function lacks.

    The function is the innermost around `node`.
    """
    scope: ast.AST = file.function_of(node) or file.tree
    scope_names = {child.id for child in ast.walk(scope) if isinstance(child, ast.Name)}
    scope_names |= {child.arg for child in ast.walk(scope) if isinstance(child, ast.arg)}
    scope_names |= {child.name for child in ast.walk(scope) if isinstance(child, Function)}
    numbered_names = (f"{candidates[-1]}_{number}" for number in range(2, len(scope_names) + 3))
    return next(name for name in (*candidates, *numbered_names) if name not in scope_names)


def call_of(file: SourceFile, node: ast.AST) -> ast.Call:
    """The call of which `node` is the function, a keyword or an argument."""
    for candidate in (node, *file.ancestors(node)):
        if isinstance(candidate, ast.Call):
            return candidate
    raise ByHand("it is not called here")


@rewrite(language.MODE_OF_JIT, language.PLATFORM_TARGET)
def _jit_options(places: Places, trace: Trace) -> list[Edit]:
    """``@nki.jit(mode=...)`` becomes ``@nki.jit``."""
    file = places.file
    call = call_of(file, trace.node)
    options = [keyword for keyword in call.keywords if keyword.arg in {"mode", "platform_target"}]
    is_decorator = call in getattr(file.parent(call), "decorator_list", [])
    if is_decorator and len(options) == len(call.keywords) and not call.args:
        return [Edit(places.end(call.func), places.end(call), "")]
    return places.arguments(call, options)


@rewrite(language.OUTPUT_IN_ANY_HBM)
def _output(places: Places, trace: Trace) -> list[Edit]:
    """``buffer=nl.hbm`` of a result becomes ``buffer=nl.shared_hbm``."""
    return [places.replacement(trace.node, own_spelling(places.file, "nl.shared_hbm"))]


@rewrite(language.STRING_BUFFERS)
def _string_buffer(places: Places, trace: Trace) -> list[Edit]:
    """``buffer="sbuf"``, also as third operand, becomes ``nl.sbuf``."""
    value = trace.node.value if isinstance(trace.node, ast.keyword) else trace.node
    return [places.replacement(value, own_spelling(places.file, places.file.buffer(value)))]


@rewrite(language.LIST_ARGUMENTS)
def _list_argument(places: Places, trace: Trace) -> list[Edit]:
    """``[1, 1]`` becomes ``(1, 1)``."""
    node = trace.node
    start, end = places.start(node), places.end(node)
    elements = node.elts if isinstance(node, ast.List) else []
    tail = places.text[places.end(elements[-1]) : end] if elements else ","
    comma = "," if len(elements) == 1 and "," not in tail else ""
    return [Edit(start, start + 1, "("), Edit(end - 1, end, f"{comma})")]


@rewrite(language.NO_BARE_STAR)
def _star(places: Places, trace: Trace) -> list[Edit]:
    """``(x, *, flag=True)`` becomes ``(x, flag=True)``."""
    kernel = places.file.function_of(trace.node)
    assert kernel is not None  # noqa: S101  what the trace is
    arguments = kernel.args
    if arguments.defaults and None in arguments.kw_defaults:
        raise ByHand("a parameter without a default follows one with a default")
    parameter_start = places.start(trace.node)
    star = places.text.rindex("*", 0, parameter_start)
    return [Edit(star, parameter_start, "")]


@rewrite(language.IS_OF_NONE)
def _identity(places: Places, trace: Trace) -> list[Edit]:
    """``x is True`` becomes ``x == True``."""
    node = trace.node
    assert isinstance(node, ast.Compare)  # noqa: S101  what the trace is
    start, end = places.end(node.left), places.start(node.comparators[0])
    old, new = ("is not", "!=") if isinstance(node.ops[0], ast.IsNot) else ("is", "==")
    if old not in places.text[start:end]:
        raise ByHand("the comparison is broken over lines")
    return [Edit(start, end, places.text[start:end].replace(old, new, 1))]


@rewrite(instructions.INTEGER_ENUMS)
def _integer_enum(places: Places, trace: Trace) -> list[Edit]:
    """``dge_mode=2`` becomes ``dge_mode=nisa.dge_mode.hwdge``."""
    keyword, value = places.file.parent(trace.node), trace.node
    assert isinstance(keyword, ast.keyword)  # noqa: S101  what the trace is
    assert isinstance(value, ast.Constant)  # noqa: S101  likewise
    prefix, members = ENUMERATIONS[keyword.arg or ""]
    member_names = [member.name for member in members if member.value == value.value]
    if not member_names:
        raise ByHand(f"{prefix} has no member {places.file.code(value)}")
    return [places.replacement(value, own_spelling(places.file, f"{prefix}.{member_names[0]}"))]


@rewrite("nisa.register_move(imm=)")
def _immediate(places: Places, trace: Trace) -> list[Edit]:
    """``register_move(dst, imm=42)`` becomes an allocation of a register with 42 and a move of it.

    An `imm` that is no literal becomes `src`.
    """
    file, node = places.file, trace.node
    assert isinstance(node, ast.keyword)  # noqa: S101  what the form is
    call, statement = call_of(file, node), file.statement(node)
    is_number = isinstance(node.value, ast.Constant)
    if not is_number or not isinstance(statement, ast.Expr) or len(call.args) != 1:
        return [places.replacement(node, f"src={file.code(node.value)}")]
    name = free_name(file, node, "src", "source")
    allocation = own_spelling(file, "nisa.register_alloc")
    line = f"{name} = {allocation}({file.code(node.value)})"
    return [places.insert_above(statement, [line]), places.replacement(node, name)]


@rewrite("nisa.sendrecv(use_gpsimd_dma=)")
def _dma_engine(places: Places, trace: Trace) -> list[Edit]:
    """``use_gpsimd_dma=True`` becomes ``dma_engine=nisa.dma_engine.gpsimd_dma``."""
    file, node = places.file, trace.node
    assert isinstance(node, ast.keyword)  # noqa: S101  what the form is
    gpsimd_engine = own_spelling(file, "nisa.dma_engine.gpsimd_dma")
    shared_engine = own_spelling(file, "nisa.dma_engine.dma")
    if isinstance(node.value, ast.Constant):
        value = gpsimd_engine if node.value.value else shared_engine
    else:
        value = f"{gpsimd_engine} if {file.code(node.value)} else {shared_engine}"
    return [places.replacement(node, f"dma_engine={value}")]


@rewrite(instructions.DMA_COMPUTE_SCALES_FIRST)
def _scales(places: Places, trace: Trace) -> list[Edit]:
    """``(dst, srcs, scales, reduce_op)`` becomes ``(dst, srcs, reduce_op, scales=scales)``."""
    file, call = places.file, call_of(places.file, trace.node)
    scales, operation, *names = call.args[2:]
    return [
        places.replacement(scales, file.code(operation)),
        places.replacement(operation, f"scales={file.code(scales)}"),
        *(places.replacement(name, f"name={file.code(name)}") for name in names),
    ]


@rewrite(instructions.AFFINE_SELECT_OFFSET_THIRD)
def _offset(places: Places, trace: Trace) -> list[Edit]:
    """``offset`` moves from the third place to a keyword."""
    call = call_of(places.file, trace.node)
    offset, names = call.args[2], call.args[len(_AFFINE_SELECT_OPERANDS) :]
    return [
        *places.arguments(call, [offset], [f"offset={places.file.code(offset)}"]),
        *(places.replacement(name, f"name={places.file.code(name)}") for name in names),
    ]


_AFFINE_SELECT_OPERANDS = ("dst", "pattern", "offset", "multiplier", "tile", "value", "cmp_op")
"""The positional operands of affine_select before its name, in NKI 0.2."""


@rewrite(instructions.MEMSET_CASTS)
def _memset(places: Places, trace: Trace) -> list[Edit]:
    """``value=2.0`` becomes ``value=2``."""
    value = argument(call_of(places.file, trace.node), 1, "value")
    number = ast.literal_eval(value) if value is not None else 0.5
    if value is None or not float(number).is_integer():
        raise ByHand("the value is no whole number")
    return [places.replacement(value, str(int(number)))]


@rewrite(instructions.REDUCE_AXIS_1_IS_LAST)
def _axis(places: Places, trace: Trace) -> list[Edit]:
    """``axis=1`` becomes the number of the last axis."""
    file, call = places.file, call_of(places.file, trace.node)
    axis, rank = argument(call, 3, "axis"), file.tensor(argument(call, 2, "data")).rank
    if axis is None or rank is None:
        raise ByHand("the rank of data is not written out")
    return [places.replacement(axis, str(rank - 1))]


@rewrite(instructions.RANGE_SELECT_OVERRIDES)
def _range_select(places: Places, trace: Trace) -> list[Edit]:
    """The values that NKI 0.2 used for two operands replace the values of the call."""
    call = call_of(places.file, trace.node)
    if any(keyword.arg is None for keyword in call.keywords):
        raise ByHand("the call passes on keywords")
    names = {"reduce_cmd", "on_false_value"}
    options = [keyword for keyword in call.keywords if keyword.arg in names]
    command = own_spelling(places.file, "nisa.reduce_cmd.reset_reduce")
    if len(call.args) > _ON_FALSE:
        raise ByHand("on_false_value is given by its place")
    if len(call.args) > _REDUCE_CMD:
        place = call.args[_REDUCE_CMD]
        return [
            places.replacement(place, command),
            *(places.arguments(call, options) if options else ()),
        ]
    return places.arguments(call, options, [f"reduce_cmd={command}"])


_REDUCE_CMD, _ON_FALSE = 6, 10
"""Positions, from 0, of the operands reduce_cmd and on_false_value of range_select."""


@rewrite(instructions.HWDGE_OF_TWO_DTYPES)
def _view(places: Places, trace: Trace) -> list[Edit]:
    """``src=x`` becomes ``src=x.view(dtype of dst)``."""
    file, call = places.file, call_of(places.file, trace.node)
    source, dtype = argument(call, 1, "src"), file.tensor(argument(call, 0, "dst")).dtype
    if source is None or not dtype.startswith("nl."):
        raise ByHand("the dtype of dst is not written out")
    end = places.end(source)
    return [Edit(end, end, f".view({own_spelling(file, dtype)})")]


@rewrite(BY_FORM["nisa.dma_copy(unique_indices=)"])
def _unique_indices(places: Places, trace: Trace) -> list[Edit]:
    """The argument is removed, if the call has no dst_rmw_op to which it belongs."""
    call = call_of(places.file, trace.node)
    if any(keyword.arg == "dst_rmw_op" for keyword in call.keywords):
        raise ByHand("dst_rmw_op has to go first")
    return places.arguments(call, [trace.node])


@rewrite(scalars.RANGES_ARE_PYTHONS)
def _range(places: Places, trace: Trace) -> list[Edit]:
    """``nl.affine_range(n)`` becomes ``range(n)``."""
    call = call_of(places.file, trace.node)
    if call.keywords:
        raise ByHand("range takes no keywords")
    return [places.replacement(call.func, "range")]


@rewrite(
    "nisa.nc_matmul(psumAccumulateFlag=)",
    "ncc.collective_permute_implicit_current_processing_rank_id(num_channels=)",
)
def _remove_argument(places: Places, trace: Trace) -> list[Edit]:
    """The argument is removed."""
    return places.arguments(call_of(places.file, trace.node), [trace.node])


@rewrite("nisa.nc_matmul(is_moving_zero=)")
def _moving_onezero(places: Places, trace: Trace) -> list[Edit]:
    """``is_moving_zero=`` becomes ``is_moving_onezero=``."""
    node = trace.node
    assert isinstance(node, ast.keyword)  # noqa: S101  what the form is
    return [places.replacement(node, f"is_moving_onezero={places.file.code(node.value)}")]


_MOVED_OPERANDS: Final = {
    instructions.MATMUL_WITHOUT_ACCUMULATE.name: (6, ("tile_position", "tile_size", "perf_mode")),
    instructions.DMA_WITHOUT_PRIORITY.name: (2, ("oob_mode", "dge_mode", "engine")),
}
"""Row -> position of the first operand that moved, and the names of the operands from there on."""


@rewrite(instructions.MATMUL_WITHOUT_ACCUMULATE, instructions.DMA_WITHOUT_PRIORITY)
def _name_operands(places: Places, trace: Trace) -> list[Edit]:
    """Positional operands whose position changed become keywords."""
    file, call = places.file, call_of(places.file, trace.node)
    first, names = _MOVED_OPERANDS[trace.row.name]
    if file.short(call.func) == "nisa.dma_transpose" or len(call.args) > first + len(names):
        raise ByHand("operands by position need their names")
    return [
        places.replacement(value, f"{name}={file.code(value)}")
        for name, value in zip(names, call.args[first:], strict=False)
    ]
