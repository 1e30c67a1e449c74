"""Losses, and their gradients."""

from __future__ import annotations

from typing import Final

from trnsim.graph import Value
from trnsim.torch.importer.build import Build, Importer, Unlowered

_NONE, _MEAN = 0, 1  # torch.nn._reduction.get_enum


def _chosen(b: Build, rows: Value, target: Value) -> Value:
    """[N, C]: 1 where the column is the row's class, else 0; nothing in rows to be ignored."""
    classes = b.graph.broadcast_in_dim(target, rows.shape, (0,))
    columns = b.graph.iota(rows.shape, 1)
    return b.ew("compare", columns, classes, dtype="float32", direction="EQ")


def _classified(x: Value) -> None:
    if len(x.shape) != 2:  # noqa: PLR2004  [N, C]
        raise Unlowered(f"negative log likelihood of {len(x.shape)} dimensions")


def nll_loss(
    b: Build, x: Value, target: Value, weight: Value | None, reduction: int, ignored: int
) -> tuple[Value, ...]:
    """Minus the log probability of each row's class, and how many rows count."""
    del ignored  # no column is -100
    _classified(x)
    if weight is not None:
        raise Unlowered("weighted classes")
    chosen = _chosen(b, x, target)
    picked = b.ew("negate", b.graph.reduce("add", b.ew("multiply", x, chosen), (1,)))
    counted = b.reduce("add", b.graph.reduce("add", chosen, (1,)), [0])
    if reduction == _NONE:
        return b.result(picked), b.filled(0, b.results[1])
    total = b.reduce("add", picked, [0])
    loss = b.ew("divide", total, counted) if reduction == _MEAN else total
    return b.result(loss), b.result(counted, 1)


def nll_loss_backward(
    b: Build,
    grad: Value,
    x: Value,
    target: Value,
    weight: Value | None,
    reduction: int,
    ignored: int,
    total: Value,
) -> Value:
    """Minus the gradient at each row's class."""
    del ignored
    _classified(x)
    if weight is not None:
        raise Unlowered("weighted classes")
    if reduction == _MEAN:
        grad = b.ew("divide", grad, total)
    spread = b.graph.broadcast_in_dim(grad, x.shape, (0,) if reduction == _NONE else ())
    return b.result(b.ew("negate", b.ew("multiply", _chosen(b, x, target), spread)))


def mse_loss(b: Build, x: Value, y: Value, reduction: int = _MEAN) -> Value:
    """The squared difference, its mean or its sum."""
    squares = b.ew("square", b.ew("subtract", x, y))
    return _reduced(b, squares, reduction)


def mse_loss_backward(b: Build, grad: Value, x: Value, y: Value, reduction: int) -> Value:
    """``2 * (x - y) * grad``, by the number of elements for a mean."""
    scale = 2 / x.type.elements if reduction == _MEAN else 2.0
    return b.result(b.ew("multiply", b.ew("multiply", b.ew("subtract", x, y), scale), grad))


def _reduced(b: Build, parts: Value, reduction: int) -> Value:
    if reduction == _NONE:
        return b.result(parts)
    total = b.reduce("add", parts, range(len(parts.shape)))
    return b.result(
        b.ew("multiply", total, 1 / parts.type.elements) if reduction == _MEAN else total
    )


IMPORTERS: Final[dict[str, Importer]] = {
    "nll_loss_forward": nll_loss,
    "nll_loss_backward": nll_loss_backward,
    "mse_loss": mse_loss,
    "mse_loss_backward": mse_loss_backward,
}
