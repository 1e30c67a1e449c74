"""`torch_xla.distributed.fsdp.state_dict_utils`: the shares of all ranks put together.

Source: torch_xla 2.9.0, distributed/fsdp/state_dict_utils.py.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from glob import glob
from typing import Any, Final

import torch
from torch import Tensor

from trnsim.device.program_line import program_line
from trnsim.errors import BadInput
from trnsim.xla.absent_names import absence_getter

__path__: Final[list[str]] = []  # for a plain module Python asks no finder for absent names

_WRAPPED: Final = "_fsdp_wrapped_module."
_SHARE: Final = "_fsdp_shard"


class SharesLacking(BadInput, ValueError):
    """The states of some ranks, but not of all."""


def consolidate_sharded_state_dicts(
    state_dict_list: Sequence[dict[str, Tensor]], shard_metadata: dict[str, Any]
) -> OrderedDict[str, Tensor]:
    """The state of the wrapped module, from the states of all ranks in their order.

    Raises:
        SharesLacking: for another number of states than ranks.
    """
    count = shard_metadata["world_size"]
    if len(state_dict_list) != count:
        raise SharesLacking(
            f"{len(state_dict_list)} states of a model that {count} ranks share",
            fix="give the state of every rank, by rank",
            line=program_line(),
        )
    full_state: OrderedDict[str, Tensor] = OrderedDict()
    for name, value in state_dict_list[0].items():
        prefix, is_shared, _ = name.partition(_SHARE)
        if is_shared:
            shares = [state[name] for state in state_dict_list]
            info = shard_metadata["shard_info"][prefix.rstrip(".")][name.removeprefix(prefix)]
            full_state.update((prefix + key, part) for key, part in _members(shares, info))
        else:
            info = shard_metadata.get("buffer_info", {}).get(name)
            full_state[name] = value if info is None else value.to(info["_orig_dtype"])
    return OrderedDict((name.replace(_WRAPPED, ""), value) for name, value in full_state.items())


def _members(shares: Sequence[Tensor], info: dict[str, Any]) -> Iterator[tuple[str, Tensor]]:
    """The full parameters of a unit as (name, value); a shared parameter once for each name."""
    vector = torch.cat([*shares])
    parts: Any = info.get("_parts") or [(info["_orig_name"], info["_orig_size"])]
    other_groups = info.get("_others") or [[name] for name, _ in parts]
    start = 0
    for (_, size), names in zip(parts, other_groups, strict=True):
        by_rows = vector.dim() != 1 or (len(size) == 1 and len(parts) == 1)
        numel = torch.Size(size).numel()
        part = vector[: size[0]] if by_rows else vector[start : start + numel].view(size)
        start += numel
        for name in names:
            yield name, part


def _state_in(path: str) -> dict[str, Any]:
    """A rank's state in a file.

    Raises:
        SharesLacking: for a file of something else, such as a state that was put together.
    """
    state: Any = torch.load(path, map_location="cpu", weights_only=False)
    if not isinstance(state, dict) or not {"model", "shard_metadata"} <= state.keys():
        raise SharesLacking(
            f"{path} has no share of a model; legal: a dictionary of model and shard_metadata",
            fix="give a ckpt_suffix that only the files of the ranks have: '_rank-*.pth'",
            line=program_line(),
        )
    return state


def consolidate_sharded_model_checkpoints(
    ckpt_prefix: str, ckpt_suffix: str = "*.pth", save_path: str = "", save_model: bool = True
) -> tuple[OrderedDict[str, Tensor], str | None]:
    """The state from the files of all ranks, and the file in which it is written.

    A file has "model" and "shard_metadata". It is unpickled: read only files that you trust.

    Raises:
        SharesLacking: for files of some ranks only.
    """
    pattern = ckpt_prefix + ckpt_suffix
    paths = glob(pattern)  # noqa: PTH207  a pattern with folders
    states = [_state_in(path) for path in paths]
    states.sort(key=lambda state: state["shard_metadata"]["rank"])
    count = states[0]["shard_metadata"]["world_size"] if states else 0
    if [state["shard_metadata"]["rank"] for state in states] != [*range(count)] or not states:
        raise SharesLacking(
            f"{pattern} has files of ranks {[s['shard_metadata']['rank'] for s in states]}"
            + (f", of {count}" if states else ""),
            fix="give the files of all ranks, and no other",
            line=program_line(),
        )
    full_state = consolidate_sharded_state_dicts(
        [state["model"] for state in states], states[0]["shard_metadata"]
    )
    output_path = (save_path or f"{ckpt_prefix}_consolidated.pth") if save_model else None
    if output_path is not None:
        torch.save({"model": full_state}, output_path)
    return full_state, output_path


__getattr__ = absence_getter("torch_xla.distributed.fsdp.state_dict_utils", __name__)
