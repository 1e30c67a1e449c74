"""Integers that the program of a compiled graph would round, and infinities that it would spread.

Programs reduce, order and multiply matrices of integers in float32, exact up to 2**24, and have no
integers of 64 bits. A single operator is compared with the host (`dispatch.exact`); values within a
program are not, so a graph with larger integers runs operator by operator. So does a graph that
resamples images with infinite elements.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Any, Final

import torch
from torch import Tensor, fx
from torch._ops import OpOverload

from trnsim.torch import pytorch
from trnsim.torch.aten.decompositions import resampling
from trnsim.torch.aten.operator_call import tensors_in
from trnsim.torch.compile.host_run import host_module
from trnsim.torch.dispatch.alias import host_alias
from trnsim.torch.dispatch.exact import LARGEST_EXACT, may_confuse_lowest, spreads_infinity

_SUMS: Final = frozenset(
    {
        *("sum", "nansum", "trace", "cumsum", "index_add", "scatter_add", "scatter_reduce"),
        *("mm", "bmm", "mv", "dot", "vdot", "addmm", "addbmm", "addmv", "addr", "baddbmm"),
        *("convolution", "index_put", "prod", "cumprod"),
    }
)
"""Operators whose partial sums may be larger than their operands and results."""
_FLOAT32_INTEGERS: Final = range(-LARGEST_EXACT, LARGEST_EXACT + 1)
_INT32_INTEGERS: Final = range(-(2**31), 2**31)
_EXACT_IN_32_BITS: Final = frozenset(
    {
        *("add", "sub", "rsub", "mul", "neg", "abs", "sign", "clamp", "clamp_min", "clamp_max"),
        *("maximum", "minimum", "eq", "ne", "lt", "le", "gt", "ge", "where", "bitwise_not"),
        *("bitwise_and", "bitwise_or", "bitwise_xor", "_to_copy", "clone", "alias", "detach"),
        *("view", "_unsafe_view", "expand", "permute", "t", "transpose", "unsqueeze", "squeeze"),
        *("bitwise_left_shift", "bitwise_right_shift", "__lshift__", "__rshift__"),
        *("slice", "select", "split", "split_with_sizes", "cat", "stack", "full", "full_like"),
    }
)
"""Operators that a program computes exactly on integers of 32 bits."""


class LargeIntegers:
    """Finds operands that a graph's program computes wrong, by values that the host computes."""

    def __init__(
        self, module: fx.GraphModule, unread_names: AbstractSet[str] = frozenset()
    ) -> None:
        """A search of a traced graph.

        Args:
            module: the graph.
            unread_names: names of the arguments and constants that its program does not read.
        """
        self._checked_graph = _checked_part(module)
        self._unread_names = unread_names

    def reason(self, args: tuple[Any, ...]) -> str:
        """The reason, with the operator, why the program cannot compute these arguments, or ""."""
        if self._checked_graph is None:
            return ""
        aliases = [
            host_alias(value) if isinstance(value, Tensor) and not value.is_cpu else value
            for value in args
        ]
        search = _Search(self._checked_graph, self._unread_names)
        try:
            with pytorch.without_modes(), torch.no_grad():
                search.run(*aliases)
        except _Inexact as error:
            return error.reason
        except (RuntimeError, IndexError) as error:
            return f"the host refuses it: {error}"
        return ""


class _Inexact(Exception):
    """An operator has operands that a program does not compute exactly."""

    def __init__(self, reason: str) -> None:
        self.reason = reason  # the interpreter adds lines to the text
        super().__init__(reason)


