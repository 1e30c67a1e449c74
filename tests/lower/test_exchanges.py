from trnsim.graph import Graph
from trnsim.graph.ops.collectives import AllGather, AllReduce
from trnsim.lower import Exchange, costs, without_exchanges

GROUP = ((0, 1, 2, 3),)


def test_a_graph_without_exchanges_stays():
    graph = Graph()
    graph.outputs = [graph.elementwise("abs", graph.input((4, 8), "float32"))]
    assert without_exchanges(graph) == (graph, ())


def test_an_exchange_ends_a_graph_and_begins_it_anew():
    graph = Graph()
    given = graph.input((4, 8), "bfloat16")
    sent = graph.elementwise("abs", given)
    received = graph.apply(AllReduce(GROUP), sent)
    wide = graph.apply(AllGather(GROUP, 0), graph.elementwise("negate", received))
    graph.outputs = [wide, received]
    alone, exchanges = without_exchanges(graph)
    assert exchanges == (Exchange("all_reduce", 64, 4), Exchange("all_gather", 256, 4))
    assert [node.name for node in alone.nodes] == ["abs", "negate"]
    assert [value.number for value in alone.inputs] == [0, received.number, wide.number]
    # What was received is known to be an output again; an input that is returned is no work.
    assert sent in alone.outputs
    assert costs(alone, "trn2")


def test_an_input_may_be_exchanged_as_it_is():
    graph = Graph()
    received = graph.apply(AllReduce(GROUP), graph.input((4,), "float32"))
    graph.outputs = [received]
    alone, exchanges = without_exchanges(graph)
    assert (alone.nodes, len(exchanges)) == ([], 1)
