"""The page of a world: tracks, hidden and exposed time, links."""

import re
from types import SimpleNamespace

import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

import trnsim
from trnsim.profile.page.world import times_of, world_page


@nki.jit
def overlapping(x, loads):
    src = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm, name="src")
    dst = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm, name="dst")
    nisa.dma_copy(dst=src, src=x)
    ncc.all_reduce([src], [dst], ncc.ReplicaGroup([[0, 1]]), nl.add)
    for _ in range(loads):
        tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x)
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0)
    return x


@pytest.fixture(scope="module")
def worlds():
    x = np.ones((128, 512), np.float32)
    return {loads: trnsim.run(overlapping, x, loads, ranks=2) for loads in (0, 8)}


def test_a_collective_is_exposed_where_nothing_else_runs(worlds):
    bare, hidden = (times_of(worlds[loads].runs[0].timelines) for loads in (0, 8))
    (span,) = [s for s in worlds[0].runs[0].timeline.spans() if s.opcode == "all_reduce"]
    assert bare.total_s == pytest.approx(span.busy_until_s - span.start_s)
    assert bare.exposed_s == pytest.approx(bare.total_s)
    assert hidden.total_s == pytest.approx(bare.total_s)
    assert 0 <= hidden.exposed_s < hidden.total_s


def test_a_page_has_a_track_for_each_rank_and_shows_names_as_text(worlds):
    ranks = [run.timelines for run in worlds[8].runs]
    links = [SimpleNamespace(name=f"<link {n}>", nbytes=64.0, busy_s=1e-6) for n in range(50)]
    text = world_page("a <kernel>", ranks, (0.0, 1e-6), links)
    assert re.findall(r"rank \d</text>", text) == ["rank 0</text>", "rank 1</text>"]
    assert text.count('class="exchange" x=') == 2
    assert "<h1>a &lt;kernel&gt;</h1>" in text
    assert "&lt;link 39&gt;" in text
    assert "&lt;link 40&gt;" not in text
    assert "10 more, less busy" in text
    assert "<script" not in text
