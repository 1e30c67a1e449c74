"""What one operator takes on a device of one core, or of two."""

import os
import shutil
from itertools import pairwise

import pytest
from graphs_by_chance import Chance
from hypothesis import given, settings
from hypothesis import strategies as st

from trnsim import arch, disk_cache
from trnsim.compiler import operators
from trnsim.compiler.operators import operator_costs
from trnsim.errors import NotModelled, OutOfMemory
from trnsim.graph import Graph
from trnsim.graph.ops.control_flow import Case
from trnsim.graph.ops.reductions import TopK
from trnsim.lower import costs, lowering
from trnsim.timing.time_limit import TimeLimitExceededError


def device_s(kernels):
    return sum(one.device_time_s for one in kernels)


def square(rows, columns, dtype="float32"):
    graph = Graph()
    graph.outputs = [graph.elementwise("square", graph.input((rows, columns), dtype))]
    return graph


def product(rows, inner, columns):
    graph = Graph()
    x, w = graph.input((rows, inner), "bfloat16"), graph.input((inner, columns), "bfloat16")
    graph.outputs = [graph.dot_general(x, w, (1, 0))]
    return graph


@pytest.mark.parametrize("target", ["trn2", "trn3"])
@pytest.mark.parametrize("graph", [square(4096, 4096), product(2048, 1024, 2048)])
def test_two_cores_take_about_half(graph, target):
    one, two = (operator_costs(graph, target, cores) for cores in (1, 2))
    assert 0.45 < device_s(two) / device_s(one) < 0.62
    assert one == costs(graph, target) == operator_costs(graph, target)
    assert sum(k.flop for k in two) == pytest.approx(sum(k.flop for k in one))
    assert sum(k.hbm_bytes for k in two) >= sum(k.hbm_bytes for k in one)


@pytest.mark.parametrize("graph", [square(3, 5), product(1, 129, 1)])
def test_what_has_no_halves_is_one_cores_and_both_are_started(graph):
    one, two = (operator_costs(graph, "trn2", cores) for cores in (1, 2))
    assert device_s(one) == device_s(two)
    launch_s = arch.target("trn2").core.paired_launch_s
    assert {kernel.launch_s for kernel in two} == {launch_s}


def test_a_sum_over_everything_needs_an_exchange_and_is_one_cores():
    graph = Graph()
    graph.outputs = [graph.reduce("add", graph.input((4096,), "float32"), [0])]
    one, two = (operator_costs(graph, "trn2", cores) for cores in (1, 2))
    assert device_s(one) == device_s(two)


def test_a_softmax_is_split_by_rows_without_an_exchange():
    graph = Graph()
    x = graph.input((4096, 1024), "float32")
    powers = graph.elementwise("exponential", x)
    total = graph.broadcast_in_dim(graph.reduce("add", powers, [1]), x.shape, (0,))
    graph.outputs = [graph.elementwise("divide", powers, total)]
    one, two = (operator_costs(graph, "trn2", cores) for cores in (1, 2))
    assert device_s(two) < 0.62 * device_s(one)


def test_what_has_no_kernel_is_named():
    graph = Graph()
    graph.outputs = [graph.apply(TopK(20000), graph.input((1, 400000), "float32"))]
    with pytest.raises(NotModelled, match="the 20000 largest"):
        operator_costs(graph, "trn2", 2)


@pytest.mark.parametrize("error", [NotModelled, OutOfMemory])
def test_halves_without_a_kernel_are_one_cores(monkeypatch, error):
    def alone(graph, target, *, is_mirrored=False, **limit):
        if is_mirrored:
            raise error("not of this shape")
        return costs(graph, target, **limit)

    monkeypatch.setattr(operators, "costs", alone)
    graph = square(1026, 2048)
    assert device_s(operator_costs(graph, "trn2", 2)) == device_s(costs(graph, "trn2"))


