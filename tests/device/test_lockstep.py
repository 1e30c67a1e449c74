import numpy as np
import pytest

from trnsim.device.lockstep import compute_in_lockstep
from trnsim.errors import InternalError, NotModelled
from trnsim.graph import Graph
from trnsim.graph.ops.collectives import AllReduce, AllToAll, CollectivePermute, ReduceScatter

PAIRS = ((0, 2), (1, 3))


def chain(*operations, dtype="float32", shape=(4,)):
    """x + 1, each exchange in turn, doubled behind each."""
    graph = Graph()
    value = graph.elementwise("add", graph.input(shape, dtype), 1.0)
    for operation in operations:
        value = graph.apply(operation, value)
        value = graph.elementwise("add", value, value)
    graph.outputs = [value]
    return graph


def run(graphs, given):
    return compute_in_lockstep(graphs, [[one] for one in given], Graph.reference)


def rows(count, *shape):
    return [np.full(shape, float(10**at), np.float32) for at in range(count)]


def test_each_exchange_is_among_the_members_of_a_group():
    found = run([chain(AllReduce(PAIRS))] * 4, rows(4, 4))
    assert [float(one[0]) for (one,) in found] == [2 * 103, 2 * 1012, 2 * 103, 2 * 1012]


def test_exchanges_that_follow_one_another_at_once():
    graph = Graph()
    value = graph.input((2, 2), "float32")
    once = graph.apply(AllToAll(PAIRS, 0, 1), value)
    graph.outputs = [graph.apply(AllToAll(PAIRS, 1, 0), once), once]
    given = [np.arange(4, dtype=np.float32).reshape(2, 2) + 10 * at for at in range(4)]
    found = run([graph] * 4, given)
    for (back, _), own in zip(found, given, strict=True):
        assert back.tolist() == own.tolist()
    assert found[0][1].tolist() == [[0, 1, 20, 21]]
    assert found[2][1].tolist() == [[2, 3, 22, 23]]


def test_shares_and_what_is_passed_on():
    pairs = ((0, 1), (1, 2), (2, 3))
    found = run([chain(ReduceScatter(PAIRS), CollectivePermute(pairs))] * 4, rows(4, 4))
    assert found[0][0].tolist() == [0, 0]
    assert found[1][0].tolist() == [4 * 103] * 2


def test_a_number_alone_and_what_is_rounded():
    found = run([chain(AllReduce(((0, 1),)), dtype="bfloat16", shape=())] * 2, rows(2))
    assert found[0][0].shape == ()
    assert float(found[0][0]) == 26  # 2 + 11 = 13, exact in bfloat16


def test_devices_that_do_not_meet_are_refused():
    one, other = chain(AllReduce(((0, 1),))), chain(ReduceScatter(((0, 1),)))
    with pytest.raises(
        NotModelled, match="devices of one program that meet in different exchanges: all"
    ):
        run([one, other], rows(2, 4))
    with pytest.raises(NotModelled, match="devices of one program exchange values a different"):
        run([one, chain()], rows(2, 4))
    with pytest.raises(InternalError, match=r"all_reduce of devices \[0, 1\], of 3"):
        run([one] * 3, rows(3, 4))
