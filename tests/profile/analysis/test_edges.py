"""The effect of each edge: the device time without it and with it."""

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

import trnsim
from trnsim.profile.analysis import edges
from trnsim.profile.analysis.data import profile_data
from trnsim.profile.analysis.edges import edge_effects
from trnsim.profile.document import edge_words, profile_document, profile_values

X = np.ones((128, 512), np.float32)


@nki.jit
def two_loads(x, kinds):
    """A load and a store that could overlap; `kinds` are those of edges between two loads."""
    out = nl.ndarray((2, 128, 512), nl.float32, buffer=nl.shared_hbm)
    tiles = [nl.ndarray((128, 512), nl.float32, buffer=nl.sbuf) for _ in range(2)]
    loads = [nisa.dma_copy(tile, x) for tile in tiles]
    for kind in kinds:
        loads[1].depends_on(loads[0], kind=nisa.dependency[kind])
    for at, tile in enumerate(tiles):
        nisa.dma_copy(out[at], tile)
    return out


def times_s(kinds, **options):
    return trnsim.run(two_loads, X, kinds, **options).timeline.device_time_s


def test_an_edge_is_compared_with_the_program_without_it():
    run = trnsim.run(two_loads, X, ("runtime",))
    (effect,) = edge_effects(run.timeline)
    assert effect.without_s == times_s(())
    assert effect.with_s == times_s(("runtime",)) > effect.without_s
    assert (effect.form, effect.kind, effect.pairs) == ("depends_on", "runtime", ((1, 0),))
    assert effect.line.file == __file__


def test_each_statement_is_left_out_on_its_own():
    run = trnsim.run(two_loads, X, ("runtime", "schedule"))
    semaphore, order = edge_effects(run.timeline)
    assert semaphore.without_s == times_s(("schedule",))
    assert order.without_s == times_s(("runtime",)) == order.with_s


def test_on_two_cores_it_is_left_out_on_both():
    run = trnsim.run(two_loads[2], X, ("runtime",), races="warn")
    (effect,) = edge_effects(run.timeline)
    plain = trnsim.run(two_loads[2], X, (), races="warn")
    assert effect.without_s == plain.timeline.device_time_s


def test_programs_with_spills_are_spilled_again():
    @nki.jit
    def kernel(x, is_ordered):
        tiles = [nl.ndarray((128, 48 * 1024), nl.float32, buffer=nl.sbuf) for _ in range(2)]
        fills = [nisa.memset(tile, 1.0) for tile in tiles]
        if is_ordered:
            fills[1].depends_on(fills[0], kind=nisa.dependency.runtime)
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        nisa.tensor_tensor(tiles[0][:, 0:512], tiles[0][:, 0:512], tiles[1][:, 0:512], nl.add)
        nisa.dma_copy(out, tiles[0][:, 0:512])
        return out

    with pytest.warns(trnsim.user_warnings.SpillWarning):
        run, plain = (trnsim.run(kernel, X, is_ordered) for is_ordered in (True, False))
    (effect,) = edge_effects(run.timeline)
    assert effect.without_s == plain.timeline.device_time_s


def test_no_more_are_tried_than_the_limits(monkeypatch):
    run = trnsim.run(two_loads, X, ("runtime", "schedule"))
    monkeypatch.setattr(edges, "MOST_TRIED", 1)
    first, second = edge_effects(run.timeline)
    assert first.without_s is not None
    assert second.without_s is None
    profile = profile_data(run)
    assert "gain_ns" not in profile["edges"][1]
    assert "not tried: the limit is" in edge_words(profile, profile["edges"][1])


def test_the_report_says_what_each_edge_gains_or_costs():
    run = trnsim.run(two_loads, X, ("runtime", "schedule"))
    profile = profile_data(run)
    costly, idle = (edge_words(profile, edge) for edge in profile["edges"])
    place = f"{__file__}:{run.program.ordering.edges[0].line.line}"
    assert costly.startswith(f"depends_on at {place} (runtime), dma_copy after dma_copy: without")
    assert ": costs " in costly
    assert idle.endswith(": changes nothing")
    assert "gains 1 us" in edge_words(profile, {**profile["edges"][0], "gain_ns": 1000.0})
    profile["edges"][0]["edges"] = 3
    assert "dma_copy after dma_copy (3 edges): " in edge_words(profile, profile["edges"][0])
    assert profile_values(profile)["edges"][0]["gain_s"] < 0
    texts = [
        str(block) for section in profile_document([profile]).sections for block in section.blocks
    ]
    assert any("depends_on at" in text for text in texts)


def test_a_report_without_edges_has_none():
    profile = profile_data(trnsim.run(two_loads, X, ()))
    assert profile["edges"] == []
    assert "edges" not in profile_values(profile)


CHAINS = {
    "vector": lambda dst, src: nisa.tensor_scalar(dst, src, nl.add, 1.0),
    "scalar": lambda dst, src: nisa.activation(dst, nl.exp, src),
    "gpsimd": lambda dst, src: nisa.iota(dst, [[1, src.shape[1]]], 0),
    "reciprocal": nisa.reciprocal,
    "pairs": lambda dst, src: nisa.tensor_tensor(dst, src, src, nl.add, nisa.engine.vector),
}


@nki.jit
def late_and_early(x, name, early_first, has_edge):
    """A chain of long work that nothing waits for, and short work that a long store waits for."""
    out = nl.ndarray((2, 128, 2048), nl.float32, buffer=nl.shared_hbm)
    source = nl.ndarray((128, 2048), nl.float32, buffer=nl.sbuf)
    late, early = (nl.ndarray((128, 2048), nl.float32, buffer=nl.sbuf) for _ in range(2))
    nisa.dma_copy(source, x)
    if not early_first:
        last = CHAINS[name](late, source)
    first = CHAINS[name](early, source)
    if early_first:
        last = CHAINS[name](late, source)
    if has_edge:
        last.depends_on(first, kind=nisa.dependency.schedule)
    nisa.dma_copy(out[1], early)
    for _ in range(3):
        nisa.dma_copy(out[1], early)
    nisa.dma_copy(out[0], late)
    return out


@pytest.mark.parametrize("name", CHAINS)
def test_the_gain_of_an_edge_is_that_of_the_kernel_rewritten_by_hand(name):
    x = np.ones((128, 2048), np.float32)

    def timeline(**options):
        return trnsim.run(late_and_early, x, name, order="issued", kernel_kwargs=options).timeline

    ordered = timeline(early_first=False, has_edge=True)
    (effect,) = edge_effects(ordered)
    by_hand = timeline(early_first=True, has_edge=False).device_time_s
    assert effect.without_s == timeline(early_first=False, has_edge=False).device_time_s
    assert effect.with_s == by_hand < effect.without_s
