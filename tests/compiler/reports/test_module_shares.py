"""What modules take: paths survive the passes, and equal layers are one row."""

from dataclasses import replace

import pytest
from layered_graphs import layered

from trnsim import disk_cache
from trnsim.compiler import Flags, compilation
from trnsim.compiler import compile as compile_graph
from trnsim.compiler.layers import stacks_of
from trnsim.compiler.patterns.preparation import prepare_graph
from trnsim.compiler.reports.module_shares import module_shares
from trnsim.graph import Graph, Origin
from trnsim.profile.measures.parts import PartCost


def test_equal_layers_are_one_row():
    graph, weights = layered(10, width=256)
    found = compile_graph(graph, weights=weights)
    assert (found.layers, found.compiled_layers) == (10, 4)
    rows = {one.module: one.times for one in found.shares}
    assert rows["net.blocks.*.linear"] == 10
    assert rows["net.tanh"] == 1
    assert sum(one.part.time_s for one in found.shares) == pytest.approx(found.device_time_s)


def test_layers_that_are_all_compiled_are_rows_of_their_own():
    graph, weights = layered(3, width=256)
    rows = {one.module for one in compile_graph(graph, weights=weights).shares}
    assert {f"net.blocks.{layer}.linear" for layer in range(3)} <= rows


def test_a_layer_beside_the_equal_ones_is_counted_with_them():
    graph, _ = layered(10, width=256)
    layers = stacks_of(graph)
    work = {("tanh", 0): PartCost(1), ("dot_general", 1): PartCost(9)}
    first = replace(graph.nodes[0], origin=Origin("net.blocks.0.norm"))
    graph = Graph(graph.inputs, [first, *graph.nodes[1:]], graph.outputs)
    found = {one.module: one.times for one in module_shares(work, graph, layers)}
    assert found == {"net.blocks.*.norm": 10, "net.blocks.*.linear": 10}


@pytest.mark.parametrize("path", ["", "net.block_{}", "net.same"])
def test_paths_without_a_number_of_their_own_stay_as_they_are(path):
    graph, _ = layered(10, path, width=256)
    found = module_shares({("dot_general", 1): PartCost(9)}, graph, stacks_of(graph))
    assert [(one.module, one.times) for one in found] == [(path.format(0), 1)]


def test_what_no_operation_stands_for_has_no_module():
    graph, _ = layered(3)
    (found,) = module_shares({("results to HBM", -1): PartCost(1)}, graph, [])
    assert (found.module, found.operation) == ("", "results to HBM")


def test_modules_are_no_part_of_what_is_remembered(tmp_path, monkeypatch):
    monkeypatch.setenv(disk_cache.VARIABLE, str(tmp_path))
    graph, weights = layered(10, width=256)
    compile_graph(graph, weights=weights)
    assert "blocks" not in "".join(file.read_text() for file in tmp_path.rglob("*.json"))
    monkeypatch.setattr("trnsim.compiler.program_times.trace_without_values", None)
    other, weights = layered(10, "other.{}", width=256)
    assert "other.*" in {one.module for one in compile_graph(other, weights=weights).shares}


def test_casts_keep_what_operations_came_from():
    graph, weights = layered(3, width=256)
    graph.nodes = [
        replace(node, origin=Origin(f"m{place}")) for place, node in enumerate(graph.nodes)
    ]
    wide = Graph()
    wide.current_origin = Origin("wide")
    x, w = wide.input((256, 256), "float32"), wide.input((256, 256), "float32")
    wide.outputs = [wide.dot_general(x, w, (1, 1))]
    (piece, _), *_ = compilation.split_programs(
        prepare_graph(wide, {w.number}, Flags(auto_cast="all"))
    )
    assert {node.origin.module for node in piece.nodes} == {"wide"}
    (piece, _), *_ = compilation.split_programs(prepare_graph(graph, weights))
    assert [node.origin.module for node in piece.nodes] == [
        f"m{place}" for place in range(len(graph.nodes))
    ]
