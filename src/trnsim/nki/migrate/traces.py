"""Traces: the places where a file relies on a row of the table of behaviours.

A row whose form is a name or a keyword is found by `nki.forms`. Other rows depend on the memory,
the dtype or the rank of a tensor. A function here finds the places whose facts the text of the file
states. Where the text does not state them, the trace is marked as uncertain.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from math import prod
from typing import Any, Final, NamedTuple

from trnsim.behaviours import (
    VERSIONS,
    Behaviour,
    instructions,
    language,
    scalars,
    simulator,
    tensors,
)
from trnsim.isa import DgeMode, DmaEngine, Engine, NcVersion, OobMode, ReduceCmd
from trnsim.nki.dialect import REMOVED_FORMS
from trnsim.nki.migrate.file import Function, SourceFile, argument

ENUMERATIONS: Final[dict[str, tuple[str, Iterable[Any]]]] = {
    "dge_mode": ("nisa.dge_mode", DgeMode),
    "oob_mode": ("nisa.oob_mode", OobMode),
    "reduce_cmd": ("nisa.reduce_cmd", ReduceCmd),
    "engine": ("nisa.engine", Engine),
    "dma_engine": ("nisa.dma_engine", DmaEngine),
    "nc_version": ("nisa.nc_version", NcVersion),
}
"""Parameter -> the spelling of its enumeration in programs, and the enumeration's members."""
_INTEGERS: Final = tuple(f"nl.{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32))
_LOW_PRECISION: Final = ("nl.bfloat16", "nl.float8")
_FEWEST_MOVED: Final = 7
"""Fewest positional operands of a nisa.nc_matmul of which `accumulate` moved the last."""
_MATRIX_RANK: Final = 2
"""Rank of a tensor whose last axis is axis 1."""


class Trace(NamedTuple):
    """A place that relies on a row.

    Attributes:
        row: a row of the table of behaviours.
        node: the place, as a node of the file's syntax tree.
        is_certain: false if the text leaves open whether the place relies on the row.
    """

    row: Behaviour
    node: ast.AST
    is_certain: bool = True

    @property
    def needs_row(self) -> bool:
        """True if the place is legal only where the row holds; false if only where it does not.

        The latter are restrictions: rows without a form that began after the first version.
        """
        return bool(self.row.form) or self.row.since == next(iter(VERSIONS))

    @property
    def line(self) -> int:
        """The line of the place, from 1."""
        return int(getattr(self.node, "lineno", 0))


_Finder = Callable[[SourceFile], Iterator[Trace]]
_finders: Final[list[_Finder]] = []
"""The functions below that are decorated with `_finder`; each finds the traces of a few rows."""


def _finder(function: _Finder) -> _Finder:
    _finders.append(function)
    return function


def traces_of(file: SourceFile) -> list[Trace]:
    """The traces of a file by line; one for each row and place."""
    traces = {(trace.row.name, trace.node): trace for finder in _finders for trace in finder(file)}
    return sorted(traces.values(), key=lambda trace: (trace.line, trace.row.name))


@_finder
def _forms(file: SourceFile) -> Iterator[Trace]:
    """Names, keywords and constructs that a version removed."""
    for form, node in file.forms:
        row = REMOVED_FORMS.get(form)
        is_import = isinstance(node, ast.ImportFrom)
        if row is language.OLD_NAMESPACE:
            continue
        if row is not None and not is_import and not _is_inner_name(file, node):
            yield Trace(row, node)


def _is_inner_name(file: SourceFile, node: ast.AST) -> bool:
    """True for the base of a longer name."""
    return isinstance(file.parent(node), ast.Attribute)


@_finder
def _old_namespace(file: SourceFile) -> Iterator[Trace]:
    """The first name of neuronxcc.nki in each function that is, or is called by, a kernel."""
    functions: set[Function] = set()
    for form, node in file.forms:
        owner = file.function_of(node)
        if form != language.OLD_NAMESPACE.form or owner is None or owner in functions:
            continue
        if any(node in file.reached_from(kernel) for kernel in file.kernels):
            functions.add(owner)
            yield Trace(language.OLD_NAMESPACE, node)


@_finder
def _dynamic_loops(file: SourceFile) -> Iterator[Trace]:
    loops = {"nl.dynamic_range", language.WHILE_REGISTER.form}
    for form, node in file.forms:
        if form in loops and not isinstance(node, ast.ImportFrom):
            yield Trace(language.DYNAMIC_LOOPS_WARN, node)


@_finder
def _list_arguments(file: SourceFile) -> Iterator[Trace]:
    names = {kernel.name for kernel in file.kernels}
    for kernel in file.kernels:
        for default in (*kernel.args.defaults, *kernel.args.kw_defaults):
            if isinstance(default, ast.List):
                yield Trace(language.LIST_ARGUMENTS, default)
    for node in file.nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Subscript):
            callee = node.func.value if isinstance(node.func, ast.Subscript) else node.func
            if not (isinstance(callee, ast.Name) and callee.id in names):
                continue
            for value in (*node.args, *(keyword.value for keyword in node.keywords)):
                if isinstance(value, ast.List) and not _is_in_kernel(file, node):
                    yield Trace(language.LIST_ARGUMENTS, value)


