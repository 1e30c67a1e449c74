"""`jax_neuronx.nki_call`: how programs called kernels before a call of the kernel itself did.

The function takes its inputs, then a tensor for each result, which it writes.

Source: release notes of Neuron 2.23, which ended it; AWS's NKI tutorials before that.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import lru_cache, partial
from typing import Any

import jax

from trnsim.errors import BadInput
from trnsim.nki import language as nl
from trnsim.nki.kernel import Kernel

_REMEMBERED = 1024


def nki_call(
    func: Callable[..., Any], *args: Any, out_shape: Any, grid: Any = (), **kwargs: Any
) -> Any:
    """The results of a function that writes them to its last parameters.

    Args:
        func: the function, or a `functools.partial` of one; not decorated.
        *args: its inputs.
        out_shape: a `jax.ShapeDtypeStruct` for each result, alone or nested, as they are returned.
        grid: the launch grid.
        **kwargs: its keyword arguments.

    Raises:
        BadInput: for a function of `nki.jit`, or an `out_shape` without a shape.
    """
    if isinstance(func, Kernel):
        raise BadInput(
            f"nki_call({func.title}): a function of nki.jit is called by itself",
            fix=f"{func.title}(...), or leave the decorator out",
            source="announce-no-support-jax-neuronx-nki-call.rst",
        )
    specs, tree = jax.tree_util.tree_flatten(out_shape)
    if not specs or not all(hasattr(spec, "shape") and hasattr(spec, "dtype") for spec in specs):
        raise BadInput(
            f"nki_call(out_shape={out_shape!r:.60})",
            fix="give a jax.ShapeDtypeStruct for each result",
        )
    function = func if isinstance(func, partial) else partial(func)
    results = tuple((tuple(spec.shape), spec.dtype) for spec in specs)
    kernel = _kernel(function.func, function.args, tuple(function.keywords.items()), results)
    launched = kernel[grid] if grid not in ((), None) else kernel
    return jax.tree_util.tree_unflatten(tree, launched(*args, **kwargs))


# Programs with nki_call are older than NKI 0.7, which refuses kernels of one core in their graphs:
# nki: 0.6


@lru_cache(_REMEMBERED)
def _kernel(
    function: Callable[..., Any],
    first: tuple[Hashable, ...],
    named: tuple[tuple[str, Hashable], ...],
    results: tuple[tuple[tuple[int, ...], Any], ...],
) -> Kernel:
    """A kernel that makes the results and has the function write them."""

    def kernel(*args: Any, **kwargs: Any) -> Any:
        outputs = [nl.ndarray(shape, dtype, buffer=nl.shared_hbm) for shape, dtype in results]
        function(*first, *args, *outputs, **dict(named), **kwargs)
        return tuple(outputs)

    kernel.__name__ = getattr(function, "__name__", "kernel")
    return Kernel(kernel, {})
