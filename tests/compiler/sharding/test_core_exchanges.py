from trnsim.compiler.sharding.core_exchanges import BOTH, CoreGather, CoreReduce
from trnsim.graph import OPERATIONS, Graph
from trnsim.graph.ops.collectives import AllGather, AllReduce
from trnsim.lower import without_exchanges


def test_exchanges_between_cores_are_not_those_between_ranks():
    graph = Graph()
    x = graph.input((2, 4), "float32")
    summed = graph.apply(CoreReduce(BOTH, "add"), x)
    graph.outputs = [graph.apply(CoreGather(BOTH, 1), summed)]
    assert graph.outputs[0].shape == (2, 8)
    assert without_exchanges(graph) == (graph, ())
    assert CoreReduce(BOTH, "add") != AllReduce(BOTH, "add")


def test_no_framework_makes_them():
    assert OPERATIONS["all_reduce"] is AllReduce
    assert OPERATIONS["all_gather"] is AllGather
    assert not {"all_reduce between cores", "all_gather between cores"} & set(OPERATIONS)
