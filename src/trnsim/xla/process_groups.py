"""Process groups of the backend "xla": a rank makes only its own groups, and each has a mesh.

With PyTorch's other backends every rank makes every group. A rank of a torch_xla program makes the
groups that it is in, and `pg_options` may give the groups of all ranks: the mesh.

Source: torch_xla 2.9.0, distributed/xla_backend.py, `new_xla_process_group`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any, Final

import torch.distributed as dist

from trnsim.device.program_line import program_line
from trnsim.errors import BadInput

BACKEND: Final = "xla"
_OPTIONS: Final = "xla_pg_options"

_SOURCE: Final = "torch_xla 2.9.0, distributed/xla_backend.py, _infer_mesh"

_meshes: Final[dict[str, list[list[int]]]] = {}
"""The groups of all ranks, by the name of this rank's group."""


class MeshRefused(BadInput, ValueError):
    """A group from which the mesh of all ranks cannot be inferred."""


def install() -> None:
    """Replace PyTorch's `new_group`, and give process groups torch_xla's attribute `_mesh`."""
    module: Any = dist.distributed_c10d
    new_group = _limit_to_own_ranks(module.new_group)
    module.new_group = new_group
    setattr(dist, "new_group", new_group)  # noqa: B010  a stub says Final
    kind: Any = dist.ProcessGroup
    kind._mesh = property(lambda group: mesh_of(group.group_name))  # noqa: SLF001  torch_xla's name


def mesh_of(name: str) -> list[list[int]]:
    """The groups of all ranks, by the name of this rank's group; [] for one group of all ranks."""
    return _meshes.get(name, [])


def keep_mesh(name: str, mesh: list[list[int]]) -> None:
    """Note the groups of all ranks, by the name of this rank's group."""
    _meshes[name] = mesh


def _limit_to_own_ranks(make: Callable[..., Any]) -> Callable[..., Any]:
    """PyTorch's `new_group`, which for groups of the backend "xla" waits only for their ranks."""

    @wraps(make)
    def new_group(ranks: Iterable[int] | None = None, *args: Any, **options: Any) -> Any:
        backend = options.get("backend", args[1] if len(args) > 1 else None)
        if ranks is None or backend not in (None, BACKEND) or dist.get_backend() != BACKEND:
            return make(ranks, *args, **options)
        members = list(ranks)
        options["use_local_synchronization"] = True
        settings = options.get("pg_options")
        group_options = settings.get(_OPTIONS, {}) if isinstance(settings, dict) else {}
        mesh = group_options.get("mesh") or (group_options.get("spmd") and _infer_mesh(members))
        group = make(members, *args, **options)
        if group is None:  # this rank is not among them
            return dist.GroupMember.NON_GROUP_MEMBER
        keep_mesh(group.group_name, mesh or _mesh_of(members))
        return group

    return new_group


def _mesh_of(members: list[int]) -> list[list[int]]:
    """The mesh of a group without options: each rank alone if it has one rank, else the group."""
    return [[rank] for rank in range(dist.get_world_size())] if len(members) == 1 else [members]


def _infer_mesh(members: list[int]) -> list[list[int]]:
    """The rectangular mesh of all ranks in which `members` are a row or a column; [] for one group.

    Raises:
        MeshRefused: for ranks that are neither.
    """
    world, size = dist.get_world_size(), len(members)
    if size in (0, 1, world):
        return []
    rows = [list(range(start, start + size)) for start in range(0, world - size + 1, size)]
    columns = [list(range(start, world, world // size)) for start in range(world // size)]
    for mesh in (rows, columns):
        if world % size == 0 and members in mesh:
            return mesh
    raise MeshRefused(
        f"new_group of ranks {members} with the option spmd: no row or column of {size} in a "
        f"rectangle of {world} ranks",
        fix="pass the groups of all ranks: pg_options={'xla_pg_options': {'mesh': [[0, 1], ...]}}",
        source=_SOURCE,
        line=program_line(),
    )
