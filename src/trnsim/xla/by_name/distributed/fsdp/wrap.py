"""`torch_xla.distributed.fsdp.wrap`: which modules within a module are wrapped on their own.

Source: torch_xla 2.9.0, distributed/fsdp/wrap.py.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Final

from torch import nn

from trnsim.xla.absent_names import absent

__path__: Final[list[str]] = []  # as in xla_model

_LARGE: Final = 100_000_000
"""Parameters of a module that `size_based_auto_wrap_policy` wraps."""


def always_wrap_policy(*args: Any, **kwargs: Any) -> bool:
    """True: every module is wrapped."""
    del args, kwargs
    return True


def lambda_auto_wrap_policy(
    module: nn.Module,
    recurse: bool,
    unwrapped_params: int,
    lambda_fn: Callable[[nn.Module], bool],
) -> bool:
    """True for the modules that `lambda_fn` is true of."""
    del unwrapped_params
    return recurse or lambda_fn(module)


def transformer_auto_wrap_policy(
    module: nn.Module,
    recurse: bool,
    unwrapped_params: int,
    transformer_layer_cls: Collection[type[nn.Module]],
) -> bool:
    """True if the module is of one of the classes, or if its children are asked about."""
    del unwrapped_params
    return recurse or isinstance(module, tuple(transformer_layer_cls))


def size_based_auto_wrap_policy(
    module: nn.Module,
    recurse: bool,
    unwrapped_params: int,
    min_num_params: int = _LARGE,
    force_leaf_modules: Collection[type[nn.Module]] | None = None,
    exclude_wrap_modules: Collection[type[nn.Module]] | None = None,
) -> bool:
    """True for modules with many parameters of which no module within has its own wrapper.

    Args:
        module: the module.
        recurse: whether the question is about modules within it.
        unwrapped_params: parameters that are not wrapped.
        min_num_params: their least number.
        force_leaf_modules: classes of modules of which nothing within is wrapped.
        exclude_wrap_modules: classes of modules that are not wrapped.
    """
    policy: Any = size_based_auto_wrap_policy
    leaves = policy.FORCE_LEAF_MODULES if force_leaf_modules is None else force_leaf_modules
    others = policy.EXCLUDE_WRAP_MODULES if exclude_wrap_modules is None else exclude_wrap_modules
    refused = leaves if recurse else others
    return unwrapped_params >= min_num_params and not isinstance(module, tuple(refused))


_policy: Any = size_based_auto_wrap_policy
_policy.EXCLUDE_WRAP_MODULES = {nn.ModuleList, nn.ModuleDict}
_policy.FORCE_LEAF_MODULES = {nn.MultiheadAttention}


def recursive_wrap(
    module: nn.Module,
    auto_wrap_policy: Callable[..., bool],
    wrapper_cls: Callable[..., nn.Module],
    only_wrap_children: bool = False,
    **kwargs: Any,
) -> tuple[nn.Module, int]:
    """The module with wrappers where the policy says, and the number of wrapped parameters.

    Args:
        module: the module, whose children are replaced by their wrappers.
        auto_wrap_policy: predicate of the modules that get a wrapper, as PyTorch calls it.
        wrapper_cls: function, or class, from a module to its wrapper.
        only_wrap_children: whether the module itself stays.
        kwargs: arguments of `wrapper_cls`.
    """
    count = sum(parameter.numel() for parameter in module.parameters())
    if not auto_wrap_policy(module=module, recurse=True, unwrapped_params=count):
        return module, 0
    wrapped = 0
    for name, child in [*module.named_children()]:
        new, number = recursive_wrap(child, auto_wrap_policy, wrapper_cls, **kwargs)
        setattr(module, name, new)
        wrapped += number
    rest = count - wrapped
    if not only_wrap_children and auto_wrap_policy(
        module=module, recurse=False, unwrapped_params=rest
    ):
        return wrapper_cls(module, **kwargs), count
    return module, wrapped


__getattr__ = absent("torch_xla.distributed.fsdp.wrap", __name__)
