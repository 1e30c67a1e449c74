"""Stochastic rounding of what an operator returns, where NEURON_RT_STOCHASTIC_ROUNDING_EN=1 asks.

The host computes the operator once more from its operands in float32, and each result in a format
of 16 or 8 bits is rounded from there, up or down by chance, as rounding on the way out of an engine
would. Random numbers come from a generator of their own, which the seed of the core's generator
starts: `torch.manual_seed` gives the same roundings again, and other draws are those of a run
without it. Operators that draw random numbers round to nearest, as do `exact` numerics.

Source: rounding-modes.rst, Stochastic Rounding (SR).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import torch
from torch import Tensor
from torch.utils._pytree import tree_map

from trnsim.dtypes import as_dtype
from trnsim.dtypes.stochastic import round_stochastically
from trnsim.torch import pytorch
from trnsim.torch.api.rng import rounding_generator
from trnsim.torch.aten.operator_call import tensors_in
from trnsim.torch.dispatch.alias import host_alias
from trnsim.torch.dispatch.contracts import read_contract
from trnsim.torch.dispatch.host_arrays import tensor_of

if TYPE_CHECKING:
    from torch._ops import OpOverload

    from trnsim.torch.pytorch import Kernel

ROUNDED: Final = frozenset({torch.bfloat16, torch.float16, torch.float8_e4m3fn, torch.float8_e5m2})
"""The formats that results are rounded to by chance."""


def rounded(values: Tensor, dtype: torch.dtype, core: int) -> Tensor:
    """Host values in float32, rounded by chance to another format with this core's numbers."""
    name = str(dtype).removeprefix("torch.")
    drawn = round_stochastically(values.numpy(), as_dtype(name), rounding_generator(core))
    return tensor_of(drawn).reshape(values.shape)


def rounding(name: str, kernel: Kernel, args: Any, kwargs: Any) -> Any:
    """The host's `kernel` called, and its results of few bits rounded by chance instead."""
    operator = pytorch.overload(name)
    if operator is None or not _rounds(operator, args, kwargs):
        return kernel(*args, **kwargs)
    wide_args, wide_kwargs = tree_map(_widened, (tuple(args), kwargs))
    result = kernel(*args, **kwargs)
    wanted = _results(operator, args, kwargs, result)
    if any(tensor.dtype in ROUNDED and tensor.numel() for tensor in wanted):
        try:
            wide = operator(*wide_args, **wide_kwargs)
        except RuntimeError:  # it has no form in float32
            return result
        found = _results(operator, wide_args, wide_kwargs, wide)
        for tensor, values in zip(wanted, found, strict=True):
            if tensor.dtype in ROUNDED and values.dtype is torch.float32:
                drawn = rounded(values.contiguous(), tensor.dtype, tensor.get_device())
                host_alias(tensor).copy_(drawn)
    return result


def _rounds(operator: OpOverload[..., Any], args: Any, kwargs: Any) -> bool:
    """Whether a call may round at all: a format of few bits is around, and nothing is drawn."""
    contract = read_contract(operator)
    if contract.is_seeded or contract.generator:
        return False
    dtypes = {tensor.dtype for tensor in tensors_in([*args, *kwargs.values()])}
    return bool(ROUNDED & {*dtypes, kwargs.get("dtype")})


def _widened(value: Any) -> Any:
    """A copy on the host, and float32 in the place of a format of few bits."""
    if isinstance(value, Tensor):
        host = value if value.is_cpu else host_alias(value)
        return host.to(torch.float32) if host.dtype in ROUNDED else host.clone()
    if isinstance(value, torch.device):
        return torch.device("cpu")
    return torch.float32 if value in ROUNDED else value


def _results(operator: OpOverload[..., Any], args: Any, kwargs: Any, result: Any) -> list[Tensor]:
    """What a call returned, or what it wrote where it returns nothing."""
    if result is not None:
        return tensors_in(result)
    arguments = operator._schema.arguments  # noqa: SLF001  PyTorch's way to ask
    given = {**dict(zip((a.name for a in arguments), args, strict=False)), **kwargs}
    written = [a.name for a in arguments if a.alias_info is not None and a.alias_info.is_write]
    return tensors_in([given[name] for name in written if name in given])
