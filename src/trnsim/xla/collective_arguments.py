"""Checks of the values, dimensions and scales that collectives of `xla_model` take."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Number
from typing import Any

from torch import Tensor

from trnsim.device.program_line import program_line
from trnsim.errors import BadInput


class CollectiveMisused(BadInput, ValueError):
    """Error of a collective whose arguments do not fit the ranks or the tensor."""


def require_tensor(kind: str, value: Any) -> None:
    """Refuse a value that is not a tensor."""
    if not isinstance(value, Tensor):
        raise CollectiveMisused(
            f"xm.{kind} of a {type(value).__name__}; legal: a tensor, or a list of tensors",
            fix="pass the tensor",
            line=program_line(),
        )


def require_dim(kind: str, value: Any, dim: Any) -> None:
    """Refuse a value that is not a tensor, or has no such dimension."""
    require_tensor(kind, value)
    rank = value.dim()
    if not isinstance(dim, int) or not -rank <= dim < rank:
        legal = f"{-rank} to {rank - 1}" if rank else "a tensor with a dimension"
        raise CollectiveMisused(
            f"xm.{kind} along dimension {dim!r} of a tensor of shape {list(value.shape)}; legal: "
            f"{legal}",
            fix="name a dimension that the tensor has" if rank else "tensor.unsqueeze(0)",
            line=program_line(),
        )


def require_scale(kind: str, scale: Any) -> None:
    """Refuse a scale that is neither a number nor a tensor with one element."""
    is_number = isinstance(scale, Number)
    if not is_number and not (isinstance(scale, Tensor) and scale.numel() == 1):
        scale_text = (
            f"a tensor of {list(scale.shape)}" if isinstance(scale, Tensor) else repr(scale)
        )
        raise CollectiveMisused(
            f"xm.{kind} with scale={scale_text}; legal: a number",
            fix="pass the factor of the sum, such as scale=1.0, or 1 / the number of ranks",
            line=program_line(),
        )


def require_all_ranks(tag: str, replicas: Any, count: int) -> None:
    """Refuse the ranks of a rendezvous that are not as many as all ranks."""
    if not isinstance(replicas, Sequence) or len(replicas) != count:
        participants = (
            f"{len(replicas)} of {count} ranks" if isinstance(replicas, Sequence) else replicas
        )
        raise CollectiveMisused(
            f"xm.rendezvous({tag!r}) of {participants}",
            fix="leave `replicas` out: all ranks meet",
            line=program_line(),
        )


def require_function(tag: str, reduce_fn: Any) -> None:
    """Refuse a reduction of a mesh that is not a function."""
    if not callable(reduce_fn):
        raise CollectiveMisused(
            f"xm.mesh_reduce({tag!r}) with reduce_fn={reduce_fn!r}; legal: a function of a list",
            fix=f"xm.mesh_reduce({tag!r}, data, sum)",
            line=program_line(),
        )
