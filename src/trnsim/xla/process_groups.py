"""Process groups of the backend "xla": a rank makes its own groups alone, and each has a mesh.

With PyTorch's other backends every rank makes every group. Programs of torch_xla make those that
they are in, and say in `pg_options` how all ranks are grouped.

Source: torch_xla 2.9.0, distributed/xla_backend.py, `new_xla_process_group`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any, Final

import torch.distributed as dist

BACKEND: Final = "xla"
_OPTIONS: Final = "xla_pg_options"

_meshes: Final[dict[str, list[list[int]]]] = {}
"""The groups of all ranks, by the name of this rank's group."""


def serve() -> None:
    """Make `new_group` that of torch_xla where the default group is, and give groups a `_mesh`."""
    module: Any = dist.distributed_c10d
    replaced = _of_own_ranks(module.new_group)
    module.new_group = replaced
    setattr(dist, "new_group", replaced)  # noqa: B010  a stub says Final
    kind: Any = dist.ProcessGroup
    kind._mesh = property(_mesh)  # noqa: SLF001  torch_xla's name


def _mesh(group: Any) -> list[list[int]]:
    """The groups of all ranks, of which this one is the rank's own; [] for all ranks at once."""
    return _meshes.get(group.group_name, [])


def _of_own_ranks(make: Callable[..., Any]) -> Callable[..., Any]:
    """PyTorch's `new_group`, which in programs of torch_xla waits for the group's ranks alone."""

    @wraps(make)
    def new_group(ranks: Iterable[int] | None = None, *args: Any, **options: Any) -> Any:
        backend = options.get("backend", args[1] if len(args) > 1 else None)
        if ranks is None or backend not in (None, BACKEND) or dist.get_backend() != BACKEND:
            return make(ranks, *args, **options)
        members = list(ranks)
        options["use_local_synchronization"] = True
        group = make(members, *args, **options)
        if group is None:  # this rank is not among them
            return dist.GroupMember.NON_GROUP_MEMBER
        settings = options.get("pg_options")
        given = settings.get(_OPTIONS, {}) if isinstance(settings, dict) else {}
        _meshes[group.group_name] = given.get("mesh") or _mesh_of(members)
        return group

    return new_group


def _mesh_of(members: list[int]) -> list[list[int]]:
    """The mesh of a group without options: single ranks are all alike, other groups stand alone."""
    return [[rank] for rank in range(dist.get_world_size())] if len(members) == 1 else [members]
