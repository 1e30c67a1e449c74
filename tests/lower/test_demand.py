"""What is needed of each input, beside what changes the outputs when it is changed."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trnsim.graph import Graph, TensorType
from trnsim.graph.ops.collectives import AllReduce
from trnsim.graph.ops.contraction import Attention, Convolution
from trnsim.graph.ops.control_flow import If, While
from trnsim.graph.ops.layout import DynamicSlice, Reverse
from trnsim.graph.ops.reductions import ReduceWindow, Sort
from trnsim.lower.demand import count_elements, demands


def needed(graph, value):
    """The demand on an input, as flags of its elements."""
    box = demands(graph).get(value.number)
    flags = np.zeros(value.shape, bool)
    if box is not None:
        flags[np.ix_(*box)] = True
    return flags


def felt(graph, value, put=np.nan):
    """Flags of the elements of an input on which an output depends, by putting a number at each.

    What is no number reaches all that depends on it. Of another number an output may feel nothing:
    tanh of a large sum saturates, and ``x + abs(x)`` is 0 for each negative x.
    """
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal(one.shape).astype(np.float32) for one in graph.inputs]
    before = graph.reference(inputs)
    assert all(np.isfinite(one).all() for one in before)
    flags = np.zeros(value.shape, bool)
    at = graph.inputs.index(value)
    for place in np.ndindex(*value.shape):
        changed = [array.copy() for array in inputs]
        changed[at][place] = put
        after = graph.reference(changed)
        pairs = zip(before, after, strict=True)
        flags[place] = any(not np.array_equal(one, other) for one, other in pairs)
    return flags


def check(graph, *, is_exact=True, put=np.nan):
    for value in graph.inputs:
        own, true = needed(graph, value), felt(graph, value, put)
        assert not (own & ~true).any(), "more than the outputs depend on"
        if is_exact:
            assert (own == true).all()


def cut(graph, value, starts, shape):
    graph.outputs = [graph.slice(value, starts, shape)]


def test_rows_and_columns_of_a_product():
    graph = Graph()
    a, b = graph.input((4, 3), "float32"), graph.input((3, 5), "float32")
    cut(graph, graph.dot_general(a, b, (1, 0)), (1, 2), (2, 1))
    check(graph)


@pytest.mark.parametrize("contracting", [(1, 1), (2, 1), (1, 2), (2, 2)])
def test_a_batch_of_products_with_sums_on_any_side(contracting):
    graph = Graph()
    a = graph.input((2, 3, 4) if contracting[0] == 2 else (2, 4, 3), "float32")
    b = graph.input((2, 4, 5) if contracting[1] == 1 else (2, 5, 4), "float32")
    cut(graph, graph.dot_general(a, b, contracting), (1, 0, 2), (1, 2, 3))
    check(graph)


MASKS = (
    {},
    {"is_causal": True},
    {"is_causal": True, "window": 2},
    {"window": 3},
    {"is_causal": True, "first": 1, "apart": 2},
)


@pytest.mark.parametrize("mask", MASKS, ids=str)
def test_one_query_of_attention_sees_its_keys(mask):
    graph = Graph()
    inputs = [graph.input((2, 5, width), "float32") for width in (4, 4, 3)]
    attended = graph.apply_to_all(Attention(0.5, **mask), inputs)
    # The weight of a key that is not seen is 0, which makes no number of what is none.
    cut(graph, attended[0], (0, 2, 0), (1, 1, 3))
    check(graph, put=3.0)
    graph.outputs = [graph.slice(attended[1], (1, 0), (1, 2))]
    check(graph, put=3.0)


def test_logarithms_of_other_rows_need_no_values():
    graph = Graph()
    inputs = [graph.input((5, width), "float32") for width in (4, 4, 3)]
    attended = graph.apply_to_all(Attention(0.5, is_causal=True), inputs)
    graph.outputs = [
        graph.slice(attended[0], (0, 0), (1, 3)),
        graph.slice(attended[1], (1,), (4,)),
    ]
    check(graph, put=3.0, is_exact=False)
    assert needed(graph, inputs[2]).any(1).tolist() == [True, False, False, False, False]


def test_a_softmax_needs_its_whole_rows():
    graph = Graph()
    x = graph.input((3, 4), "float32")
    largest = graph.broadcast_in_dim(graph.reduce("maximum", x, (1,)), (3, 4), (0,))
    powers = graph.elementwise("exponential", graph.elementwise("subtract", x, largest))
    total = graph.broadcast_in_dim(graph.reduce("add", powers, (1,)), (3, 4), (0,))
    cut(graph, graph.elementwise("divide", powers, total), (1, 0), (1, 1))
    # Where the sum is the row's, all of the row is felt.
    assert needed(graph, x).tolist() == felt(graph, x).tolist()


@pytest.mark.parametrize(
    ("shape", "starts", "lengths"),
    [
        ((12, 2), (2, 0), (5, 2)),
        ((6, 4), (1, 1), (2, 3)),
        ((24,), (3,), (7,)),
        ((2, 3, 2, 2), (1, 0, 1, 0), (1, 2, 1, 2)),
    ],
)
def test_a_reshape_keeps_places_where_they_are_a_box(shape, starts, lengths):
    graph = Graph()
    cut(graph, graph.reshape(graph.input((4, 3, 2), "float32"), shape), starts, lengths)
    check(graph, is_exact=False)


def test_heads_of_a_row_are_that_row():
    graph = Graph()
    x = graph.input((5, 6), "float32")
    heads = graph.transpose(graph.reshape(x, (5, 2, 3)), [1, 0, 2])
    cut(graph, heads, (0, 3, 0), (2, 1, 3))
    check(graph)


def test_windows_of_an_image():
    graph = Graph()
    x, w = graph.input((2, 3, 9), "float32"), graph.input((5, 3, 2), "float32")
    made = graph.apply(Convolution((2,), (1,), (0,), (0,), (1,), 1), x, w)
    cut(graph, made, (1, 2, 1), (1, 2, 2))
    check(graph)


@pytest.mark.parametrize("groups", [2, 4])
def test_channels_of_a_group_see_their_own(groups):
    graph = Graph()
    x, w = graph.input((2, 4, 5), "float32"), graph.input((8, 4 // groups, 2), "float32")
    made = graph.apply(Convolution((1,), (0,), (1,), (0,), (2,), groups), x, w)
    cut(graph, made, (0, 3, 1), (1, 2, 2))
    check(graph)


@pytest.mark.parametrize("op", ["add", "maximum"])
@pytest.mark.parametrize(("stride", "dilation"), [(1, 1), (2, 1), (3, 2)])
def test_windows_of_a_pooling_are_seen_whole(op, stride, dilation):
    graph = Graph()
    x = graph.input((2, 9), "float32")
    window = ReduceWindow((1, 2), (1, stride), (0, 1), (0, 1), op, (1, dilation))
    made = graph.apply(window, x)
    cut(graph, made, (1, 0), (1, 2))
    check(graph)
    graph.outputs = [made]
    check(graph)


def test_rows_of_a_table_at_known_places():
    graph = Graph()
    table = graph.input((6, 2, 3), "float32")
    odd = graph.elementwise("add", graph.iota((3,), 0), 2.0, dtype="int32")
    cut(graph, graph.gather(table, odd), (1, 0, 0), (2, 1, 2))
    check(graph)
    cut(
        graph,
        graph.gather(table, graph.constant(9.0, TensorType((1,), "int32"))),
        (0, 0, 0),
        (1, 2, 1),
    )
    assert np.flatnonzero(needed(graph, table).any((1, 2))).tolist() == [5]


def test_a_window_at_a_known_place():
    graph = Graph()
    starts = [graph.constant(number, TensorType((), "int32")) for number in (2.0, 9.0)]
    made = graph.apply(DynamicSlice((2, 3)), graph.input((5, 4), "float32"), *starts)
    cut(graph, made, (1, 0), (1, 2))
    check(graph)


def test_a_row_that_values_choose_is_one():
    graph = Graph()
    table, scores = graph.input((6, 3), "float32"), graph.input((4,), "float32")
    graph.outputs = [graph.gather(table, graph.top_k(scores, 1))]
    assert needed(graph, table).sum() == 3
    assert needed(graph, scores).all()


@pytest.mark.parametrize("name", ["sort", "top_k", "scan"])
def test_a_place_in_a_line_needs_the_line(name):
    graph = Graph()
    x = graph.input((3, 4), "float32")
    made = {
        "sort": lambda: graph.apply(Sort(-1), x),
        "top_k": lambda: graph.top_k(x, 2),
        "scan": lambda: graph.scan("add", x),
    }[name]()
    cut(graph, made, (1, 1), (1, 1))
    if name == "scan":
        check(graph)
    assert needed(graph, x)[1].sum() == (2 if name == "scan" else 4)


def test_what_ranks_add_up_stays_in_its_place():
    graph = Graph()
    x = graph.input((3, 4), "float32")
    cut(graph, graph.apply(AllReduce(((0, 1),)), x), (2, 1), (1, 2))
    assert np.argwhere(needed(graph, x)).tolist() == [[2, 1], [2, 2]]


OPERATIONS = ["tanh", "transpose", "reverse", "pad", "concatenate", "slice", "reduce", "product"]


@settings(max_examples=60)
@given(st.lists(st.sampled_from(OPERATIONS), min_size=1, max_size=4), st.data())
def test_no_demand_is_more_than_what_is_felt(names, data):
    graph = Graph()
    value = graph.input((3, 4), "float32")
    for name in names:
        rows, columns = value.shape
        if name == "tanh":
            value = graph.elementwise("tanh", value)
        elif name == "transpose":
            value = graph.transpose(value, [1, 0])
        elif name == "reverse":
            value = graph.apply(Reverse((1,)), value)
        elif name == "pad":
            value = graph.pad(value, (1, 0), (0, 1))
        elif name == "concatenate":
            value = graph.concatenate([value, graph.elementwise("abs", value)], 1)
        elif name == "slice":
            value = graph.slice(value, (rows // 2, 0), (1, max(columns - 1, 1)))
        elif name == "reduce":
            value = graph.broadcast_in_dim(graph.reduce("add", value, (1,)), (rows, 3), (0,))
        else:
            value = graph.dot_general(value, graph.input((columns, 2), "float32"), (1, 0))
    rows = data.draw(st.integers(1, value.shape[0]))
    cut(graph, value, (0, 0), (rows, 1))
    check(graph, is_exact=False)


def test_what_nobody_needs_has_no_demand():
    graph = Graph()
    unread = graph.input((3,), "float32")
    graph.outputs = [graph.elementwise("abs", graph.input((0, 4), "float32"))]
    assert unread.number not in demands(graph)
    assert not any(count_elements(box) for box in demands(graph).values())


def carried(doubles):
    """A graph of a row, a matrix and a count; the count is tested, or the row is doubled."""
    graph = Graph()
    row, matrix, count = (
        graph.input(shape, dtype)
        for shape, dtype in (((4,), "float32"), ((30, 30), "float32"), ((), "int32"))
    )
    if doubles:
        one_more = graph.elementwise("add", count, 1.0, dtype="int32")
        graph.outputs = [graph.elementwise("add", row, row), matrix, one_more]
    else:
        graph.outputs = [graph.elementwise("compare", count, 3.0, dtype="bool", direction="LT")]
    return graph


@pytest.mark.parametrize("trips", [3, None])
def test_a_loop_needs_what_its_needed_results_and_its_condition_read(trips):
    graph = Graph()
    inputs = [graph.input(value.shape, value.dtype) for value in carried(True).inputs]
    results = graph.apply_to_all(While(carried(False), carried(True), trips), inputs)
    graph.outputs = [results[0]]
    assert [needed(graph, value).any() for value in inputs] == [True, False, True]
    graph.outputs = [results[1]]
    assert [needed(graph, value).any() for value in inputs] == [False, True, True]


def test_branches_need_what_one_of_them_reads():
    graph = Graph()
    chosen = graph.input((), "bool")
    inputs = [graph.input(value.shape, value.dtype) for value in carried(True).inputs]
    results = graph.apply_to_all(If((carried(True), carried(True))), [chosen, *inputs])
    graph.outputs = [results[0]]
    assert [needed(graph, value).any() for value in (chosen, *inputs)] == [True, True, False, False]


def test_a_loop_needs_what_reaches_a_result_after_several_turns():
    body, condition, graph = Graph(), Graph(), Graph()
    rows = [body.input((3,), "float32") for _ in range(5)]
    count = body.input((), "int32")
    one_more = body.elementwise("add", count, 1.0, dtype="int32")
    body.outputs = [*rows[1:4], rows[3], rows[4], one_more]
    for value in body.inputs:
        condition.input(value.shape, value.dtype)
    is_less = condition.elementwise(
        "compare", condition.inputs[-1], 5.0, dtype="bool", direction="LT"
    )
    condition.outputs = [is_less]
    inputs = [graph.input(value.shape, value.dtype) for value in body.inputs]
    graph.outputs = [graph.apply_to_all(While(condition, body, 5), inputs)[0]]
    assert [needed(graph, value).any() for value in inputs] == [True] * 4 + [False, True]


def test_an_element_of_each_row_needs_all_rows():
    graph = Graph()
    x, places = graph.input((5, 40), "float32"), graph.input((5, 3), "int32")
    graph.outputs = [graph.gather_in_rows(graph.elementwise("negate", x), places)]
    assert needed(graph, x).sum(1).tolist() == [3] * 5
