"""What operations take of their program, by their places in the graph."""

import json

import numpy as np
import pytest
from test_layers import stack

from trnsim.compiler.layers import LayerRun, Stack, shorten_graph, stacks_of
from trnsim.compiler.work import (
    busiest_engine_s,
    caches,
    from_rows,
    scale_work,
    sum_work,
    to_rows,
    traced_work,
)
from trnsim.graph import Graph
from trnsim.graph.ops.contraction import Attention
from trnsim.lower.program import trace
from trnsim.profile.measures.parts import PartCost


def traced(graph, weights):
    inputs = [np.empty(value.shape, value.type.numpy_dtype()) for value in graph.inputs]
    return trace(graph, inputs, "trn2", weights, numerics=False)


def total(work):
    whole = PartCost()
    for part in work.values():
        whole = whole.plus(part)
    return whole


def test_operations_take_all_of_the_program():
    graph, weights = stack(3, width=256)
    found = traced(graph, weights)
    work = traced_work(found, graph, weights)
    whole = total(work)
    assert whole.time_s == pytest.approx(found.run.timeline.device_time_s)
    assert whole.instructions == len(found.run.timeline)
    products = [place for place, node in enumerate(graph.nodes) if node.name == "dot_general"]
    assert {place for (name, place), _ in work.items() if "dot_general" in name} == set(products)


def test_bytes_have_reasons():
    graph, weights = stack(2, width=256, rows=128)
    whole = total(traced_work(traced(graph, weights), graph, weights))
    assert whole.hbm_bytes["weights"] == 2 * 256 * 256 * 2
    assert whole.hbm_bytes["inputs"] == whole.hbm_bytes["outputs"] == 128 * 256 * 2
    assert not {"cache", "spills"} & set(whole.hbm_bytes)


def test_results_without_room_are_spills(monkeypatch):
    monkeypatch.setattr("trnsim.lower.program._resident_bytes", lambda *_: 0)
    graph, weights = stack(2, width=256, rows=128)
    whole = total(traced_work(traced(graph, weights), graph, weights))
    assert whole.hbm_bytes["spills"] > 0


def decode(keys=256):
    g = Graph()
    query = g.input((1, 2, 1, 64), "bfloat16")
    key, value = (g.input((1, 2, keys, 64), "bfloat16") for _ in "kv")
    fresh = g.input((1, 2, 1, 64), "bfloat16")
    seen = g.concatenate([key, fresh], 2)
    held = g.concatenate([value, fresh], 2)
    g.outputs = [g.apply(Attention(0.125), query, seen, held)]
    return g, key, value, fresh


def test_keys_and_values_that_are_given_are_the_cache():
    g, key, value, fresh = decode()
    assert caches(g, frozenset()) == {key.number, value.number, fresh.number}
    assert caches(g, frozenset({fresh.number})) == {key.number, value.number}
    work = total(traced_work(traced(g, frozenset()), g, frozenset()))
    assert work.hbm_bytes["cache"] >= 2 * 2 * 256 * 64 * 2


def test_compiled_layers_stand_for_all_and_add_up():
    layers = Stack((LayerRun(1, 1, 10),))
    work = {
        ("first", 0): PartCost(5, {"dma": 1.0}, {"dma": 1.0}, {"inputs": 4}),
        ("layer", 1): PartCost(10, {"dma": 2.0}, {"dma": 2.0}, {"weights": 8}),
        ("layer", 2): PartCost(10, {"dma": 2.0}, {"dma": 4.0}, {"weights": 8}),
        ("last", 3): PartCost(5, {"dma": 1.0}, {"dma": 1.0}),
    }
    found = scale_work(work, [0, 1, 2, 11], [(layers, 2)], 38.0, 120)
    assert found["layer", 1].time_s == pytest.approx(36)
    assert found["layer", 1].instructions == pytest.approx(110)
    assert found["layer", 1].hbm_bytes == {"weights": 80}
    assert found["first", 0] == work["first", 0]
    assert found["last", 11] == work["last", 3]


def test_runs_of_a_stack_may_have_layers_beyond_those_that_belong_together():
    longer, shorter = LayerRun(1, 1, 12), LayerRun(14, 2, 10)
    work = {(name, place): PartCost(1, {"dma": 1.0}) for place, name in enumerate("abcdefghijkl")}
    places = [0, 1, 2, 3, 12, 13, 14, 15, 16, 17, 34, 35]
    found = scale_work(work, places, [(Stack((longer, shorter)), 2)], 0.0, 0)
    times = {name: part.busy_s["dma"] for (name, _), part in found.items()}
    assert times["a"] == times["f"] == times["k"] == times["l"] == 1
    assert times["b"] == times["c"] == times["d"] == times["e"] == 3  # 12 by 4
    assert times["g"] == times["h"] == times["i"] == times["j"] == 5  # 10 by 2
    assert {place for _, place in found} == {0, 1, 13, 14, 15, 34, 35}


def test_layers_that_take_no_time_stand_for_none():
    work = {("kernel", -1): PartCost(5, {}, {"kernels": 2.0})}
    layers = Stack((LayerRun(0, 2, 10),))
    assert scale_work(work, [0, 1, 18, 19], [(layers, 2)], 10.0, 25) == work


def test_a_shorter_graph_has_the_work_of_all_layers():
    graph, weights = stack(8, width=256)
    (layers,) = stacks_of(graph)
    short = shorten_graph(graph, [(layers, 4)])
    work = traced_work(traced(short, weights), short, weights)
    whole = traced(graph, weights).run.timeline
    places = [0, *range(1, 1 + 4 * layers.runs[0].length), len(graph.nodes) - 1]
    places = places[: len(short.nodes)]
    found = total(scale_work(work, places, [(layers, 4)], whole.device_time_s, len(whole)))
    assert found.time_s == pytest.approx(whole.device_time_s)
    assert found.instructions == pytest.approx(len(whole))
    assert found.hbm_bytes["weights"] == 8 * 256 * 256 * 2


def test_work_is_stored_and_restored():
    work = {("a+b", 3): PartCost(1, {"dma": 1.0}, {"waiting": 2.0}, {"weights": 3.0})}
    assert from_rows(json.loads(json.dumps(to_rows(work)))) == work
    assert sum_work(work, work)["a+b", 3] == work["a+b", 3].plus(work["a+b", 3])


def test_the_busiest_engine_works_in_each_layer():
    layers = Stack((LayerRun(1, 1, 5),))
    work = {
        ("norm", 0): PartCost(1, {"vector": 4.0}),
        ("product", 1): PartCost(1, {"tensor": 2.0, "vector": 0.5, "dma": 100.0}),
        ("product", 2): PartCost(1, {"tensor": 3.0}),
        ("store", -1): PartCost(1, {"scalar": 1.0}),
    }
    assert busiest_engine_s(work, [0, 1, 2], ()) == 5.0
    assert busiest_engine_s(work, [0, 1, 5], [(layers, 2)]) == 12.5  # each stands for 2.5 layers
    assert busiest_engine_s({}, [], ()) == 0.0


def test_no_engine_works_longer_than_the_program_takes():
    graph, weights = stack(3, width=256)
    found = traced(graph, weights)
    places = range(len(graph.nodes))
    busiest_s = busiest_engine_s(traced_work(found, graph, weights), places, ())
    assert 0 < busiest_s <= found.run.timeline.device_time_s