class _Search(fx.Interpreter):
    """Runs a graph until an operator has operands that a program does not compute exactly.

    Arguments and constants that the program does not read are zeros here.
    """

    def __init__(self, module: fx.GraphModule, unread_names: AbstractSet[str]) -> None:
        super().__init__(module)
        self._unread_names = unread_names

    def run_node(self, n: fx.Node) -> Any:
        """The node's result.

        Raises:
            _Inexact: if a program does not compute it, or a part of its sum, exactly.
        """
        result = super().run_node(n)
        if n.name in self._unread_names:
            return torch.zeros_like(result)
        tensors = tensors_in(result)
        if any(_is_integer(tensor) and _exceeds(_INT32_INTEGERS, tensor) for tensor in tensors):
            raise _Inexact(f"{n.target} has integers beyond 32 bits")
        if isinstance(n.target, OpOverload):
            self._check(n, n.target, result)
        return result

    def _check(self, node: fx.Node, target: OpOverload, result: Any) -> None:
        args, kwargs = self.fetch_args_kwargs_from_env(node)
        name = target.overloadpacket.__name__
        if may_confuse_lowest(name, args):
            raise _Inexact(f"{target} reads the lowest numbers of its format")
        if spreads_infinity(name, args):
            raise _Inexact(f"{target} reads elements that are infinite or NaN")
        operands = tensors_in(args)
        if any(tensor.dtype.is_floating_point for tensor in operands):
            return  # integers beside floating point are indices
        integers = list(filter(_is_integer, operands))
        float_tensors = () if name in _EXACT_IN_32_BITS else (*integers, *tensors_in(result))
        if any(_exceeds(_FLOAT32_INTEGERS, tensor) for tensor in float_tensors):
            raise _Inexact(f"{target} has integers beyond 2**24")
        if (
            name in _SUMS
            and integers
            and _exceeds(_exact_range(result), _sum_of_magnitudes(target, args, kwargs))
        ):
            raise _Inexact(f"{target} adds integers beyond 2**24, or beyond those of its type")


def _sum_of_magnitudes(target: Any, args: Any, kwargs: Any) -> Tensor:
    """The operator's result for the magnitudes of its integers, which bounds all partial sums."""
    # One of several tensors may be of indices, which are integers.
    wide_dtype = torch.int64 if len(tensors_in(args)) > 1 else torch.float64
    magnitudes = [value.to(wide_dtype).abs() if _is_integer(value) else value for value in args]
    factors = {name: abs(kwargs[name]) for name in ("alpha", "beta") if name in kwargs}
    dtype = {"dtype": wide_dtype} if "dtype" in kwargs else {}
    total: Tensor = target(*magnitudes, **{**kwargs, **factors, **dtype})
    return total


def _exact_range(result: Tensor) -> range:
    """The integers that both float32 and the type of a result represent exactly."""
    if not _is_integer(result):
        return _FLOAT32_INTEGERS
    limits = torch.iinfo(result.dtype)
    return range(
        max(limits.min, _FLOAT32_INTEGERS.start), min(limits.max + 1, _FLOAT32_INTEGERS.stop)
    )


def _checked_part(module: fx.GraphModule) -> fx.GraphModule | None:
    """A copy of a graph on the host that returns integers and resampled images; None without any.

    Operators whose operands are integers count too.
    """
    copy = host_module(module)
    nodes = [
        node
        for node in copy.graph.nodes
        if any(map(_is_integer, tensors_in(node.meta.get("val"))))
        or _reads_integers(node)
        or _resamples(node)
    ]
    if not nodes:
        return None
    (output,) = (node for node in copy.graph.nodes if node.op == "output")
    output.args = (tuple(nodes),)
    copy.graph.eliminate_dead_code()
    copy.recompile()
    return copy


def _is_integer(value: Any) -> bool:
    """True for a tensor of integers; booleans do not count."""
    if not isinstance(value, Tensor) or value.dtype is torch.bool:
        return False
    return not value.dtype.is_floating_point and not value.dtype.is_complex


def _reads_integers(node: fx.Node) -> bool:
    """True for an operator whose operands are all integers.

    Integers beside floating-point operands would be indices.
    """
    operands = [
        tensor for source in node.all_input_nodes for tensor in tensors_in(source.meta.get("val"))
    ]
    is_real = any(tensor.dtype.is_floating_point for tensor in operands)
    return node.op == "call_function" and not is_real and any(map(_is_integer, operands))


def _resamples(node: fx.Node) -> bool:
    """True for an operator of the family of resampling."""
    target = node.target
    return (
        isinstance(target, OpOverload)
        and target.overloadpacket.__name__ in resampling.DECOMPOSITIONS
    )


def _exceeds(exact_range: range, tensor: Tensor) -> bool:
    """True if a tensor has a number beyond the range `exact_range`, or NaN: infinity times 0."""
    if not tensor.numel() or not (_is_integer(tensor) or tensor.dtype is torch.float64):
        return False
    lowest, highest = (tensor.long() if _is_integer(tensor) else tensor).aminmax()
    return not (exact_range.start <= lowest.item() and highest.item() < exact_range.stop)
