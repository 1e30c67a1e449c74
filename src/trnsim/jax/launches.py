"""`@nki.jit` kernels on JAX's arrays: one primitive, `nki_call`, eager and in every transformation.

A kernel is compiled for the shapes of its arguments when a program is traced, and refused then at
the kernel's line, if the chip refuses it. In a program the kernel is AWS's custom call
(`trnsim.jax.kernel_calls`). A call with arrays of the CPU runs as a call with numpy arrays.

Source: nki/guides/framework_custom_op.rst, JAX; nki.jit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Final, NoReturn

import jax
import jax.numpy as jnp
import numpy as np
from jax import tree_util
from jax.core import Tracer
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from trnsim.device.device_core import target
from trnsim.device.kernel_call import KernelCall, Outline, with_results
from trnsim.device.kernel_degree import check_degree
from trnsim.device.program_line import exclude_frames, is_program, program_line
from trnsim.errors import BadInput, NotModelled, SourceLine
from trnsim.jax import private
from trnsim.jax.kernel_calls import TARGET, config_of
from trnsim.jax.lowered import ArraySpec
from trnsim.nki.kernel import Kernel, launchers
from trnsim.nki.language.objects import NKIObject
from trnsim.program import has_current_core

_API_VERSION: Final = 2  # API_VERSION_STATUS_RETURNING, in the module that AWS shows
_SOURCE: Final = "nki/guides/framework_custom_op.rst"
_MOST_CACHED_PROGRAMS: Final = 4096


def register() -> None:
    """Launch kernels on JAX's arrays with this module from now on."""
    exclude_frames(jax)
    launchers.append(launch)


def launch(kernel: Kernel, args: Any, kwargs: Any) -> Any:
    """`kernel(*args, **kwargs)`; NotImplemented unless an argument is traced or on the device."""
    if has_current_core():
        return NotImplemented
    try:
        leaves, tree = tree_util.tree_flatten((args, kwargs))
    except ValueError:  # a dictionary whose keys have no order, which JAX does not take
        return NotImplemented
    is_traced = any(isinstance(item, Tracer) for leaf in leaves for item in _items(leaf))
    if not is_traced and not any(map(_is_on_device, leaves)):
        return NotImplemented
    kernel = kernel.of_degree()
    if is_traced:
        check_degree(kernel)
    arrays = [leaf for leaf in leaves if _is_array(leaf)]
    leaf_specs = [_abstract_leaf(kernel, leaf) for leaf in leaves]
    call = KernelCall.of(kernel, leaf_specs, tree)
    outline = _outline(call)
    compute = _bind_function if is_traced else _program
    return with_results(outline.results, iter(compute(call)(*arrays)))


def _is_on_device(leaf: Any) -> bool:
    if not isinstance(leaf, jax.Array):
        return False
    return any(device.platform == private.PLATFORM for device in leaf.devices())


def _is_array(leaf: Any) -> bool:
    """True for an array of JAX, of numpy, or a numpy array that JAX has wrapped."""
    is_wrapped = type(leaf).__module__.startswith("jax.") and hasattr(leaf, "__array__")
    return isinstance(leaf, jax.Array) or type(leaf) is np.ndarray or is_wrapped


def _abstract_leaf(kernel: Kernel, leaf: Any) -> Any:
    """An argument without values: an array as its `ArraySpec`.

    Raises:
        BadInput: for keys of random numbers, and for arrays within an object.
    """
    if _holds_arrays(leaf):
        raise BadInput(
            f"the kernel {kernel.title} was called with a {type(leaf).__name__} that holds arrays",
            fix="pass the arrays as arguments of their own",
            line=program_line(),
        )
    if not _is_array(leaf):
        return leaf
    if jnp.issubdtype(leaf.dtype, jax.dtypes.extended):
        raise BadInput(
            f"the kernel {kernel.title} was called with an array of {leaf.dtype}",
            fix="pass its numbers: jax.random.key_data(key)",
            line=program_line(),
        )
    return ArraySpec(tuple(leaf.shape), np.dtype(leaf.dtype))


def _holds_arrays(leaf: Any) -> bool:
    return isinstance(leaf, NKIObject) and any(map(_is_array, _items(leaf)))


def _items(leaf: Any) -> Sequence[Any]:
    """The attributes of an object of NKI, which JAX takes for a single leaf; else the leaf."""
    return list(vars(leaf).values()) if isinstance(leaf, NKIObject) else [leaf]


def _outline(call: KernelCall) -> Outline:
    """The outline of a call: the tensors that it writes and returns.

    Raises:
        EmulatorError: for a kernel that the chip refuses, at the kernel's own line.
        NotModelled: for results that JAX cannot hold.
        BadInput: for a kernel without results, or with a written argument that it does not return.
    """
    outline = call.outline(target().name)
    if outline.unreturned:
        raise BadInput(
            f"the kernel {call.operation} writes to an argument that it does not return, and an "
            "array of JAX never changes",
            fix="return the argument too, and go on with what comes back",
            line=program_line(),
        )
    if not outline.specs:
        raise BadInput(
            f"the kernel {call.operation} returns no tensor",
            fix="return what it computes, in nl.shared_hbm",
            line=program_line(),
        )
    for spec in outline.specs:
        if not _is_dtype_of_jax(spec.numpy_dtype):
            raise NotModelled(
                f"the kernel {call.operation} returns a tensor of {spec.dtype}, which JAX lacks",
                fix="return it in a dtype of JAX",
                line=program_line(),
            )
    return outline


