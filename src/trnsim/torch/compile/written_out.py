"""Operators that call functions, written out in compiled graphs: flex_attention, scan and map.

PyTorch keeps each as one operator with the graphs of its functions, for Triton's templates and
loops. Here its own definition is traced instead, so that the graph has operators with values and
time. Attention is dense: blocks that a mask hides whole are computed and masked. A scan or a map is
unrolled, unless it is longer than `MOST_UNROLLED`; then it stays one operator, without time.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Final

import torch
from torch import Tensor

from trnsim.torch import pytorch

MOST_UNROLLED: Final = 256
"""Maximum number of steps of a scan or a map that is unrolled: tracing takes some ms a step."""


@contextmanager
def written_out() -> Generator[None]:
    """A context in which graphs are traced with these operators, and their gradients, written out.

    It holds where PyTorch makes operators functional, so that their functions may write in place.
    """
    flex, scan, loops = (
        import_module(f"torch._higher_order_ops.{name}")
        for name in ("flex_attention", "scan", "map")
    )
    mode: Any = import_module("torch._subclasses.functional_tensor").FunctionalTensorMode
    scatter: Any = torch.ops.flex_lib.zeros_and_scatter.default
    pytorch.composite_kernels[scatter] = scattered_sum
    definitions = {
        flex.flex_attention: (flex.sdpa_dense, None),
        flex.flex_attention_backward: (flex.sdpa_dense_backward, None),
        scan.scan_op: (unrolled_scan, 2),
        loops.map_impl: (loops.map_dense, 1),
    }
    kernels = {operator: operator.python_key_table[mode] for operator in definitions}
    for operator, (definition, steps_at) in definitions.items():
        operator.python_key_table[mode] = _tracing_kernel(definition, steps_at, kernels[operator])
    try:
        yield
    finally:
        for operator, kernel in kernels.items():
            operator.python_key_table[mode] = kernel


def _tracing_kernel(
    definition: Callable[..., Any], steps_at: int | None, kernel: Callable[..., Any]
) -> Callable[..., Any]:
    """`definition` in the mode that calls it, which then sees each of its operators.

    `steps_at` is the position of the tensors with a row for each step. A call of no step, or of
    more than `MOST_UNROLLED`, is left to `kernel`.
    """

    def call(mode: Any, *args: Any) -> Any:
        if steps_at is not None and not 0 < args[steps_at][0].shape[0] <= MOST_UNROLLED:
            return kernel(mode, *args)
        with mode:
            return definition(*args)

    return call


def unrolled_scan(
    function: Callable[..., Any],
    carried_values: Sequence[Any],
    rows: Sequence[Tensor],
    constants: Sequence[Any] = (),
) -> tuple[Any, ...]:
    """The scan's last carried values, then its results of all steps, stacked.

    PyTorch's own loop writes each result into one tensor, which would be a new tensor here.
    """
    steps: list[Sequence[Any]] = []
    values = tuple(carried_values)
    for step in range(rows[0].shape[0]):
        results = function(*values, *[row.select(0, step) for row in rows], *constants)
        values = tuple(results[: len(values)])
        steps.append(results[len(values) :])
    stacked = [
        torch.stack(parts) if isinstance(parts[0], Tensor) else None
        for parts in zip(*steps, strict=True)
    ]
    return (*values, *stacked)


def scattered_sum(shape: list[int], indices: list[Tensor], values: Tensor) -> Tensor:
    """flex_lib::zeros_and_scatter: a tensor of sums of `values`, by index."""
    return values.new_zeros(shape).index_put(tuple(indices), values, accumulate=True)
