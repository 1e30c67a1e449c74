"""`torch_xla.distributed.fsdp.wrap`: which modules within a module are wrapped on their own.

Source: torch_xla 2.9.0, distributed/fsdp/wrap.py.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Final

from torch import nn

from trnsim.xla.absent_names import absence_getter

__path__: Final[list[str]] = []  # for a plain module Python asks no finder for absent names

_LARGE: Final = 100_000_000
"""Parameters of a module that `size_based_auto_wrap_policy` wraps."""


def always_wrap_policy(*args: Any, **kwargs: Any) -> bool:
    """True: every module is wrapped."""
    del args, kwargs
    return True


def lambda_auto_wrap_policy(
    module: nn.Module, recurse: bool, unwrapped_params: int, lambda_fn: Callable[[nn.Module], bool]
) -> bool:
    """True for the modules of which `lambda_fn` is true."""
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
    """True for a module with at least `min_num_params` parameters that no inner wrapper has.

    Args:
        module: the module.
        recurse: True to ask whether modules within it may be wrapped.
        unwrapped_params: number of its parameters that are not wrapped yet.
        min_num_params: the least number of them for a wrapper.
        force_leaf_modules: classes of modules within which nothing is wrapped.
        exclude_wrap_modules: classes of modules that are not wrapped.
    """
    policy: Any = size_based_auto_wrap_policy
    leaves = policy.FORCE_LEAF_MODULES if force_leaf_modules is None else force_leaf_modules
    excluded_types = (
        policy.EXCLUDE_WRAP_MODULES if exclude_wrap_modules is None else exclude_wrap_modules
    )
    refused_types = leaves if recurse else excluded_types
    return unwrapped_params >= min_num_params and not isinstance(module, tuple(refused_types))


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
    """The module with wrappers by the policy, and the number of wrapped parameters.

    Args:
        module: the module, whose children are replaced by their wrappers.
        auto_wrap_policy: predicate of the modules that get a wrapper, as PyTorch calls it.
        wrapper_cls: function, or class, from a module to its wrapper.
        only_wrap_children: True if the module itself gets no wrapper.
        kwargs: arguments of `wrapper_cls`.
    """
    count = sum(parameter.numel() for parameter in module.parameters())
    if not auto_wrap_policy(module=module, recurse=True, unwrapped_params=count):
        return module, 0
    wrapped_count = 0
    for name, child in [*module.named_children()]:
        new_child, number = recursive_wrap(child, auto_wrap_policy, wrapper_cls, **kwargs)
        setattr(module, name, new_child)
        wrapped_count += number
    if only_wrap_children or not auto_wrap_policy(
        module=module, recurse=False, unwrapped_params=count - wrapped_count
    ):
        return module, wrapped_count
    return wrapper_cls(module, **kwargs), count


__getattr__ = absence_getter("torch_xla.distributed.fsdp.wrap", __name__)
