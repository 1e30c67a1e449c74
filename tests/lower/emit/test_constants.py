"""Tiles that are made once."""

import numpy as np
from made_graphs import Made

from trnsim.lower.emit.constants import Constants


def test_a_tile_is_made_once_for_its_key():
    constants, made = Constants(None, 0), []
    first = constants.once("a", lambda: made.append("a") or object())
    assert constants.once("a", lambda: made.append("again")) is first
    assert constants.once("b", lambda: made.append("b") or object()) is not first
    assert made == ["a", "b"]


def test_a_row_that_several_operations_add_is_loaded_once():
    made = Made()
    x, y, row = made.given(300, 640), made.given(300, 640), made.given(300)
    column = made.graph.broadcast_in_dim(row, (300, 640), (0,))
    sums = [made.of("add", one, column) for one in (x, y)]
    loaded = made.opcodes(*sums).count("dma_copy")
    other = Made()
    x, y = other.given(300, 640), other.given(300, 640)
    columns = [other.graph.broadcast_in_dim(other.given(300), (300, 640), (0,)) for _ in range(2)]
    twice = other.opcodes(*(other.of("add", *pair) for pair in zip((x, y), columns, strict=True)))
    assert loaded < twice.count("dma_copy")
    made.check(*sums)
    assert np.isfinite(loaded)
