"""Stochastic rounding of operators' results, with NEURON_RT_STOCHASTIC_ROUNDING_EN=1.

The host computes the operator a second time in float32, and rounds each 16-bit or 8-bit result from
there, up or down at random, as an engine would on writing. The random numbers come from a generator
of their own with the seed of the core's generator: `torch.manual_seed` repeats roundings, and other
draws are the same as without stochastic rounding. Operators that draw random numbers round to
nearest, as do `exact` numerics.

Source: rounding-modes.rst, Stochastic Rounding (SR).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import torch
from torch import Tensor
from torch.utils._pytree import tree_map

from trnsim.torch import pytorch
from trnsim.torch.api.rng import rounding_generator
from trnsim.torch.aten.operator_call import tensors_in
from trnsim.torch.dispatch.alias import host_alias, on_host
from trnsim.torch.dispatch.contracts import read_contract
from trnsim.torch.dispatch.host_arrays import tensor_of
from trnsim.torch.pytorch import Kernel

if TYPE_CHECKING:
    from torch._ops import OpOverload

ROUNDED: Final = frozenset({torch.bfloat16, torch.float16, torch.float8_e4m3fn, torch.float8_e5m2})
"""The dtypes that are rounded stochastically."""


def round_values(values: Tensor, dtype: torch.dtype, core: int) -> Tensor:
    """Host values in float32, rounded stochastically to `dtype` with a core's random numbers."""
    from trnsim.dtypes import as_dtype  # noqa: PLC0415  this mode alone
    from trnsim.dtypes.stochastic import round_stochastically  # noqa: PLC0415  likewise

    name = str(dtype).removeprefix("torch.")
    array = round_stochastically(values.numpy(), as_dtype(name), rounding_generator(core))
    return tensor_of(array).reshape(values.shape)


def call_with_rounding(name: str, kernel: Kernel, args: Any, kwargs: Any) -> Any:
    """Call the host's `kernel`, then replace its low-precision results by stochastic roundings."""
    operator = pytorch.overload(name)
    if operator is None or not _should_round(operator, args, kwargs):
        return kernel(*args, **kwargs)
    wide_args, wide_kwargs = tree_map(_widen, (tuple(args), kwargs))
    result = kernel(*args, **kwargs)
    results = results_of(operator, args, kwargs, result)
    if any(tensor.dtype in ROUNDED and tensor.numel() for tensor in results):
        try:
            wide_result = operator(*wide_args, **wide_kwargs)
        except RuntimeError:  # the operator does not take float32
            return result
        wide_results = results_of(operator, wide_args, wide_kwargs, wide_result)
        for tensor, values in zip(results, wide_results, strict=True):
            if tensor.dtype in ROUNDED and values.dtype is torch.float32:
                rounded_values = round_values(
                    values.contiguous(), tensor.dtype, tensor.get_device()
                )
                host_alias(tensor).copy_(rounded_values)
    return result


def _should_round(operator: OpOverload[..., Any], args: Any, kwargs: Any) -> bool:
    """True if a call may round: it involves low-precision dtypes, and draws no random numbers."""
    contract = read_contract(operator)
    if contract.is_seeded or contract.generator:
        return False
    dtypes = {tensor.dtype for tensor in tensors_in([*args, *kwargs.values()])}
    return bool(ROUNDED & {*dtypes, kwargs.get("dtype")})


def _widen(value: Any) -> Any:
    """A copy on the host, with low-precision dtypes widened to float32."""
    if isinstance(value, Tensor):
        host = on_host(value)
        return host.to(torch.float32) if host.dtype in ROUNDED else host.clone()
    if isinstance(value, torch.device):
        return torch.device("cpu")
    return torch.float32 if value in ROUNDED else value


def results_of(operator: OpOverload[..., Any], args: Any, kwargs: Any, result: Any) -> list[Tensor]:
    """The results of a call, or the tensors that it wrote if it returns nothing."""
    if result is not None:
        return tensors_in(result)
    arguments = operator._schema.arguments  # noqa: SLF001  PyTorch's way to ask
    by_name = {**dict(zip((a.name for a in arguments), args, strict=False)), **kwargs}
    written_names = [
        a.name for a in arguments if a.alias_info is not None and a.alias_info.is_write
    ]
    return tensors_in([by_name[name] for name in written_names if name in by_name])
