from trnsim.graph import Graph
from trnsim.graph.ops.collectives import AllGather, AllReduce
from trnsim.lower import GraphExchange, between_exchanges, costs, without_exchanges

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
    assert exchanges == (
        GraphExchange("all_reduce", 64, GROUP),
        GraphExchange("all_gather", 256, GROUP),
    )
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


def residual(layers):
    """Each layer adds the sum over ranks of its product to what it was given."""
    graph = Graph()
    value = graph.input((2, 8), "float32")
    for _ in range(layers):
        weight = graph.input((8, 8), "float32")
        product = graph.dot_general(value, weight, (1, 0), "float32")
        value = graph.elementwise("add", value, graph.apply(AllReduce(GROUP), product))
    graph.outputs = [value]
    return graph


def test_kernels_do_not_reach_across_an_exchange():
    parts = between_exchanges(residual(3))
    names = [[node.name for node in part.nodes] for part in parts]
    assert names == [["dot_general"], ["add", "dot_general"], ["add", "dot_general"], ["add"]]
    kernels = [kernel.name for part in parts for kernel in costs(part, "trn1")]
    assert kernels == ["dot_general", "add", "dot_general", "add", "dot_general", "add"]


def test_a_part_takes_and_gives_what_others_make_and_read():
    graph = residual(2)
    first, second, last = between_exchanges(graph)
    assert [value.number for value in first.outputs] == [first.nodes[0].result.number]
    # The sum of the first layer is read by its own product, and by the last part.
    assert {value.number for value in second.outputs} == {
        node.result.number for node in second.nodes
    }
    assert last.outputs == graph.outputs
    made = {value.number for part in (first, second, last) for value in part.outputs}
    received = {node.result.number for node in graph.nodes if node.name == "all_reduce"}
    given = {value.number for value in graph.inputs}
    for part in (first, second, last):
        assert {value.number for value in part.inputs} <= made | received | given


def test_a_graph_without_exchanges_is_one_part():
    graph = Graph()
    graph.outputs = [graph.elementwise("abs", graph.input((4, 8), "float32"))]
    (part,) = between_exchanges(graph)
    assert (part.nodes, part.outputs) == (graph.nodes, graph.outputs)
