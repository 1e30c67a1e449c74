"""Kernels without values: PyTorch's own shape functions determine the results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from trnsim.torch.api.core_index import core_index
from trnsim.torch.api.memory import place, require_room_in_hbm
from trnsim.torch.device_name import is_neuron
from trnsim.torch.dispatch.contracts import Contract
from trnsim.torch.pytorch import Kernel

if TYPE_CHECKING:
    from torch._ops import OpOverload

_META = torch.device("meta")
_MOST_CACHED_CALLS = 4096


def shape_kernel(operator: OpOverload[..., Any], contract: Contract, kernel: Kernel) -> Kernel:
    """The kernel of an operator that allocates its results and does not compute them.

    Where PyTorch has no shape function for it, `kernel` computes values.
    """
    cache: dict[Any, Any] = {}

    def results_on_meta(args: Any, kwargs: Any) -> Any:
        """The results of PyTorch's shape function, which is slower than the cache."""
        # New tensors and quotients of integers have the default dtype.
        key = torch.get_default_dtype(), _key(args), _key(tuple(sorted(kwargs.items())))
        if key not in cache:
            if len(cache) >= _MOST_CACHED_CALLS:
                cache.clear()
            cache[key] = operator(*_on_meta(args), **_keywords_on_meta(kwargs))
        return cache[key]

    def allocate_results(*args: Any, **kwargs: Any) -> Any:
        if not contract.returned_arguments:
            return None
        try:
            if contract.outs:
                return _resize_outs(contract, operator, args, kwargs)
            if all(slot is not None for slot in contract.returned_arguments):
                arguments = _result_arguments(contract, args, kwargs)
                return arguments[0] if len(arguments) == 1 else tuple(arguments)
            results = results_on_meta(args, kwargs)
        except (NotImplementedError, RuntimeError):  # no shape function, or it depends on values
            return kernel(*args, **kwargs)
        core = _core(args, kwargs)
        if len(contract.returned_arguments) == 1:
            return _empty_tensors(results, core)
        return tuple(
            _empty_tensors(part, core) if slot is None else argument
            for part, slot, argument in zip(
                results,
                contract.returned_arguments,
                _result_arguments(contract, args, kwargs),
                strict=True,
            )
        )

    return allocate_results


def _key(value: Any) -> Any:
    """Hashable key of all that a shape function can depend on in an argument."""
    if isinstance(value, Tensor):
        return value.shape, value.stride(), value.dtype
    if isinstance(value, list | tuple):
        return tuple(_key(part) for part in value)
    # 1 == 1.0 == True, but their results have different dtypes.
    return type(value), value if value.__hash__ is not None else repr(value)


def _resize_outs(contract: Contract, operator: OpOverload[..., Any], args: Any, kwargs: Any) -> Any:
    """The tensors of `out=`, resized to the shape of the results."""
    meta_arguments = _keywords_on_meta(kwargs)
    operator(*_on_meta(args), **meta_arguments)
    outs: tuple[Tensor, ...] = tuple(kwargs[name] for name in contract.outs)
    for out, name in zip(outs, contract.outs, strict=True):
        if out.shape != meta_arguments[name].shape:
            out.resize_(meta_arguments[name].shape)
    first, *others = outs
    return outs if others else first


def _result_arguments(contract: Contract, args: Any, kwargs: Any) -> list[Any]:
    """For each result the argument that it is, or None."""
    return [
        None if slot is None else args[slot[0]] if slot[0] < len(args) else kwargs[slot[1]]
        for slot in contract.returned_arguments
    ]


def _on_meta(value: Any) -> Any:
    if isinstance(value, Tensor):
        return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=_META)
    if isinstance(value, list | tuple):
        return type(value)(_on_meta(part) for part in value)
    return value


def _keywords_on_meta(kwargs: dict[str, Any]) -> dict[str, Any]:
    meta_arguments = {
        name: _on_meta(value) for name, value in kwargs.items() if name != "generator"
    }
    return meta_arguments | ({"device": _META} if "device" in meta_arguments else {})


def _core(args: Any, kwargs: Any) -> int:
    """The core for the results: the first tensor's core, or the core of the argument `device`."""
    for value in [*args, *kwargs.values()]:
        for tensor in value if isinstance(value, list | tuple) else [value]:
            if isinstance(tensor, Tensor) and is_neuron(tensor.device):
                return tensor.get_device()
    return core_index(kwargs.get("device"))


def _empty_tensors(results: Any, core: int) -> Any:
    """Device tensors for meta tensors; the host does not touch their memory."""
    if isinstance(results, Tensor):
        require_room_in_hbm(results.untyped_storage().nbytes(), core)
        host = torch.empty_strided(
            results.shape, results.stride(), dtype=results.dtype, device="cpu"
        )
        return place(host, core)
    if isinstance(results, list | tuple):
        return type(results)(_empty_tensors(part, core) for part in results)
    return results