@pytest.mark.parametrize(
    "graph", [product(1000, 2048, 4096), product(4098, 3000, 1026), square(4096, 4098)]
)
def test_one_core_is_not_costed_where_its_bound_is_slower_than_two(monkeypatch, graph):
    with monkeypatch.context() as without:
        without.setattr(operators, "_unsplit_bound_s", lambda *_: 0.0)
        operator_costs.cache_clear()
        compared = operator_costs(graph, "trn2", 2)
    costed = []

    def noted(graph, target, *, is_mirrored=False):
        costed.append(is_mirrored)
        return costs(graph, target, is_mirrored=is_mirrored)

    monkeypatch.setattr(operators, "costs", noted)
    operator_costs.cache_clear()
    assert operator_costs(graph, "trn2", 2) == compared
    assert costed == [True]


def sines(rows, columns):
    graph = Graph()
    x = graph.input((rows, columns), "float32")
    graph.outputs = [graph.elementwise("sine", graph.elementwise("cosine", x))]
    return graph


def unlimited(graph, target, *, is_mirrored=False, **_):
    return costs(graph, target, is_mirrored=is_mirrored)


@pytest.fixture
def _nothing_kept(monkeypatch, tmp_path):
    monkeypatch.setenv(disk_cache.VARIABLE, str(tmp_path))
    for kept in ("_group_costs", "_graph_costs"):
        monkeypatch.setattr(lowering, kept, {})
    operator_costs.cache_clear()


@pytest.mark.usefixtures("_nothing_kept")
@pytest.mark.parametrize("graph", [sines(4096, 2048), sines(8200, 4096)])
def test_one_core_is_left_once_its_work_takes_longer_than_two(monkeypatch, graph):
    found = []
    measure = lowering._measure

    def noted(group, target, **options):
        found.append(options["is_mirrored"])
        cost = measure(group, target, **options)
        found.append(cost.name)
        return cost

    monkeypatch.setattr(lowering, "_measure", noted)
    limited = operator_costs(graph, "trn2", 2)
    assert found[-1] is False  # its cost was not found
    before = len(found)
    lowering._group_costs.clear()
    lowering._graph_costs.clear()
    operator_costs.cache_clear()
    assert operator_costs(graph, "trn2", 2) == limited
    assert len(found) == before  # an earlier process found it too long
    with monkeypatch.context() as without:
        without.setattr(operators, "costs", unlimited)
        operator_costs.cache_clear()
        assert operator_costs(graph, "trn2", 2) == limited
    assert found[-2:] == [False, found[1]]


@pytest.mark.usefixtures("_nothing_kept")
def test_a_time_that_was_exceeded_says_nothing_of_a_longer_one():
    graph = sines(4096, 2048)
    whole_s = device_s(costs(graph, "trn2"))
    for kept in (lowering._group_costs, lowering._graph_costs):
        kept.clear()
    shutil.rmtree(os.environ[disk_cache.VARIABLE])
    for limit_s in (whole_s / 4, whole_s / 2):
        with pytest.raises(TimeLimitExceededError):
            costs(graph, "trn2", limit_s=limit_s)
    assert device_s(costs(graph, "trn2", limit_s=whole_s)) == whole_s


def test_a_branch_has_no_bound_of_one_core():
    then = square(4096, 4096)
    graph = Graph()
    index, x = graph.input((), "int32"), graph.input((4096, 4096), "float32")
    graph.outputs = [graph.apply(Case((then, then)), index, x)]
    assert operators._unsplit_bound_s(then, "trn2") > 0
    assert operators._unsplit_bound_s(graph, "trn2") == 0


@pytest.mark.slow
@settings(max_examples=20)
@given(st.randoms(use_true_random=False), st.integers(1, 4))
def test_two_cores_are_never_slower(random, operations):
    graph = Chance(random).made(operations)
    times = [device_s(operator_costs(graph, "trn2", cores)) for cores in (1, 2)]
    assert all(later <= earlier for earlier, later in pairwise(times))
