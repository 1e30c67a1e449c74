"""Stacks of equal layers whose operations have modules."""

from dataclasses import replace

from test_layers import stack

from trnsim.compiler.layers import LayerRun, stacks_of
from trnsim.graph import Graph, Origin


def layered(count, path="net.blocks.{}.linear", **sizes):
    """A stack whose products, gelus and additions are of a module a layer."""
    graph, weights = stack(count, **sizes)
    found = stacks_of(graph)
    layers = found[0].runs[0] if found else LayerRun(1, 3, count)
    nodes = []
    for place, node in enumerate(graph.nodes):
        inside = layers.start <= place < layers.end
        layer = (place - layers.start) // layers.length
        origin = Origin(path.format(layer) if inside else f"net.{node.name}")
        nodes.append(replace(node, origin=origin))
    return Graph(graph.inputs, nodes, graph.outputs), weights
