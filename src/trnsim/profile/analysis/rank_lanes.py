"""A rank's lane: work above, collectives (exchanges) below, exposed while no engine works."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from trnsim.document.lanes import Lane, LaneSpan
from trnsim.profile.units import time_text

if TYPE_CHECKING:
    from trnsim.profile.measures.collectives import CollectiveTimes

Stretches = npt.NDArray[np.float64]
"""Array ``[2, stretches]``: the starts and the ends of stretches of time, in seconds."""

_LEAST_SHARE: Final = 1 / 1200
"""Share of the time below which a gap is not stored: a pixel of a wide screen."""
_LONGEST_S: Final = 1e12
_FIELDS: Final = ("work_s", "exchanges_s", "exposed_s")


def rank_lane(name: str, work: Stretches, exchanges: Stretches, exposed: Stretches) -> Lane:
    """The lane of a rank."""
    lower = _exchange_spans(exchanges, exposed)
    return Lane(name, [_span(start, end, "work") for start, end in work.T.tolist()], lower=lower)


def stretches_of(times: CollectiveTimes, total_s: float) -> dict[str, list[list[float]]]:
    """A rank's stretches as JSON, by field: starts and ends, without gaps of less than a pixel."""
    stretches = (times.work, times.exchanges, times.exposed)
    return {
        name: _join(named_stretches, total_s * _LEAST_SHARE)
        for name, named_stretches in zip(_FIELDS, stretches, strict=True)
    }


def stored_rank_lanes(rank_rows: Sequence[Mapping[str, Any]]) -> list[Lane]:
    """The lanes of the ranks in a file.

    Raises:
        KeyError: a rank lacks a field.
        ValueError: a field is no list of starts and ends in seconds.
    """
    return [
        rank_lane(f"rank {rank}", *(_stretches(row, name) for name in _FIELDS))
        for rank, row in enumerate(rank_rows)
    ]


def _stretches(row: Mapping[str, Any], name: str) -> Stretches:
    spans = np.asarray(row[name], dtype=np.float64)
    if not spans.size:
        return np.empty((2, 0))
    is_legal = spans.ndim == 2 and spans.shape[1] == 2  # noqa: PLR2004  rows of start and end
    if (
        not is_legal
        or not ((spans >= 0) & (spans <= _LONGEST_S)).all()
        or (np.diff(spans) < 0).any()
    ):
        raise ValueError(f"{name} of lanes: legal: starts and later ends in seconds, 0 or more")
    return spans.T


def _join(stretches: Stretches, least_s: float) -> list[list[float]]:
    spans: list[list[float]] = []
    for start_s, end_s in stretches.T.tolist():
        if spans and start_s - spans[-1][1] < least_s:
            spans[-1][1] = max(end_s, spans[-1][1])
        else:
            spans.append([start_s, end_s])
    return spans


def _span(start_s: float, end_s: float, kind: str) -> LaneSpan:
    return LaneSpan(start_s, end_s - start_s, kind, f"{kind}: {time_text(end_s - start_s)}")


def _exchange_spans(exchanges: Stretches, exposed: Stretches) -> list[LaneSpan]:
    """Collectives in order of time: the parts that are exposed, and the others."""
    exposed_rows, spans = sorted(exposed.T.tolist()), list[LaneSpan]()
    exposed_ends_s = [end_s for _, end_s in exposed_rows]
    for start_s, end_s in exchanges.T.tolist():
        position_s = start_s
        for from_s, to_s in exposed_rows[bisect_right(exposed_ends_s, start_s) :]:
            if from_s >= end_s:
                break
            if from_s > position_s:
                spans.append(_span(position_s, from_s, "exchange"))
            spans.append(_span(max(from_s, start_s), min(to_s, end_s), "exposed"))
            position_s = to_s
        if position_s < end_s:
            spans.append(_span(position_s, end_s, "exchange"))
    return spans
