"""Calls of operators with `exact` numerics: by their own kernels, instruction by instruction.

An operator without a kernel is computed by the host, with a warning and a count, or refused under
the policy `chip`, which leaves its tensors unchanged.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import Tensor

from trnsim.device.device_core import target
from trnsim.device.numerics import mode
from trnsim.errors import Unspecified
from trnsim.torch.aten.decomposition import Unlowered
from trnsim.torch.aten.operator_call import (
    NO_LOWERING,
    build,
    call_of,
    ignored_arguments,
    plain_name,
    tensors_in,
)
from trnsim.torch.aten.spec import spec_of, tensor_text
from trnsim.torch.device_errors import OperatorNotModelled
from trnsim.torch.dispatch.alias import host_alias, on_host
from trnsim.torch.dispatch.fallback_policy import leave_to_host
from trnsim.torch.dispatch.host_arrays import array_of, tensor_of
from trnsim.torch.pytorch import Kernel

if TYPE_CHECKING:  # loaded where a graph is built
    from trnsim.graph import Graph

LARGEST_EXACT: Final = 2**24
"""The magnitude up to which instructions that compute in float32 have all integers."""
_SEARCHES: Final = ("bucketize", "searchsorted")
_WITH_ANY_INDEX: Final = frozenset({"sort", "topk", "kthvalue", "median", "mode"})
"""Operators whose second result may be the index of any of several equal elements."""
_INTEGERS_BEYOND: Final = (
    "{} has no lowering for integers like these: its instructions are exact up to 2**24, or to 32 "
    "bits"
)


def call_exactly(name: str, host_kernel: Kernel, args: Any, kwargs: Any) -> Any:
    """Call `host_kernel`, then let the operator's own kernel overwrite its results.

    The host's call determines the result tensors: new ones, or arguments written in place.

    Raises:
        OperatorNotModelled: for an operator without a kernel, under the policy `chip`.
    """
    from trnsim.torch.aten.decompositions import DECOMPOSITIONS  # noqa: PLC0415  this mode alone

    inputs = _graph_inputs(name, args, kwargs)
    if plain_name(name) not in DECOMPOSITIONS and any(tensor.numel() for tensor in inputs):
        _leave_to_host(name, inputs, NO_LOWERING.format(name))
        return host_kernel(*args, **kwargs)
    earlier_inputs = [_in_storage_order(tensor) for tensor in inputs]
    written_tensors = tensors_in([kwargs[key] for key in ignored_arguments(name) & kwargs.keys()])
    outs = [
        tensor for tensor in written_tensors if not tensor.is_cpu
    ]  # the host's call refuses others
    earlier_outs = [host_alias(tensor).clone() for tensor in outs]
    result = host_kernel(*args, **kwargs)
    try:
        _overwrite(name, args, kwargs, result, earlier_inputs)
    except (Unlowered, Unspecified) as error:
        is_of_values = isinstance(error, Unspecified)
        reason = f"{name} of these values: {error.reason}" if is_of_values else error.reason
        with _restoring(inputs, earlier_inputs, outs, earlier_outs):
            _leave_to_host(name, inputs, reason)
    return result


def _overwrite(name: str, args: Any, kwargs: Any, result: Any, inputs: list[Tensor]) -> None:
    """Overwrite the results of a call with the values that the operator's kernel computes.

    `inputs` are copies of its inputs from before the host's call, which may have written them.

    Raises:
        Unlowered: if it has no kernel, or values that its kernel cannot compute.
        Unspecified: for values of which AWS does not say what the kernel's instructions give.
    """
    from trnsim.graph import Kind  # noqa: PLC0415  likewise
    from trnsim.lower import evaluate  # noqa: PLC0415  likewise

    is_list_in_place = result is None and name.startswith("aten::_foreach_")
    if result is None and not is_list_in_place:
        raise Unlowered(f"{name} returns nothing of what it writes")
    results = [t for t in tensors_in(args[0] if is_list_in_place else result) if t.numel()]
    if not results:
        return  # no elements
    graph = build(call_of(name, args, kwargs, result)).graph
    if any(node.name == "rng" for node in graph.nodes):
        return  # the host's random numbers stay
    _check_inputs(name, graph, inputs)
    if any(node.kind is Kind.CONTRACTION for node in graph.nodes) and spreads_infinity(
        plain_name(name), args
    ):
        raise Unlowered(f"{name} has no lowering for elements that are infinite or NaN")
    arrays = evaluate(graph, [array_of(tensor) for tensor in inputs], target().name)
    pairs = [
        (host_alias(tensor), tensor_of(array).reshape(tensor.shape))
        for tensor, array in zip(results, arrays, strict=True)
    ]
    if not any(tensor.is_floating_point() for tensor in inputs):
        _check_integers(name, pairs[:1] if plain_name(name) in _WITH_ANY_INDEX else pairs)
    if plain_name(name) in _SEARCHES:
        _check_boundary_counts(name, pairs)
    if may_confuse_lowest(plain_name(name), args):
        _check_maxima(name, pairs)
    for host, computed in pairs:
        host.copy_(computed)


def _check_inputs(name: str, graph: Graph, inputs: list[Tensor]) -> None:
    """Check that the integers of 64 bits that a graph reads are within 32 bits.

    Raises:
        Unlowered: for integers beyond.
    """
    read_numbers = {value.number for node in graph.nodes for value in node.values}
    for value, tensor in zip(graph.inputs, inputs, strict=True):
        is_long = tensor.dtype is torch.int64 and value.number in read_numbers
        if is_long and tensor.numel() and not torch.equal(tensor, tensor.int().long()):
            raise Unlowered(_INTEGERS_BEYOND.format(name))


def _check_integers(name: str, pairs: list[tuple[Tensor, Tensor]]) -> None:
    """Check the integers that a kernel computes from integers against the host's exact ones.

    No engine computes in 64 bits; some instructions compute in float32, exact up to 2**24, and
    saturate where the host's results wrap.

    Raises:
        Unlowered: for integers that the kernel's instructions cannot compute.
    """
    for host, computed in pairs:
        if not host.is_floating_point() and not torch.equal(host, computed.to(host.dtype)):
            raise Unlowered(_INTEGERS_BEYOND.format(name))


def _check_boundary_counts(name: str, pairs: list[tuple[Tensor, Tensor]]) -> None:
    """Check numbers of boundaries against the host's.

    Raises:
        Unlowered: where they differ. PyTorch searches by halves; among boundaries in no order, or
            with NaN, that does not end at the number of boundaries below the element.
    """
    if not all(torch.equal(host, computed.to(host.dtype)) for host, computed in pairs):
        raise Unlowered(f"{name} has no lowering for boundaries in no order, or with NaN")


def may_confuse_lowest(name: str, args: Sequence[Any]) -> bool:
    """True if an operator's kernel may confuse minus infinity, the lowest finite number and NaN.

    Maximum pools with indices do, as they pad with the lowest finite number.
    """
    if not (name.startswith("max_pool") and name.endswith("with_indices")):
        return False
    image = on_host(args[0])
    is_low = image.is_floating_point() and image.numel()
    return bool(is_low) and not bool((image > torch.finfo(image.dtype).min).all())


def spreads_infinity(name: str, args: Sequence[Any]) -> bool:
    """True if an operator's kernel may add zero times an infinite element or NaN to other elements.

    Kernels that multiply an image by a matrix, of zeros where an element is not read, do.
    """
    from trnsim.torch.aten.decompositions.resampling import DECOMPOSITIONS  # noqa: PLC0415  likewise

    return name in DECOMPOSITIONS and not bool(on_host(args[0]).isfinite().all())


def _check_maxima(name: str, pairs: list[tuple[Tensor, Tensor]]) -> None:
    """Check maxima and their indices against the host's.

    Raises:
        Unlowered: where they differ.
    """
    for host, computed in pairs:
        if not bool(((host == computed) | (host.isnan() & computed.isnan())).all()):
            raise Unlowered(
                f"{name} has no lowering for windows like these: its instructions find no NaN, and "
                "take the lowest number of the format for minus infinity"
            )


def _leave_to_host(name: str, inputs: list[Tensor], reason: str) -> None:
    """Count and warn of an operator that the host computes.

    Raises:
        OperatorNotModelled: under the policy `chip`.
    """
    from trnsim.torch.aten.decompositions import DECOMPOSITIONS  # noqa: PLC0415  likewise

    mode.host_fallbacks[reason] += 1
    tensors = ", ".join(map(tensor_text, inputs))
    similar_names = (
        ()
        if plain_name(name) in DECOMPOSITIONS
        else get_close_matches(plain_name(name), DECOMPOSITIONS)
    )
    leave_to_host(name, reason, f"on {tensors}" if tensors else "without tensors", similar_names)


@contextmanager
def _restoring(
    inputs: list[Tensor],
    earlier_inputs: list[Tensor],
    outs: list[Tensor],
    earlier_outs: list[Tensor],
) -> Generator[None]:
    """Context in which a refusal restores the elements of a call's inputs, and its `out=`."""
    try:
        yield
    except OperatorNotModelled:
        for tensor, earlier_values in zip(inputs, earlier_inputs, strict=True):
            spec = spec_of(tensor)
            if not (tensor.is_cpu or spec.repeated):  # such tensors are never written in place
                host = host_alias(tensor).permute(spec.order)
                host.copy_(earlier_values.reshape(host.shape))
        for tensor, earlier_values in zip(outs, earlier_outs, strict=True):
            host_alias(tensor.resize_(earlier_values.shape)).copy_(earlier_values)
        raise


def _graph_inputs(name: str, args: Any, kwargs: Any) -> list[Tensor]:
    """The inputs of a call's graph, in its order."""
    left_out = ignored_arguments(name)
    values = [*args, *(value for key, value in kwargs.items() if key not in left_out)]
    return [tensor for tensor in tensors_in(values) if not (tensor.is_cpu and not tensor.dim())]


def _in_storage_order(tensor: Tensor) -> Tensor:
    """A copy of a tensor's elements in memory order; broadcast elements appear once."""
    spec = spec_of(tensor)
    host = on_host(tensor)
    for dim in spec.repeated:
        host = host.narrow(dim, 0, 1)
    return host.permute(spec.order).clone(memory_format=torch.contiguous_format)
