"""`jax_neuronx.nki_call`: the older way of calling a kernel, before kernels were called directly.

The function takes its inputs, then a tensor for each result, which it writes.

Source: AWS's NKI tutorials before Neuron 2.23; the release notes of 2.23, which removed it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import lru_cache, partial
from typing import Any

import jax

from trnsim.errors import BadInput
from trnsim.nki import language as nl
from trnsim.nki.kernel import Kernel

_MAX_CACHED_KERNELS = 1024


def nki_call(
    func: Callable[..., Any], *args: Any, out_shape: Any, grid: Any = (), **kwargs: Any
) -> Any:
    """The results of a function that writes them to its last parameters.

    The function is called with its inputs, followed by an output tensor for each result.

    Args:
        func: the function, or a `functools.partial` of it, without a decorator.
        *args: its inputs.
        out_shape: a `jax.ShapeDtypeStruct` for each result, alone or nested, as they are returned.
        grid: the launch grid.
        **kwargs: its keyword arguments.

    Raises:
        BadInput: for a function of `nki.jit`, no function, or an `out_shape` without a shape.
    """
    if isinstance(func, Kernel):
        raise BadInput(
            f"nki_call({func.title}): a function of nki.jit is called by itself",
            fix=f"{func.title}(...), or leave the decorator out",
            source="announce-no-support-jax-neuronx-nki-call.rst",
        )
    if not callable(func):
        raise BadInput(f"nki_call({func!r:.60}); legal: a function", fix="nki_call(kernel, ...)")
    specs, tree = jax.tree_util.tree_flatten(out_shape)
    if not specs or not all(hasattr(spec, "shape") and hasattr(spec, "dtype") for spec in specs):
        raise BadInput(
            f"nki_call(out_shape={out_shape!r:.60}); legal: values with a shape and a dtype",
            fix="give a jax.ShapeDtypeStruct for each result",
        )
    function = func if isinstance(func, partial) else partial(func)
    results = tuple((tuple(spec.shape), spec.dtype) for spec in specs)
    bound = (function.func, function.args, tuple(function.keywords.items()), results)
    try:
        kernel = _kernel(*bound)
    except TypeError:  # a list among the bound arguments: the kernel is made anew
        kernel = _kernel.__wrapped__(*bound)
    launched_kernel = kernel[grid] if grid not in ((), None) else kernel
    return jax.tree_util.tree_unflatten(tree, launched_kernel(*args, **kwargs))


# The next line states the version of NKI of the kernels in this file, as in a user's. Programs with
# nki_call are older than 0.7, which refuses kernels of one core in their graphs.
# nki: 0.6


@lru_cache(_MAX_CACHED_KERNELS)
def _kernel(
    function: Callable[..., Any],
    bound_args: tuple[Hashable, ...],
    bound_kwargs: tuple[tuple[str, Hashable], ...],
    results: tuple[tuple[tuple[int, ...], Any], ...],
) -> Kernel:
    """A kernel that allocates the results and has the function write them.

    The bound arguments come from a `functools.partial`. `results` are shapes and dtypes.
    """

    def kernel(*args: Any, **kwargs: Any) -> Any:
        outputs = [nl.ndarray(shape, dtype, buffer=nl.shared_hbm) for shape, dtype in results]
        function(*bound_args, *args, *outputs, **dict(bound_kwargs), **kwargs)
        return tuple(outputs)

    kernel.__name__ = getattr(function, "__name__", "kernel")
    return Kernel(kernel, {})
