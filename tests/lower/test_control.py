import numpy as np
import pytest

from trnsim.errors import InternalError, NotModelled
from trnsim.graph import Graph, TensorType
from trnsim.graph.ops.arithmetic import Add
from trnsim.graph.ops.control_flow import Case, If, While
from trnsim.graph.ops.reductions import Sort
from trnsim.lower import control, costs, evaluate, memory_plan

ROW, FLAG, COUNT = (TensorType((3, 40), "float32"), *(TensorType((), d) for d in ("bool", "int32")))
ROW_BYTES = 480


def of_one(*names):
    """A graph of elementwise operations, one after the other, each with a kernel of its own."""
    graph = Graph()
    value = graph.input(ROW.shape, ROW.dtype)
    for name in names:
        value = graph.transpose(graph.elementwise(name, value), (1, 0))
        value = graph.transpose(graph.elementwise("abs", value), (1, 0))
    graph.outputs = [value]
    return graph


def counting(limit, trips):
    """While the count is below `limit`: one more, and the row twice."""
    condition, body = Graph(), Graph()
    number, _ = condition.input((), "int32"), condition.input(ROW.shape, ROW.dtype)
    below = condition.elementwise("compare", number, float(limit), direction="LT")
    condition.outputs = [below]
    number, held = body.input((), "int32"), body.input(ROW.shape, ROW.dtype)
    body.outputs = [body.elementwise("add", number, 1.0), body.elementwise("add", held, held)]
    return While(condition, body, trips)


def graph_of(operation, *given):
    graph = Graph()
    inputs = [graph.input(one.shape, one.dtype) for one in given]
    graph.outputs = list(graph.apply_to_all(operation, inputs))
    return graph


BRANCHES = (of_one("negate"), of_one("square"), of_one("exponential"))


@pytest.mark.parametrize("chip", ["trn1", "trn2", "trn3"])
@pytest.mark.parametrize("index", [-2, -1, 0, 1, 2, 3, 2**31 - 1])
def test_case_runs_the_branch_of_its_number_else_the_last(index, chip, random):
    graph, x = graph_of(Case(BRANCHES), COUNT, ROW), random(ROW.shape)
    (found,) = evaluate(graph, [np.array(index, np.int32), x], chip)
    expected = {0: np.abs(x), 1: x * x}.get(index, np.exp(x))
    np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize("pred", [False, True])
def test_if_runs_the_first_graph_where_it_holds(pred, random):
    graph = Graph()
    flag, x = graph.input((), "bool"), graph.input(ROW.shape, ROW.dtype)
    (found,) = graph.apply_to_all(If(BRANCHES[1:]), [graph.elementwise("not", flag), x])
    graph.outputs = [graph.elementwise("negate", found)]
    given = random(ROW.shape)
    (result,) = evaluate(graph, [np.array(pred), given])
    expected = -np.exp(given) if pred else -given * given
    np.testing.assert_allclose(result, expected, rtol=1e-5)


@pytest.mark.parametrize("limit", [0, 1, 5])
def test_while_goes_on_as_its_values_decide(limit):
    graph = graph_of(counting(limit, None), COUNT, ROW)
    count, row = evaluate(graph, [np.zeros((), np.int32), np.ones(ROW.shape, np.float32)])
    assert count == limit
    np.testing.assert_array_equal(row, np.full(ROW.shape, 2.0**limit))


def test_branches_hold_operations_that_become_others(random):
    ordered = Graph()
    ordered.outputs = list(ordered.apply_to_all(Sort(1), [ordered.input(ROW.shape, ROW.dtype)]))
    graph, x = graph_of(If((ordered, BRANCHES[0])), FLAG, ROW), random(ROW.shape)
    (found,) = evaluate(graph, [np.array(True), x])
    np.testing.assert_array_equal(found, np.sort(x, 1))
    nested = Graph()
    flag, y = nested.input((), "bool"), nested.input(ROW.shape, ROW.dtype)
    nested.outputs = [nested.apply(If((graph, graph)), flag, flag, y)]
    (found,) = evaluate(nested, [np.array(True), x])
    np.testing.assert_array_equal(found, np.sort(x, 1))
    assert costs(nested)[0].device_time_s == sum(cost.device_time_s for cost in costs(ordered))


@pytest.mark.parametrize("chip", ["trn1", "trn2"])
def test_branches_cost_as_much_as_the_dearest(chip):
    cheap, dear = of_one("negate"), of_one("negate", "square")
    for branches in ((cheap, dear), (dear, cheap), (dear, dear)):
        (cost,) = costs(graph_of(If(branches), FLAG, ROW), chip)
        kernels = costs(dear, chip)
        assert len(kernels) > len(costs(cheap, chip))
        assert cost.name == "if (at most: the slowest branch)"
        for field in ("device_time_s", "launch_s", "instructions", "hbm_bytes"):
            assert getattr(cost, field) == sum(getattr(one, field) for one in kernels)
    assert costs(graph_of(Case((cheap, dear)), COUNT, ROW), chip)[0].name.startswith(
        "case (at most"
    )


@pytest.mark.parametrize("trips", [0, 1, 7])
def test_a_while_asks_once_more_than_it_runs(trips):
    operation = counting(trips, trips)
    (cost,) = costs(graph_of(operation, COUNT, ROW))
    asked, run = (
        sum(one.device_time_s for one in costs(graph))
        for graph in (operation.condition, operation.body)
    )
    assert cost.name == f"while ({trips} trips)"
    assert cost.device_time_s == pytest.approx((trips + 1) * asked + trips * run)


def test_a_while_of_unknown_length_has_no_time():
    message = "a while loop whose values decide how often it runs has no known time"
    with pytest.raises(NotModelled, match=message) as error:
        costs(graph_of(counting(3, None), COUNT, ROW))
    assert "give `trips`" in error.value.fix


def test_the_largest_branch_needs_its_own_memory():
    small, large = of_one("negate"), of_one("negate", "square", "exponential")
    inside = max(memory_plan(one).arena.nbytes for one in (small, large))
    assert inside > 0
    for branches in ((small, large), (large, small)):
        plan = memory_plan(graph_of(If(branches), FLAG, ROW))
        (own,) = [one for one in plan.lifetimes if one.label.startswith("inside if")]
        assert (own.type.nbytes, own.first, own.last) == (inside, 0, 0)
        assert plan.peak_bytes == 1 + 2 * ROW_BYTES + inside


def test_a_while_holds_what_passes_from_trip_to_trip_twice():
    plan = memory_plan(graph_of(counting(3, 3), COUNT, ROW))
    assert plan.input_bytes == 4 + ROW_BYTES
    assert plan.peak_bytes == 3 * plan.input_bytes


def test_other_operations_run_no_graph():
    assert control.inner_graphs(Add()) == ()
    with pytest.raises(InternalError, match="add runs no graph"):
        control.run(Add(), [], lambda _, given: given)
