"""Numbers as arguments where a schema requires a tensor.

PyTorch wraps the 5 of `x % 5` in a tensor, and its bridge to Python unwraps it again. Except for
add, mul and a few others, the host's operator would refuse a number there.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from trnsim.torch.dispatch.contracts import Contract

if TYPE_CHECKING:
    from torch._ops import OpOverload


def accepting_numbers(operator: OpOverload[..., Any], contract: Contract) -> Callable[..., Any]:
    """The host's operator, extended to accept numbers for tensors."""
    call = operator._op  # noqa: SLF001  one Python frame less than calling the overload
    if len(contract.tensors) < 2:  # noqa: PLR2004  one argument is the tensor that dispatched here
        return call

    def call_with_numbers(*args: Any, **kwargs: Any) -> Any:
        try:
            return call(*args, **kwargs)
        except RuntimeError:
            arguments = [*zip(contract.arguments, args, strict=False), *kwargs.items()]
            number_names = {
                name
                for name, value in arguments
                if name in contract.tensors and isinstance(value, numbers.Number)
            }
            if not number_names:
                raise
        return _with_scalars(operator, contract, number_names, args, kwargs)

    return call_with_numbers


def _with_scalars(
    operator: OpOverload[..., Any],
    contract: Contract,
    number_names: set[str],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    """The result of the overload that takes numbers; without one, of tensors made of the numbers.

    That overload promotes dtypes as PyTorch does for numbers.
    """
    try:
        return operator.overloadpacket(*args, **kwargs)
    except RuntimeError:
        tensor_args = [
            torch.tensor(value, device="cpu") if name in number_names else value
            for name, value in zip(contract.arguments, args, strict=False)
        ]
        tensor_kwargs = {
            name: torch.tensor(value, device="cpu") if name in number_names else value
            for name, value in kwargs.items()
        }
        return operator(*tensor_args, **tensor_kwargs)