def _is_in_kernel(file: SourceFile, node: ast.AST) -> bool:
    return any(ancestor in file.kernels for ancestor in file.ancestors(node))


@_finder
def _stars(file: SourceFile) -> Iterator[Trace]:
    for kernel in file.kernels:
        if kernel.args.kwonlyargs and kernel.args.vararg is None:
            yield Trace(language.NO_BARE_STAR, kernel.args.kwonlyargs[0])


@_finder
def _identities(file: SourceFile) -> Iterator[Trace]:
    """Comparisons by `is`, except with None, in kernels and in functions that they name."""
    node_sets = [file.reached_from(kernel) for kernel in file.kernels]
    for node in file.nodes:
        if not isinstance(node, ast.Compare) or len(node.ops) != 1:
            continue
        sides = (node.left, node.comparators[0])
        is_none = any(isinstance(side, ast.Constant) and side.value is None for side in sides)
        is_identity = isinstance(node.ops[0], ast.Is | ast.IsNot)
        if is_identity and not is_none and any(node in nodes for nodes in node_sets):
            yield Trace(language.IS_OF_NONE, node)


@_finder
def _outputs(file: SourceFile) -> Iterator[Trace]:
    """The `buffer=` expressions of returned tensors that are not in shared HBM.

    A kernel that another function of the file names is left out: its caller may be a kernel.
    """
    for node in file.nodes:
        owner = file.function_of(node) if isinstance(node, ast.Return) else None
        if not isinstance(node, ast.Return) or owner is None or node.value is None:
            continue
        if owner not in file.kernels or _is_named_elsewhere(file, owner):
            continue
        values = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
        for value in values:
            tensor = file.tensor(value)
            if tensor.buffer in {"nl.hbm", "nl.private_hbm"} and tensor.buffer_node is not None:
                yield Trace(language.OUTPUT_IN_ANY_HBM, tensor.buffer_node)


def _is_named_elsewhere(file: SourceFile, kernel: Function) -> bool:
    """True if another function of the file names a kernel."""
    return any(
        isinstance(node, ast.Name)
        and node.id == kernel.name
        and file.function_of(node) not in {None, kernel}
        for node in file.nodes
    )


@_finder
def _jit_modes(file: SourceFile) -> Iterator[Trace]:
    for call in file.calls("nki.jit"):
        for keyword in call.keywords:
            if keyword.arg == "mode":
                yield Trace(language.MODE_OF_JIT, keyword)


@_finder
def _dma_copies(file: SourceFile) -> Iterator[Trace]:
    for call in file.calls("nisa.dma_copy"):
        source = file.tensor(argument(call, 1, "src"))
        target = file.tensor(argument(call, 0, "dst"))
        if source.buffer == "nl.psum":
            yield Trace(instructions.DMA_READS_PSUM, call)
        mode = argument(call, 4, "dge_mode")
        is_hardware = mode is not None and (
            file.short(mode) == "nisa.dge_mode.hwdge"
            or (isinstance(mode, ast.Constant) and mode.value == DgeMode.hwdge.value)
        )
        if is_hardware and source.dtype and target.dtype and source.dtype != target.dtype:
            are_known = source.dtype.startswith("nl.") and target.dtype.startswith("nl.")
            yield Trace(instructions.HWDGE_OF_TWO_DTYPES, call, are_known)


