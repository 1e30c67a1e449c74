"""`@nki_op`: PyTorch operators made of NKI kernels, with a gradient if one is registered.

Source: aws-neuron-sdk nki/get-started/about/index.rst, Working with NKI Kernels;
frameworks/torch/pytorch-native-overview.rst, FAQs.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

from trnsim.torch import pytorch
from trnsim.torch.device_name import DEVICE_TYPE


def nki_op(
    name: str,
    function: Callable[..., Any] | None = None,
    /,
    *,
    mutates_args: Iterable[str] = (),
    schema: str | None = None,
) -> Any:
    """The operator `name` ("mylib::my_op") that runs `function` on neuron tensors.

    `function` calls NKI kernels and PyTorch operators, and has type annotations. The result is a
    custom operator of PyTorch's: `register_autograd` gives it a gradient. A compiled graph contains
    the kernels inside.

    Args:
        name: namespace and name.
        function: the function; without it, a decorator is returned.
        mutates_args: the names of the arguments that it writes to.
        schema: its schema in PyTorch's syntax, where annotations are not enough.
    """
    define = functools.partial(
        _define_operator, name, mutates_args=tuple(mutates_args), schema=schema
    )
    return define if function is None else define(function)


def _define_operator(
    name: str, function: Callable[..., Any], *, mutates_args: tuple[str, ...], schema: str | None
) -> Any:
    operator = pytorch.custom_operator(name, function, mutates_args, schema, (DEVICE_TYPE,))
    # The kernels inside return shapes without values, so the function is its own shape function.
    operator.register_fake(function)
    pytorch.trace_through(operator, function)
    return operator
