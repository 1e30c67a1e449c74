"""Edges on five kernels: the timeline obeys, and the best gains what its order does by hand."""

import sys
from pathlib import Path

import numpy as np
import pytest

from trnsim.isa import Engine

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))

import schedules

BEST = {
    schedules.urgent_load: ("large", "small"),
    schedules.short_step: ("long", "short"),
    schedules.first_tile: ("last", "first"),
    schedules.tables: ("gelu 0", "exp 1"),
    schedules.urgent_product: ("term 0", "one"),
}


@pytest.mark.parametrize("kernel", BEST, ids=lambda kernel: kernel.title)
def test_the_timeline_obeys_and_the_gain_is_that_of_the_order_by_hand(kernel):
    plain, ordered, by_hand = (
        schedules.run(kernel, edge, is_by_hand=is_by_hand, has_values=True)
        for edge, is_by_hand in ((None, False), (BEST[kernel], False), (None, True))
    )
    np.testing.assert_array_equal(ordered.outputs, plain.outputs)
    np.testing.assert_array_equal(by_hand.outputs, plain.outputs)
    (edge,) = ordered.program.ordering.edges
    consumer, producer = (ordered.timeline.span(i) for i in (edge.consumer, edge.producer))
    is_transfer = consumer.engine is Engine.dma
    assert consumer.start_s >= (producer.start_s if is_transfer else producer.busy_until_s)
    gain_s = plain.timeline.device_time_s - ordered.timeline.device_time_s
    assert gain_s > 0.08 * plain.timeline.device_time_s
    assert ordered.timeline.device_time_s == pytest.approx(by_hand.timeline.device_time_s)


def test_the_table_finds_the_best_edge_of_all_pairs():
    row = schedules.best_row(schedules.tables)
    assert row.edge == BEST[schedules.tables]
    assert row.edge_s == pytest.approx(row.by_hand_s)
    assert row.edge_s < row.plain_s