@_finder
def _memsets(file: SourceFile) -> Iterator[Trace]:
    for call in file.calls("nisa.memset"):
        value = _number(argument(call, 1, "value"))
        dtype = file.tensor(argument(call, 0, "dst")).dtype
        if isinstance(value, float) and value and dtype in _INTEGERS:
            yield Trace(instructions.MEMSET_CASTS, call)
        if value and dtype.endswith("_x4"):
            yield Trace(instructions.MEMSET_PACKED, call)


def _number(node: ast.AST | None) -> float | None:
    """The value of a number literal, with its sign; None for any other expression."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        value = _number(node.operand)
        return None if value is None else -value
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return node.value
    return None


@_finder
def _reductions(file: SourceFile) -> Iterator[Trace]:
    for call in file.calls("nisa.tensor_reduce"):
        rank = file.tensor(argument(call, 2, "data")).rank
        if _number(argument(call, 3, "axis")) == 1 and rank != _MATRIX_RANK:
            yield Trace(instructions.REDUCE_AXIS_1_IS_LAST, call, rank is not None)


@_finder
def _range_selects(file: SourceFile) -> Iterator[Trace]:
    for call in file.calls("nisa.range_select"):
        command = argument(call, 6, "reduce_cmd")
        fill_value = argument(call, 10, "on_false_value")
        is_reset = command is not None and file.short(command).endswith(".reset_reduce")
        if not is_reset or fill_value is not None:
            is_uncertain = is_reset or (command is not None and not file.short(command))
            yield Trace(instructions.RANGE_SELECT_OVERRIDES, call, not is_uncertain)


@_finder
def _integer_enums(file: SourceFile) -> Iterator[Trace]:
    for node in file.nodes:
        if isinstance(node, ast.Call) and file.short(node.func).startswith(
            ("nisa.", "nl.", "ncc.")
        ):
            for keyword in node.keywords:
                value = keyword.value
                is_integer = isinstance(value, ast.Constant) and type(value.value) is int
                if keyword.arg in ENUMERATIONS and is_integer:
                    yield Trace(instructions.INTEGER_ENUMS, value)


@_finder
def _transposes(file: SourceFile) -> Iterator[Trace]:
    for call in file.calls("nisa.dma_transpose"):
        ranks = [
            file.tensor(argument(call, position, name)).rank
            for position, name in enumerate(("dst", "src"))
        ]
        if None not in ranks and ranks[0] != ranks[1]:
            yield Trace(instructions.TRANSPOSE_PADS_RANK, call)


@_finder
def _matmuls(file: SourceFile) -> Iterator[Trace]:
    for call in file.calls("nisa.nc_matmul"):
        dtypes = {
            file.tensor(argument(call, position, name)).dtype
            for position, name in ((1, "stationary"), (2, "moving"))
        }
        if dtypes == {"nl.float8_e4m3", "nl.float8_e4m3fn"}:
            yield Trace(instructions.MATMUL_MIXES_E4M3, call)


@_finder
def _operands(file: SourceFile) -> Iterator[Trace]:
    """Operands by position that have another place in later versions."""
    for call in file.calls("nisa.nc_matmul"):
        if len(call.args) >= _FEWEST_MOVED:
            yield Trace(instructions.MATMUL_WITHOUT_ACCUMULATE, call)
    for name, position in (("nisa.dma_copy", 2), ("nisa.dma_transpose", 3)):
        for call in file.calls(name):
            operand = call.args[position] if len(call.args) > position else None
            if operand is None:
                continue
            if file.short(operand).startswith("nl.") and name == "nisa.dma_copy":
                yield Trace(instructions.DMA_COPY_MODIFIES, call)
            elif file.short(operand).startswith("nisa."):
                yield Trace(instructions.DMA_WITHOUT_PRIORITY, call)


@_finder
def _ranges(file: SourceFile) -> Iterator[Trace]:
    for call in file.calls("nl.affine_range", "nl.sequential_range", "nl.static_range"):
        yield Trace(scalars.RANGES_ARE_PYTHONS, call)


@_finder
def _quantizations(file: SourceFile) -> Iterator[Trace]:
    for call in file.calls("nisa.quantize_mx"):
        yield Trace(instructions.MX_SCALE_TWICE_OCP, call)


@_finder
def _access_patterns(file: SourceFile) -> Iterator[Trace]:
    """Calls of .ap of a tensor that is, or may be, a view of another."""
    for node in file.nodes:
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        if node.func.attr != "ap":
            continue
        base = node.func.value
        tensor = file.tensor(base)
        is_argument = isinstance(base, ast.Name) and _is_argument_of_kernel(file, base)
        if tensor.is_view is not False and not is_argument:
            yield Trace(tensors.AP_OFFSET_ADDS, node, is_certain=False)


def _is_argument_of_kernel(file: SourceFile, node: ast.Name) -> bool:
    """True for an argument of a kernel, which is a whole tensor, that nothing rebinds."""
    owner = file.function_of(node)
    if owner is None or owner not in file.kernels:
        return False
    arguments = {parameter.arg for parameter in (*owner.args.args, *owner.args.kwonlyargs)}
    assigned_names = {
        child.id
        for child in ast.walk(owner)
        if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Store)
    }
    return node.id in arguments - assigned_names


@_finder
def _reshapes(file: SourceFile) -> Iterator[Trace]:
    """Calls of .reshape of a tensor whose shape is written out, to another number of elements."""
    for node in file.nodes:
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        if node.func.attr != "reshape" or not isinstance(node.func.value, ast.Name):
            continue
        new_count = _element_count(argument(node, 0, "shape"))
        creation = file.allocation_of(node.func.value)
        old_count = _element_count(argument(creation, 0, "shape") if creation is not None else None)
        if new_count is not None and old_count is not None and new_count != old_count:
            yield Trace(tensors.RESHAPE_UNCHECKED, node)


def _element_count(node: ast.AST | None) -> float | None:
    """The number of elements of a shape of literals; None for any other expression."""
    if not isinstance(node, ast.Tuple | ast.List):
        return None
    extents = [_number(item) for item in node.elts]
    known_extents = [extent for extent in extents if extent is not None]
    return prod(known_extents) if len(known_extents) == len(extents) else None


@_finder
def _copies(file: SourceFile) -> Iterator[Trace]:
    for call in file.calls("nl.copy"):
        tensor = file.tensor(argument(call, 0, "src"))
        if not tensor.dtype.startswith(("nl.float", "nl.bfloat")):
            is_certain = tensor.dtype in {"nl.int32", "nl.uint32"}
            yield Trace(tensors.COPY_IS_EXACT, call, is_certain)


@_finder
def _rsqrts(file: SourceFile) -> Iterator[Trace]:
    for call in file.calls("nl.rsqrt"):
        buffer = file.tensor(argument(call, 0, "x")).buffer
        if buffer != "nl.sbuf":
            yield Trace(tensors.RSQRT_READS_PSUM, call, buffer == "nl.psum")


@_finder
def _simulations(file: SourceFile) -> Iterator[Trace]:
    """Calls whose values differ between versions of AWS's simulator, in files that use it."""
    names = {file.short(node) for node in file.nodes if isinstance(node, ast.Attribute | ast.Name)}
    if "nki.simulate" not in names:
        return
    yield from _precision_traces(file, names)
    for name, row in (
        ("nisa.nc_find_index8", simulator.FIND_ALL_ONES),
        ("nisa.nc_match_replace8", simulator.REPLACE_FROM_END),
    ):
        for call in file.calls(name):
            yield Trace(row, call, is_certain=False)
    for call in file.calls("nisa.activation"):
        if any(keyword.arg == "reduce_res" for keyword in call.keywords):
            yield Trace(simulator.REDUCE_RES_MAY_ALIAS, call, is_certain=False)
    for call in file.calls("nisa.tensor_copy"):
        source = file.tensor(argument(call, 1, "src")).dtype
        target = file.tensor(argument(call, 0, "dst")).dtype
        if target in _INTEGERS and source.startswith(("nl.float", "nl.bfloat")):
            yield Trace(simulator.CASTS_SATURATE, call, is_certain=False)


def _precision_traces(file: SourceFile, names: set[str]) -> Iterator[Trace]:
    """Uses of nki.simulate in a file that names a low-precision dtype."""
    if any(name.startswith(_LOW_PRECISION) for name in names):
        for node in file.nodes:
            if isinstance(node, ast.Attribute | ast.Name) and file.short(node) == "nki.simulate":
                yield Trace(simulator.PRECISE, node, is_certain=False)
