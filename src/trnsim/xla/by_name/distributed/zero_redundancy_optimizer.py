"""`ZeroRedundancyOptimizer`: the optimizer's states are sharded over the ranks (ZeRO-1).

Each rank has an equal share of every parameter along its first dimension, padded with zeros, in
`optimizer_dtype`. A step reduces and scatters the gradients, clips their norm, steps on the shares,
and gathers the parameters.

Source: torch_xla 2.9.0, distributed/zero_redundancy_optimizer.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from trnsim.device.program_line import program_line
from trnsim.xla import ranks
from trnsim.xla.absent_names import absence_getter
from trnsim.xla.collective_arguments import CollectiveMisused
from trnsim.xla.collectives import Groups, all_gather, all_reduce, rank_lists, reduce_scatter
from trnsim.xla.sharding import padded_rows

__path__: Final[list[str]] = []  # for a plain module Python asks no finder for absent names

_NORM_EPSILON: Final = 1e-6
"""Added to the norm by which gradients are clipped: the same file, `_clip_grad_norm`."""


class ZeroRedundancyOptimizer(Optimizer):
    """An optimizer whose states are sharded over ranks.

    Args:
        params: parameters, or groups of them.
        optimizer_class: the class of the optimizer of the shares.
        optimizer_dtype: dtype of the shares and states; None is float32.
        grad_clipping: True if gradients are clipped.
        max_norm: the largest norm of all gradients; None is 1.
        pin_layout: no effect.
        sharding_groups: the ranks that share; None is all.
        grad_norm_groups: further groups of ranks over which the norm is summed.
        lazy_init: True if the program calls `init_zero` itself.
        bucket_cap_mb_all_gather: no effect, as each parameter has its own collective.
        bucket_cap_mb_reduce_scatter: no effect.
        use_grad_acc_hook: True if gradients are added up in `optimizer_dtype` as they arise.
        save_master_weights: True if `state_dict` has the shares too.
        higher_cc_precision: True if gradients are exchanged in `optimizer_dtype`.
        defaults: arguments of the optimizer.

    Raises:
        CollectiveMisused: for groups without this rank, or a value that is no optimizer class.
    """

    def __init__(
        self,
        params: Iterable[Any],
        optimizer_class: Callable[..., Optimizer],
        optimizer_dtype: torch.dtype | None = None,
        grad_clipping: bool = True,
        max_norm: float | None = None,
        pin_layout: bool = True,
        sharding_groups: Groups = None,
        grad_norm_groups: Groups = None,
        lazy_init: bool = False,
        bucket_cap_mb_all_gather: int = 0,
        bucket_cap_mb_reduce_scatter: int = 0,
        use_grad_acc_hook: bool = False,
        save_master_weights: bool = False,
        higher_cc_precision: bool = False,
        **defaults: Any,
    ) -> None:
        del pin_layout, bucket_cap_mb_all_gather, bucket_cap_mb_reduce_scatter
        if not callable(optimizer_class):
            raise CollectiveMisused(
                f"ZeroRedundancyOptimizer of {optimizer_class!r}; legal: a class of optimizers",
                fix="optimizer_class=torch.optim.AdamW",
                line=program_line(),
            )
        for groups in (sharding_groups, grad_norm_groups):
            rank_lists(groups)  # refuses values that are no groups
        super().__init__(params, defaults)
        self.optimizer_class = optimizer_class
        self.optimizer_dtype = optimizer_dtype or torch.float32
        self.grad_clipping = grad_clipping
        self.max_norm = 1.0 if max_norm is None else max_norm
        self._sharding_groups: Sequence[Sequence[int]] = sharding_groups or [
            list(range(ranks.world_size()))
        ]
        self.grad_norm_groups = grad_norm_groups
        self.save_master_weights = save_master_weights
        self.higher_cc_precision = higher_cc_precision
        self.use_grad_acc_hook = use_grad_acc_hook
        self._hooks: list[Any] = []
        self._grad_norm: Tensor | None = None
        self.base_optimizer: Optimizer | None = None
        if not lazy_init:
            self.init_zero()

    @property
    def inited(self) -> bool:
        """True once the parameters are sharded."""
        return self.base_optimizer is not None

    @property
    def sharding_groups(self) -> Sequence[Sequence[int]]:
        """The ranks that share."""
        return self._sharding_groups

    @property
    def grad_norm(self) -> Tensor | None:
        """The norm of all gradients at the last step that clipped them."""
        return self._grad_norm

    def init_zero(self) -> None:
        """Shard the parameters, and make the optimizer of the shares."""
        rank = ranks.ordinal()
        group = next((group for group in self._sharding_groups if rank in group), None)
        if group is None:
            raise CollectiveMisused(
                f"rank {rank} is in none of the sharding_groups {self.sharding_groups}",
                fix="give each rank a group",
                line=program_line(),
            )
        self.local_world_size, self.local_rank = len(group), list(group).index(rank)
        self.base_optimizer = self.optimizer_class(self._shard_parameters(), **self.defaults)
        self._copy_settings(self.base_optimizer.param_groups, self.param_groups)

    def _shard_parameters(self) -> list[dict[str, Any]]:
        """The groups of parameters with this rank's shares; subclasses of NxD extend it."""
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()
        share_groups = [
            group | {"params": [self._share(parameter) for parameter in group["params"]]}
            for group in self.param_groups
        ]
        if self.use_grad_acc_hook:
            for parameter in self._parameters():
                if parameter.requires_grad:
                    hook = parameter.register_post_accumulate_grad_hook(self._add_up)
                    self._hooks.append(hook)
        return share_groups

    def _parameters(self) -> Iterator[Any]:
        for group in self.param_groups:
            yield from group["params"]

    def _add_up(self, parameter: Any) -> None:
        """Add a gradient to `main_grad`, in the optimizer's dtype, and free it."""
        gradient = parameter.grad.detach().to(self.optimizer_dtype)
        if getattr(parameter, "main_grad", None) is None:
            parameter.main_grad = torch.zeros_like(gradient)
        parameter.main_grad.add_(gradient)
        parameter.grad = None

    def _gradient(self, parameter: Any) -> Tensor | None:
        """The gradient of a parameter in this step; None for a parameter without a gradient."""
        accumulated_gradient = (
            getattr(parameter, "main_grad", None) if self.use_grad_acc_hook else None
        )
        gradient: Tensor | None = (
            parameter.grad if accumulated_gradient is None else accumulated_gradient
        )
        return gradient

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients, and set the gradients that were added up to zero."""
        super().zero_grad(set_to_none)
        if self.use_grad_acc_hook:
            for parameter in self._parameters():
                if getattr(parameter, "main_grad", None) is not None:
                    parameter.main_grad.zero_()

    def _share(self, parameter: Tensor) -> nn.Parameter:
        """This rank's share of a parameter."""
        parts = padded_rows(parameter.detach(), self.local_world_size).chunk(self.local_world_size)
        share = parts[self.local_rank].to(self.optimizer_dtype, copy=True)
        return nn.Parameter(share, requires_grad=parameter.requires_grad)

    @staticmethod
    def _copy_settings(targets: list[dict[str, Any]], source: list[dict[str, Any]]) -> None:
        """Copy settings such as `lr` from groups to groups."""
        for target_group, source_group in zip(targets, source, strict=True):
            target_group.update(
                {name: value for name, value in source_group.items() if name != "params"}
            )

    def _pairs(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Each parameter with this rank's share."""
        base = self._initialized_optimizer()
        for full_group, share_group in zip(self.param_groups, base.param_groups, strict=True):
            yield from zip(full_group["params"], share_group["params"], strict=True)

    def _initialized_optimizer(self) -> Optimizer:
        if self.base_optimizer is None:
            raise CollectiveMisused(
                "a step of a ZeroRedundancyOptimizer with lazy_init that is not sharded yet",
                fix="call init_zero() first",
                line=program_line(),
            )
        return self.base_optimizer

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None, **kwargs: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """A step on the shares, after which every rank has all parameters."""
        base = self._initialized_optimizer()
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        self._copy_settings(base.param_groups, self.param_groups)
        self._scatter_gradients()
        if self.grad_clipping:
            self._clip_grad_norm(max_norm=self.max_norm)
        base.step(**kwargs)
        base.zero_grad(set_to_none=True)
        for parameter, share in self._pairs():
            if self._gradient(parameter) is not None:
                full_parameter = all_gather(
                    share.detach().to(parameter.dtype), groups=self.sharding_groups
                )
                rows = 1 if parameter.dim() == 0 else parameter.shape[0]
                parameter.copy_(full_parameter[:rows].reshape(parameter.shape))
        self._copy_settings(self.param_groups, base.param_groups)
        return loss

    def _scatter_gradients(self) -> None:
        """The mean gradient of each share."""
        count = self.local_world_size
        for parameter, share in self._pairs():
            gradient = self._gradient(parameter)
            if gradient is not None:
                padded_gradient = padded_rows(gradient, count)
                sent_gradient = (
                    padded_gradient.to(self.optimizer_dtype)
                    if self.higher_cc_precision
                    else padded_gradient
                )
                gradient_share = reduce_scatter(
                    "sum", sent_gradient, 1.0 / count, 0, count, groups=self.sharding_groups
                )
                share.grad = gradient_share.to(self.optimizer_dtype)

    def _clip_grad_norm(self, max_norm: float, norm_type: float = 2.0) -> None:
        """Scale the shares' gradients so that the norm of all is at most `max_norm`.

        NxD's subclass replaces it: its norm is over the ranks of tensor parallelism too.
        """
        del norm_type
        gradients = [share.grad for _, share in self._pairs() if share.grad is not None]
        if not gradients:
            return
        total = torch.stack([(gradient * gradient).sum() for gradient in gradients]).sum()
        for groups in (self.sharding_groups, self.grad_norm_groups):
            if groups is not None:
                all_reduce("sum", [total], groups=groups)
        self._grad_norm = total.sqrt()
        factor = (max_norm / (self._grad_norm + _NORM_EPSILON)).clamp(max=1.0)
        for gradient in gradients:
            gradient.mul_(factor)

    def state_dict(self) -> dict[str, Any]:
        """The optimizer's state of the shares, as `base_state`, with settings and shapes."""
        base = self._initialized_optimizer()
        state = super().state_dict()
        state["base_state"] = base.state_dict()["state"]
        state["shape_info"] = {
            number: list(parameter.shape) for number, (parameter, _) in enumerate(self._pairs())
        }
        if self.save_master_weights:
            shares = [share.detach().cpu() for _, share in self._pairs()]
            state["sharded_master_weights"] = dict(enumerate(shares))
        return state

    @torch.no_grad()
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore a `state_dict` of the same rank among the same number of ranks.

        Raises:
            CollectiveMisused: for the state of another optimizer.
        """
        state = dict(state_dict)
        if "base_state" not in state:
            raise CollectiveMisused(
                f"a state with {', '.join(map(str, state)) or 'nothing'}, and no base_state; "
                "legal: what state_dict() of a ZeroRedundancyOptimizer gave",
                fix="give the state that the same rank saved",
                line=program_line(),
            )
        base_state = state.pop("base_state")
        state.pop("shape_info", None)
        weights = state.pop("sharded_master_weights", None)
        super().load_state_dict(state)
        base = self._initialized_optimizer()
        groups = base.state_dict()["param_groups"]
        base.load_state_dict({"state": base_state, "param_groups": groups})
        self._copy_settings(base.param_groups, self.param_groups)
        if weights is not None and self.save_master_weights:
            for number, (_, share) in enumerate(self._pairs()):
                share.copy_(weights[number])


__getattr__ = absence_getter("torch_xla.distributed.zero_redundancy_optimizer", __name__)
