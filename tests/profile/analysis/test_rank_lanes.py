import numpy as np
import pytest

from trnsim.profile.analysis.rank_lanes import rank_lane, stored_rank_lanes, stretches_of
from trnsim.profile.measures.collectives import CollectiveTimes


def stretches(*pairs):
    return np.array(pairs, dtype=float).reshape(-1, 2).T


def spans(row):
    return [(span.kind, span.start_s, span.start_s + span.length_s) for span in row]


def test_an_exchange_is_exposed_where_nothing_works():
    work, exchanges = stretches((0, 2), (3, 4)), stretches((1, 5))
    lane = rank_lane("rank 0", work, exchanges, stretches((2, 3), (4, 5)))
    assert spans(lane.spans) == [("work", 0, 2), ("work", 3, 4)]
    assert spans(lane.lower) == [
        ("exchange", 1, 2),
        ("exposed", 2, 3),
        ("exchange", 3, 4),
        ("exposed", 4, 5),
    ]


def test_what_is_stored_is_read_as_the_same_lane_without_gaps_of_a_pixel():
    times = CollectiveTimes(
        stretches((0, 2), (2.0001, 3), (5, 6)), stretches((1, 5)), stretches(), 4.0, 0.0
    )
    stored = stretches_of(times, 12.0)
    assert stored == {"work_s": [[0, 3], [5, 6]], "exchanges_s": [[1, 5]], "exposed_s": []}
    (lane,) = stored_rank_lanes([stored])
    assert (lane.name, spans(lane.spans)) == ("rank 0", [("work", 0, 3), ("work", 5, 6)])
    assert spans(lane.lower) == [("exchange", 1, 5)]


@pytest.mark.parametrize(
    "rows",
    [[1, 2], [[1, 2, 3]], [["a", 1]], [[-1, 2]], [[0, float("inf")]], [[0, 1], [2]], [[2, 1]], "x"],
)
def test_other_values_are_no_lanes(rows):
    with pytest.raises(ValueError, match=r"lanes|could not convert|inhomogeneous"):
        stored_rank_lanes([{"work_s": rows, "exchanges_s": [], "exposed_s": []}])
