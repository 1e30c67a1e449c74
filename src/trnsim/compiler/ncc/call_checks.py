"""Checks of the framework's calls for operators that neuronx-cc refuses.

The names are those of PyTorch's operators. Of the codes on data types, an operator gets the first
that applies; an operator without a lowering to which none applies gets NCC_EVRF001.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from trnsim.compiler.ncc.calls import CompileTarget, FrameworkCall

_WIDE_INTEGERS: Final = ("int32", "int64")
_SHORT_INTEGERS: Final = ("int8", "int16", "uint8", "bool")
_PRODUCTS: Final = frozenset(
    {
        *("mm", "bmm", "addmm", "baddbmm", "addbmm", "mv", "addmv", "dot", "vdot", "linear"),
        *("matmul", "_int_mm", "inner", "tensordot", "einsum", "chain_matmul"),
    }
)
_SCATTERS: Final = frozenset({"scatter_add", "index_add", "bincount", "embedding_dense_backward"})
_SHIFTS: Final = frozenset({"bitwise_right_shift", "__rshift__", "__irshift__"})
_POOLS: Final = frozenset(
    f"max_pool{rank}d{end}" for rank in (1, 2, 3) for end in ("", "_with_indices")
)
_LARGEST_UINT32: Final = 2**32 - 1

Check = Callable[[FrameworkCall, CompileTarget], bool]


def call_refusals(call: FrameworkCall, target: CompileTarget) -> Iterator[tuple[str, str]]:
    """The codes under which a call is refused, each with the operator and its operands."""
    type_codes = [code for code, check in _TYPES.items() if check(call, target)]
    operator_codes = [code for code, check in _OPERATORS.items() if check(call, target)]
    for code in type_codes[:1]:
        yield code, f"{call.on()} gives {', '.join(map(str, call.results))}"
    for code in operator_codes:
        yield code, call.on()
    if call.reason and not type_codes and not operator_codes:
        yield "NCC_EVRF001", f"{call.on()}: {call.reason}"


def _has_dtype(*names: str) -> Check:
    """A check for calls that read or return a tensor of one of these types."""

    def check(call: FrameworkCall, _: CompileTarget) -> bool:
        return any(tensor.dtype in names for tensor in (*call.tensors, *call.results))

    return check


def _has_huge_constant(call: FrameworkCall, _: CompileTarget) -> bool:
    is_unsigned = any(tensor.dtype == "uint64" for tensor in (*call.tensors, *call.results))
    return is_unsigned and any(number > _LARGEST_UINT32 for number in call.numbers)


def _is_dynamic(call: FrameworkCall, _: CompileTarget) -> bool:
    return any(None in tensor.shape for tensor in (*call.tensors, *call.results))


def _is_dilated_twice(call: FrameworkCall, _: CompileTarget) -> bool:
    """True for a convolution with gaps in input and kernel.

    Gaps in the input are the strides of a transposed convolution or of a gradient.
    """
    name = call.name.removesuffix("_overrideable")
    if name not in ("convolution", "convolution_backward"):
        return False
    is_gradient = name == "convolution_backward"
    has_gaps = call.arguments["transposed"] != is_gradient
    is_input_computed = not is_gradient or call.arguments["output_mask"][0]
    steps = call.arguments["stride"], call.arguments["dilation"]
    return bool(has_gaps and is_input_computed) and all(max(step) > 1 for step in steps)


def _is_topk_of_integers(call: FrameworkCall, _: CompileTarget) -> bool:
    return call.name == "topk" and call.tensors[0].dtype in _WIDE_INTEGERS


def _is_combining_scatter(call: FrameworkCall) -> bool:
    """True if a call is a scatter that combines elements, other than `scatter_reduce`."""
    if call.name == "scatter":
        return bool(call.option("reduce", ""))
    if call.name in ("index_put", "_unsafe_index_put"):
        return bool(call.option("accumulate", False))
    return call.name in _SCATTERS


def _reduces_integers(call: FrameworkCall, _: CompileTarget) -> bool:
    if call.name == "scatter_reduce":
        return any(tensor.dtype in (*_WIDE_INTEGERS, *_SHORT_INTEGERS) for tensor in call.results)
    return _is_combining_scatter(call) and any(
        tensor.dtype in _SHORT_INTEGERS for tensor in call.results
    )


def _scatters_integers(call: FrameworkCall, target: CompileTarget) -> bool:
    return (
        "scatter" not in target.flags.implicit_integer_downcast
        and _is_combining_scatter(call)
        and any(tensor.dtype in _WIDE_INTEGERS for tensor in call.results)
    )


def _is_dilated_pool(call: FrameworkCall, _: CompileTarget) -> bool:
    dilation = call.option("dilation", 1)
    return call.name in _POOLS and max(dilation if isinstance(dilation, list) else [dilation]) > 1


def _shifts_short(call: FrameworkCall, _: CompileTarget) -> bool:
    return call.name in _SHIFTS and call.tensors[0].dtype in ("int8", "int16")


def _multiplies_integers(call: FrameworkCall, target: CompileTarget) -> bool:
    """True for products of wide integers; Trn1 multiplies 32-bit integers, with a warning."""
    if call.name not in _PRODUCTS or "dot" in target.flags.implicit_integer_downcast:
        return False
    dtypes = ("int64",) if target.chip.core.features.int32_matmul else _WIDE_INTEGERS
    return any(tensor.dtype in dtypes for tensor in call.tensors)


def _exchanges_wide_integers(name: str, flag: str) -> Check:
    """A check for calls of a collective on wide integers that no flag permits."""

    def check(call: FrameworkCall, target: CompileTarget) -> bool:
        is_collective = call.operator.startswith("_c10d_functional") and call.name.startswith(name)
        is_permitted = flag in target.flags.implicit_integer_downcast
        return (
            is_collective
            and not is_permitted
            and any(tensor.dtype in _WIDE_INTEGERS for tensor in call.tensors)
        )

    return check


def _is_wide_power(call: FrameworkCall, target: CompileTarget) -> bool:
    is_integer = any(tensor.dtype == "int64" for tensor in call.results)
    return call.name == "pow" and is_integer and "pow" not in target.flags.implicit_integer_downcast


_TYPES: Final[dict[str, Check]] = {
    "NCC_EVRF004": _has_dtype("complex32", "complex64", "complex128"),
    "NCC_EVRF005": _has_dtype("float8_e4m3fnuz", "float8_e4m3b11fnuz", "float8_e5m2fnuz"),
    "NCC_ESPP047": _has_dtype("float8_e8m0fnu"),
    "NCC_ESPP004": _has_dtype(
        *("float64", "float4_e2m1fn_x2", "qint8", "quint8", "qint32", "quint4x2", "quint2x4"),
    ),
    "NCC_ESFH002": _has_huge_constant,
}
_OPERATORS: Final[dict[str, Check]] = {
    "NCC_EMOD025": _is_dynamic,
    "NCC_EVRF010": _is_dilated_twice,
    "NCC_EVRF013": _is_topk_of_integers,
    "NCC_EVRF016": _reduces_integers,
    "NCC_EVRF018": _is_dilated_pool,
    "NCC_EVRF022": _shifts_short,
    "NCC_EVRF035": _multiplies_integers,
    "NCC_EVRF060": _scatters_integers,
    "NCC_EVRF061": _exchanges_wide_integers("all_reduce", "all_reduce"),
    "NCC_EVRF062": _is_wide_power,
    "NCC_EVRF063": _exchanges_wide_integers("reduce_scatter_tensor", "reduce_scatter"),
}