def _is_dtype_of_jax(dtype: np.dtype[Any]) -> bool:
    """True if JAX's arrays may have a dtype; 64 bits only where the program asks for them."""
    try:
        return bool(jax.dtypes.canonicalize_dtype(dtype) == dtype)
    except TypeError:
        return False


def _bind_function(call: KernelCall) -> Callable[..., Sequence[Any]]:
    """The call as an operation of a traced program."""

    def bind(*arrays: Any) -> Sequence[Any]:
        results: Sequence[Any] = nki_call_p.bind(*private.insert_same_axes(arrays), call=call)
        return results

    return bind


@lru_cache(_MOST_CACHED_PROGRAMS)
def _program(call: KernelCall) -> Callable[..., Sequence[Any]]:
    """The call as a program of its own, under the kernel's name."""
    bind = _bind_function(call)
    bind.__name__ = call.operation
    return jax.jit(bind)


def _abstract_results(*avals: Any, call: KernelCall) -> list[Any]:
    """The abstract values (shapes and dtypes) of a call's results."""
    specs = call.outline(target().name).specs
    return [private.result_like(avals[0], spec.shape, spec.numpy_dtype) for spec in specs]


def _compute_results(*arrays: Any, call: KernelCall) -> Sequence[Any]:
    """The results of a call outside of every trace, also under the user's `jax.disable_jit`."""
    with jax.disable_jit(False):
        return _program(call)(*arrays)


def _lower(context: Any, *operands: Any, call: KernelCall) -> Any:
    """AWS's custom call.

    Raises:
        NotModelled: in a program for another platform.
    """
    platforms = private.platforms_of(context)
    if platforms != (private.PLATFORM,):
        raise NotModelled(
            f"the NKI kernel {call.operation} in a program for {', '.join(platforms)}: it runs on "
            f"{private.PLATFORM} alone",
            fix="put the program's arrays there: jax.device_put(x, jax.devices('neuron')[0]); or "
            "call the kernel outside jax.jit",
            source=_SOURCE,
            line=_call_line(),
        )
    config = config_of(call, _operand_names(call), len(context.avals_out))
    rule = jax.ffi.ffi_lowering(TARGET, api_version=_API_VERSION, backend_config=config)
    return rule(context, *operands)


class _OperandIndex(int):
    """The index of an operand, which stands for the operand where arguments are bound."""


def _operand_names(call: KernelCall) -> list[str]:
    """The name of the parameter to which each operand belongs, in the order of the operands."""
    args, kwargs = call.arguments([_OperandIndex(index) for index in range(len(call.specs))])
    bound = call.kernel.bind(args, kwargs).arguments
    leaves = [(leaf, name) for name in bound for leaf in tree_util.tree_leaves(bound[name])]
    return [
        name for _, name in sorted(leaf for leaf in leaves if isinstance(leaf[0], _OperandIndex))
    ]


def _call_line() -> SourceLine | None:
    """The line of the program that called the kernel: as JAX knows it, or on the stack."""
    lines = (SourceLine(*frame) for frame in private.lines() if is_program(frame[0]))
    return next(lines, None) or program_line()


def _refuse_gradient(primals: Any, tangents: Any, *, call: KernelCall) -> NoReturn:
    """Refuse to differentiate a kernel.

    Raises:
        NotModelled: always.
    """
    del primals, tangents
    raise NotModelled(
        f"the kernel {call.operation} has no gradient, and jax.grad or jax.jvp goes through it",
        fix="wrap it in a function of jax.custom_vjp, and give it both passes: f.defvjp(fwd, bwd)",
        source=f"{_SOURCE}, Using NKI in training graphs",
        line=_call_line(),
    )


def _refuse_batch(args: Any, dims: Any, *, call: KernelCall) -> NoReturn:
    """Refuse `jax.vmap` over a kernel.

    Raises:
        NotModelled: always.
    """
    del args, dims
    raise NotModelled(
        f"jax.vmap over the kernel {call.operation}, which is compiled for the shapes it is given",
        fix="call it once for each: jax.lax.map(f, xs); or write the loop within the kernel",
        source="nki-language-guide.rst",
        line=_call_line(),
    )


nki_call_p: Final[Any] = Primitive("nki_call")
"""A call of a kernel; its parameter is the call without values."""
nki_call_p.multiple_results = True
nki_call_p.def_impl(_compute_results)
nki_call_p.def_abstract_eval(_abstract_results)
ad.primitive_jvps[nki_call_p] = _refuse_gradient
batching.primitive_batchers[nki_call_p] = _refuse_batch
mlir.register_lowering(nki_call_p, _lower)
