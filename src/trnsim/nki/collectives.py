"""`nki.collectives`: the names of collective operations; calling one raises `NotModelled`.

Source: nki.collectives.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from trnsim.errors import NotModelled


@dataclass(frozen=True)
class ReplicaGroup:
    """The ranks that take part in a collective, group by group."""

    groups: Sequence[Sequence[int]]


def _unmodelled(name: str) -> Callable[..., NoReturn]:
    def refuse(*args: Any, **kwargs: Any) -> NoReturn:
        del args, kwargs
        raise NotModelled(
            f"nki.collectives.{name}: collectives between ranks are not emulated yet",
            fix="run the kernel on one logical core without the collective",
            source=f"nki.collectives.{name}",
        )

    refuse.__name__ = refuse.__qualname__ = name
    return refuse


NAMES = (
    "all_gather",
    "all_gather_v",
    "all_reduce",
    "all_to_all",
    "all_to_all_v",
    "collective_permute",
    "collective_permute_implicit",
    "collective_permute_implicit_current_processing_rank_id",
    "collective_permute_implicit_reduce",
    "rank_id",
    "reduce_scatter",
    "reduce_scatter_v",
)
"""The published collectives of versions 0.6 and 0.7."""

globals().update({name: _unmodelled(name) for name in NAMES})
