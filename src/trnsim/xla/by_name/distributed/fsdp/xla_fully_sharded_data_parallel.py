"""`XlaFullyShardedDataParallel`: a module whose parameters are shared over ranks.

Each rank has an equal share of every parameter. A forward pass gathers them, and frees them after
it; the backward pass gathers them again, and leaves each share the mean gradient. Values are as
in data parallelism. A step is `optimizer.step()`: `xm.optimizer_step` would reduce once more.

Source: torch_xla 2.9.0, distributed/fsdp/xla_fully_sharded_data_parallel.py.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from math import inf
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from trnsim.device.program_line import program_line
from trnsim.errors import BadInput
from trnsim.torch.device_name import is_neuron
from trnsim.xla import ranks
from trnsim.xla.absent_names import absence_getter
from trnsim.xla.by_name.distributed.fsdp.utils import add_checkpoint, plain_forward
from trnsim.xla.by_name.distributed.fsdp.wrap import recursive_wrap
from trnsim.xla.collectives import Groups, all_reduce
from trnsim.xla.device_spelling import SPELLING
from trnsim.xla.sharding import Sharding, SharedParameter, SharedUnit, shard_name, share_of
from trnsim.xla.steps import step_closures

__path__: Final[list[str]] = []  # for a plain module Python asks no finder for absent names

_WRAPPED: Final = "_fsdp_wrapped_module"
_NORM_EPSILON: Final = 1e-6
"""Added to the norm by which gradients are clipped: the same file, `clip_grad_norm_`."""

_INHERITED: Final = (
    *("reshard_after_forward", "flatten_parameters", "execute_sharding_on_init", "compute_dtype"),
    *("buffer_dtype", "fp32_reduce_scatter", "sharding_groups", "sharding_rank", "param_init_fn"),
    *("sharding_world_size", "shard_param_on_dim_0", "_shard_size_multiple"),
)
"""Arguments that the wrappers within, by `auto_wrap_policy`, have too."""


class ShardingMisused(BadInput, RuntimeError):
    """A module that cannot be wrapped, or a call that only the outermost wrapper takes."""


class XlaFullyShardedDataParallel(nn.Module):
    """A module whose parameters are shared over ranks.

    Args:
        module: the module; it goes to the device.
        reshard_after_forward: True if gathered parameters are freed after the forward pass.
        flatten_parameters: True if all parameters are one vector with one share per rank.
        execute_sharding_on_init: True if a step ends when parameters are shared.
        sync_on_finalization: True if a step ends after each backward pass.
        disable_reshard_on_root: True if the outermost wrapper keeps its gathered parameters.
        compute_dtype: dtype of the forward pass; None is float32.
        buffer_dtype: dtype of buffers; None is `compute_dtype`.
        fp32_reduce_scatter: True if gradients are reduced in float32.
        sharding_groups: the groups of ranks that share; None is one group of all ranks.
        sharding_rank: this rank's number in its group.
        sharding_world_size: the number of ranks of a group.
        shard_param_on_dim_0: True if a parameter is shared by rows, not as a vector.
        auto_wrap_policy: predicate of the inner modules with wrappers of their own: see `wrap`.
        auto_wrapper_callable: function or class that wraps these modules; None is this class.
        param_init_fn: makes the parameters of a module on the device meta, which have no values.
        options: further names of torch_xla, without effect on this device.

    Raises:
        ShardingMisused: for a module that is wrapped already, or has no forward or no values; for
            a rank that is not in its group.
        TypeError: for parameters that are not float32.
    """

    def __init__(
        self,
        module: nn.Module,
        reshard_after_forward: bool = True,
        flatten_parameters: bool = False,
        execute_sharding_on_init: bool = True,
        optimization_barrier_in_forward: bool = True,
        optimization_barrier_in_backward: bool = True,
        sync_on_finalization: bool = False,
        disable_reshard_on_root: bool = True,
        compute_dtype: torch.dtype | None = None,
        buffer_dtype: torch.dtype | None = None,
        fp32_reduce_scatter: bool = False,
        sharding_groups: Groups = None,
        sharding_rank: int | None = None,
        sharding_world_size: int | None = None,
        shard_param_on_dim_0: bool = False,
        pin_layout_in_collective_ops: bool = True,
        reduce_scatter_bucket_size_mb: int | None = 0,
        coalesce_all_gather_ops: bool = False,
        auto_wrap_policy: Callable[..., bool] | None = None,
        auto_wrapper_callable: Callable[..., nn.Module] | None = None,
        param_init_fn: Callable[[nn.Module], None] | None = None,
        _shard_size_multiple: int = 128,
        **options: Any,
    ) -> None:
        arguments = locals()
        del optimization_barrier_in_forward, optimization_barrier_in_backward, options
        del pin_layout_in_collective_ops, reduce_scatter_bucket_size_mb, coalesce_all_gather_ops
        _check_module(module)
        super().__init__()
        self.compute_dtype = compute_dtype or torch.float32
        self.buffer_dtype = buffer_dtype or self.compute_dtype
        self.rank = ranks.ordinal() if sharding_rank is None else sharding_rank
        self.world_size = sharding_world_size or ranks.world_size()
        _check_rank(self.rank, self.world_size)
        self._sharding = Sharding(
            self.rank, self.world_size, sharding_groups, self.compute_dtype,
            fp32_reduce_scatter, _shard_size_multiple,
        )  # fmt: skip
        self.reshard_after_forward = reshard_after_forward
        self.disable_reshard_on_root = disable_reshard_on_root
        self.sync_on_finalization = sync_on_finalization
        self._is_root: bool | None = None
        self._reduces = True
        self._is_ending = False
        if auto_wrap_policy is not None:
            inherited_arguments = {name: arguments[name] for name in _INHERITED}
            wrapper = auto_wrapper_callable or XlaFullyShardedDataParallel
            recursive_wrap(
                module, auto_wrap_policy, wrapper, only_wrap_children=True, **inherited_arguments
            )
        _make_values(module, param_init_fn)
        self.add_module(_WRAPPED, module)
        self._units = self._shared_units(
            is_flat=flatten_parameters, by_rows=shard_param_on_dim_0 and not flatten_parameters
        )
        self._place_buffers()
        if execute_sharding_on_init:
            step_closures.end_step()

    @property
    def module(self) -> nn.Module:
        """The wrapped module."""
        wrapped_module: Any = self._modules[_WRAPPED]
        return wrapped_module  # type: ignore[no-any-return]

    @property
    def sharded_params(self) -> list[nn.Parameter]:
        """This wrapper's shares."""
        return [unit.shard for unit in self._units]

    def __getattr__(self, name: str) -> Any:
        """An attribute of this wrapper, or else of the wrapped module."""
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name == _WRAPPED:
                raise
            return getattr(self._modules[_WRAPPED], name)

    def __getitem__(self, key: Any) -> Any:
        """An item of the wrapped module, such as a layer of nn.Sequential."""
        module: Any = self.module
        return module[key]

    def _shared_units(self, *, is_flat: bool, by_rows: bool) -> list[SharedUnit]:
        """Shares in place of the parameters of the wrapped module."""
        uses: dict[Tensor, list[tuple[str, nn.Module, str]]] = {}  # (full name, module, name)
        for path, module in self.named_modules():
            if isinstance(module, XlaFullyShardedDataParallel) and module is not self:
                continue
            for name, parameter in module.named_parameters(recurse=False):
                if not getattr(parameter, "_is_sharded", False):
                    uses.setdefault(parameter, []).append((f"{path}.{name}", module, name))
        names = [parameter_uses[0][0] for parameter_uses in uses.values()]
        for parameter, name in zip(uses, names, strict=True):
            if parameter.dtype is not torch.float32:
                raise TypeError(f"only fp32 parameters are supported; {name} is {parameter.dtype}")
        members = [*uses.items()]
        if is_flat:
            return [self._shared_unit(members, "flat_param_0", by_rows)] if members else []
        return [
            self._shared_unit([member], name, by_rows)
            for member, name in zip(members, names, strict=True)
        ]

    def _shared_unit(self, uses: Sequence[Any], name: str, by_rows: bool) -> SharedUnit:
        """The unit of some parameters, each with its uses in modules, under a name."""
        parameters = [parameter for parameter, _ in uses]
        share = share_of(parameters, self._sharding, by_rows=by_rows)
        shard = nn.Parameter(
            share if is_neuron(share.device) else share.to(SPELLING),
            requires_grad=any(parameter.requires_grad for parameter in parameters),
        )
        untyped_shard: Any = shard
        untyped_shard._is_sharded, untyped_shard._orig_name = True, name  # noqa: SLF001  torch_xla's names
        untyped_shard._orig_size = parameters[0].size()  # noqa: SLF001  likewise
        untyped_shard._name = shard_name(name)  # noqa: SLF001  likewise
        members = tuple(
            SharedParameter(
                parameter_uses[0][0],
                parameter.size(),
                tuple((module, key) for _, module, key in parameter_uses),
            )
            for parameter, parameter_uses in uses
        )
        for member in members:
            for module, key in member.places:
                module._parameters.pop(key)  # noqa: SLF001  the module has a view while it runs
                object.__setattr__(module, key, torch.zeros(1, device=shard.device))
        self.register_parameter(shard_name(name), shard)
        return SharedUnit(
            members, shard, self._sharding, by_rows, lambda: self._reduces, self._end_backward_later
        )

    def _place_buffers(self) -> None:
        for module in self.module.modules():
            for name, buffer in module.named_buffers(recurse=False):
                dtype = self.buffer_dtype if buffer.is_floating_point() else buffer.dtype
                placed_buffer: Any = buffer.to(SPELLING, dtype)
                placed_buffer._orig_dtype = getattr(buffer, "_orig_dtype", buffer.dtype)  # noqa: SLF001
                module._buffers[name] = placed_buffer  # noqa: SLF001  assignment would register anew

    def _begin_as_root(self) -> None:
        """Make this wrapper the root, if its forward is the first one called."""
        if self._is_root is None:
            for wrapper in self._wrappers():
                wrapper._is_root = wrapper is self  # noqa: SLF001  of this class

    def _wrappers(self) -> Iterator[XlaFullyShardedDataParallel]:
        """This wrapper and the wrappers within it."""
        for module in self.modules():
            if isinstance(module, XlaFullyShardedDataParallel):
                yield module

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The wrapped module's forward, with gathered parameters."""
        self._begin_as_root()
        args, kwargs = pytree.tree_map(self._cast, (args, kwargs))
        plain_function = plain_forward(self.module)
        if plain_function is None:
            return self._run(self.module, *args, **kwargs)
        return add_checkpoint(lambda *a, **k: self._run(plain_function, *a, **k))(*args, **kwargs)

    def _cast(self, value: Any) -> Any:
        is_float = isinstance(value, Tensor) and value.is_floating_point()
        return value.to(self.compute_dtype) if is_float else value

    def _run(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        is_kept = not self.reshard_after_forward or (self._is_root and self.disable_reshard_on_root)
        gathered_units = [(unit, unit.full_vector()) for unit in self._units]
        for unit, full_vector in gathered_units:
            for member, view in zip(unit.members, unit.views(full_vector), strict=True):
                for module, key in member.places:
                    object.__setattr__(module, key, view)
        with ExitStack() as stack:
            if not is_kept:
                stack.enter_context(_regather_hooks(gathered_units))
            if not is_kept or not torch.is_grad_enabled():
                stack.callback(self._free)
            return function(*args, **kwargs)

    def _free(self) -> None:
        """Forget the gathered parameters."""
        for unit in self._units:
            empty_vector = torch.zeros(1, device=unit.shard.device)
            for member in unit.members:
                for module, key in member.places:
                    object.__setattr__(module, key, empty_vector)

    def _end_backward_later(self) -> None:
        """Free the gathered vectors when the backward pass has ended."""
        if not self._is_ending:
            self._is_ending = True
            engine: Any = torch.autograd.Variable
            engine._execution_engine.queue_callback(self._end_backward)  # noqa: SLF001

    def _end_backward(self) -> None:
        self._is_ending = False
        self._free()
        if self._is_root and self.sync_on_finalization:
            step_closures.end_step()

    @contextmanager
    def no_sync(self) -> Generator[None]:
        """A context in which gradients add up in each rank; the next backward pass reduces all."""
        wrappers = [*self._wrappers()]
        previous_flags = [wrapper._reduces for wrapper in wrappers]  # noqa: SLF001  of this class
        for wrapper in wrappers:
            wrapper._reduces = False  # noqa: SLF001  likewise
        try:
            yield
        finally:
            for wrapper, reduces in zip(wrappers, previous_flags, strict=True):
                wrapper._reduces = reduces  # noqa: SLF001  likewise

    @property
    def params_with_grad(self) -> list[nn.Parameter]:
        """The shares that have a gradient."""
        return [parameter for parameter in self.parameters() if parameter.grad is not None]

    @torch.no_grad()
    def clip_grad_norm_(
        self, max_norm: float, norm_type: float = 2.0, groups: Groups = None
    ) -> Tensor:
        """Scale the gradients so that their norm over all ranks is at most `max_norm`.

        Returns:
            The norm before the scaling.

        Raises:
            ShardingMisused: for a wrapper within another wrapper.
        """
        if self._is_root is False:
            raise ShardingMisused(
                "clip_grad_norm_ of a wrapper within another one",
                fix="call it of the outermost one",
                line=program_line(),
            )
        max_norm, norm_type = float(max_norm), float(norm_type)  # "inf", as PyTorch's clipping
        gradients = [p.grad.detach() for p in self.params_with_grad if p.grad is not None]
        gradient_norms = [torch.linalg.vector_norm(gradient, norm_type) for gradient in gradients]
        norms = torch.stack(gradient_norms) if gradient_norms else torch.zeros(1, device=SPELLING)
        if norm_type == inf:
            total: Tensor = all_reduce("max", norms.max(), groups=groups)
        else:
            total = all_reduce("sum", (norms**norm_type).sum(), groups=groups) ** (1 / norm_type)
        factor = torch.clamp(max_norm / (total + _NORM_EPSILON), 0.0, 1.0)
        for gradient in gradients:
            gradient.mul_(factor)
        return total

    def get_original_names_and_sharded_parameters(self) -> list[tuple[str, nn.Parameter]]:
        """Each share with the name of its parameter in the module that was wrapped."""
        shards = []
        for path, module in self.named_modules():
            if isinstance(module, XlaFullyShardedDataParallel):
                for unit in module._units:  # noqa: SLF001  of this class
                    shard: Any = unit.shard
                    name = ".".join(filter(None, (path, shard._orig_name)))  # noqa: SLF001  torch_xla's name
                    shards.append((name.replace(f"{_WRAPPED}.", ""), unit.shard))
        return shards

    def get_shard_metadata(self) -> dict[str, Any]:
        """Names and sizes with which `consolidate_sharded_state_dicts` joins all shares."""
        shards: dict[str, Any] = {}
        for path, module in self.named_modules():
            if isinstance(module, XlaFullyShardedDataParallel):
                shards[path] = {
                    shard_name(getattr(unit.shard, "_orig_name")): {  # noqa: B009
                        "_orig_size": getattr(unit.shard, "_orig_size"),  # noqa: B009
                        "_orig_name": getattr(unit.shard, "_orig_name"),  # noqa: B009
                        "_parts": [(member.name, member.size) for member in unit.members],
                        "_others": [
                            [member.name, *_other_names(self.named_modules(), path, member)]
                            for member in unit.members
                        ],
                    }
                    for unit in module._units  # noqa: SLF001  of this class
                }
        buffers = {
            name: {"_orig_dtype": getattr(buffer, "_orig_dtype")}  # noqa: B009
            for name, buffer in self.named_buffers()
            if hasattr(buffer, "_orig_dtype")
        }
        return {
            "shard_info": shards,
            "flatten_info": {},
            "buffer_info": buffers,
            "world_size": self.world_size,
            "rank": self.rank,
        }


def _other_names(modules: Any, path: str, member: SharedParameter) -> list[str]:
    """The names of a parameter in the wrapper at `path`, without the member's own name."""
    paths = {module: name for name, module in modules}
    prefix = f"{path}." if path else ""
    names = [f"{paths[module]}.{key}".removeprefix(prefix) for module, key in member.places]
    return [name for name in names if name != member.name]


@contextmanager
def _regather_hooks(gathered_units: Sequence[tuple[SharedUnit, Tensor]]) -> Generator[None]:
    """Context in which no graph keeps gathered parameters: backward passes gather them again."""
    units = {full_vector.untyped_storage().data_ptr(): unit for unit, full_vector in gathered_units}

    def pack(tensor: Tensor) -> Any:
        is_stored_on_device = is_neuron(tensor.device) and tensor.numel()
        unit = units.get(tensor.untyped_storage().data_ptr()) if is_stored_on_device else None
        if unit is None:
            return tensor
        return unit, tensor.size(), tensor.stride(), tensor.storage_offset()

    def unpack(saved_tensor: Any) -> Tensor:
        if isinstance(saved_tensor, Tensor):
            return saved_tensor
        unit, *geometry = saved_tensor
        tensor: Tensor = unit.backward_vector().as_strided(*geometry)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
        yield


def _check_module(module: nn.Module) -> None:
    """Refuse a module that cannot be wrapped."""
    if isinstance(module, XlaFullyShardedDataParallel):
        raise ShardingMisused(
            "the module is wrapped already",
            fix="wrap inner modules first, and the outer one last",
            line=program_line(),
        )
    forward = getattr(type(module), "forward", None)
    if forward is None or forward is nn.Module.forward:
        raise ShardingMisused(
            f"{type(module).__name__} has no forward, in which its parameters would be gathered",
            fix="wrap the modules within it, or the one that has it",
            line=program_line(),
        )


def _check_rank(rank: int, world_size: int) -> None:
    """Refuse a number of this rank that its group does not have."""
    if not 0 <= rank < world_size:
        raise ShardingMisused(
            f"rank {rank} of {world_size} ranks that share; legal: 0 to {world_size - 1}",
            fix="give both sharding_rank and sharding_world_size, by the rank's own group",
            line=program_line(),
        )


def _make_values(module: nn.Module, make: Callable[[nn.Module], None] | None) -> None:
    """Give values to parameters on the device meta, by a call of `make`."""
    if not any(parameter.is_meta for parameter in module.parameters()):
        return
    if make is None:
        raise ShardingMisused(
            f"{type(module).__name__} has parameters without values (of the device meta)",
            fix="give param_init_fn, which makes them",
            line=program_line(),
        )
    make(module)


__getattr__ = absence_getter("torch_xla.distributed.fsdp.xla_fully_sharded_data_parallel", __name__)
