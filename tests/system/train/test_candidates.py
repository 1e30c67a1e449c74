from dataclasses import replace

import numpy as np
import pytest

from trnsim.place.machine import machine
from trnsim.system.train import memory
from trnsim.system.train.candidates import (
    LayoutRequest,
    _needed_bytes,
    fitting_layouts,
    layouts,
    smallest_layout,
)
from trnsim.system.train.layout import check


def test_every_candidate_is_legal_and_uses_all_ranks(llama, trn2):
    found = layouts(llama, trn2, LayoutRequest(256, 4096))
    assert len(found) > 1000
    assert len(set(found)) == len(found)
    for one in found:
        check(one, llama, trn2)
    for axis in ("tensor", "pipeline", "virtual", "context", "micro_batch", "recompute", "zero"):
        assert len({getattr(one, axis) for one in found}) > 1, axis


def test_what_was_asked_stays(llama, mixtral, trn2):
    asked = LayoutRequest(256, 4096, tensor=8, zero=0, recompute="full", is_sequence=False)
    found = layouts(llama, trn2, asked)
    assert found
    assert {(o.tensor, o.zero, o.recompute, o.is_sequence) for o in found} == {
        (8, 0, "full", False)
    }
    assert {one.expert for one in layouts(mixtral, trn2, LayoutRequest(256, 4096, tensor=8))} == {
        1,
        2,
        4,
        8,
    }
    assert all(one.data == 4 for one in layouts(llama, trn2, LayoutRequest(256, 4096, data=4)))


def test_tokens_are_divided_between_products_where_tensor_ranks_divide_them(llama, trn2):
    found = layouts(llama, trn2, LayoutRequest(256, 4095, tensor=8))
    assert found
    assert not any(one.is_sequence for one in found)
    assert not layouts(llama, trn2, LayoutRequest(256, 4095, tensor=8, is_sequence=True))
    even = layouts(llama, trn2, LayoutRequest(256, 4096))
    assert {one.is_sequence for one in even if one.tensor > 1} == {True}


def test_data_ranks_never_outnumber_sequences(llama):
    found = layouts(llama, machine("trn2", 64), LayoutRequest(16, 8192))
    assert found
    assert max(one.data for one in found) <= 16


@pytest.mark.slow
def test_the_formula_over_arrays_is_the_memory_of_the_fuller_end(llama, mixtral, trn2):
    random = np.random.default_rng(1)
    for model in (llama, mixtral):
        found = layouts(model, trn2, LayoutRequest(256, 4096))
        some = [found[at] for at in random.integers(0, len(found), 150)]
        for one, needed in zip(some, _needed_bytes(model, some), strict=True):
            ends = [memory.stages(model, one)[at].total for at in (0, -1)]
            assert needed == pytest.approx(max(ends), rel=0.02)


def test_what_does_not_fit_is_left_out(llama):
    where = machine("trn1")
    found = layouts(llama, where, LayoutRequest(256, 4096))
    kept = fitting_layouts(llama, where, found)
    assert 0 < len(kept) < len(found)
    out = set(found) - set(kept)
    assert all(
        max(one.total for one in memory.stages(llama, layout)) > memory.usable_bytes(where)
        for layout in sorted(out, key=str)[::20]
    )
    assert fitting_layouts(llama, where, []) == []


def test_the_smallest_needs_the_least(llama, trn2):
    found = layouts(llama, trn2, LayoutRequest(256, 4096))
    needed = [max(s.total for s in memory.stages(llama, one)) for one in found[::40]]
    smallest = max(s.total for s in memory.stages(llama, smallest_layout(llama, found)))
    assert smallest <= 1.02 * min(needed)


def test_a_plain_layout_has_data_ranks_for_the_rest(trn2):
    plain = LayoutRequest(256, 4096, tensor=8, pipeline=4).plain(trn2)
    assert (plain.data, plain.recompute) == (8, "selective")
    assert LayoutRequest(256, 4096, tensor=3).plain(trn2).data == 1
    assert replace(LayoutRequest(256, 4096), data=5).plain(trn2).data == 5
