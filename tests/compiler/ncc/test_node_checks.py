import pytest

from trnsim import arch
from trnsim.compiler import Flags
from trnsim.compiler.ncc.calls import CompileTarget
from trnsim.compiler.ncc.node_checks import node_refusals
from trnsim.graph import Graph, TensorType
from trnsim.graph.ops.bits import ShiftLeft, ShiftRightArithmetic
from trnsim.graph.ops.collectives import AllGather, AllReduce, ReduceScatter
from trnsim.graph.ops.contraction import Convolution
from trnsim.graph.ops.control_flow import Case
from trnsim.graph.ops.leaves import Constant, Rng
from trnsim.graph.ops.lookup import Gather, Scatter
from trnsim.graph.ops.reductions import ReduceWindow, TopK

STRICT = Flags(implicit_integer_downcast=())
GROUP = ((0, 1),)


def codes(graph, flags=Flags(), target="trn2", called=frozenset()):  # noqa: B008  frozen
    return [
        code
        for code, _, _ in node_refusals(graph, CompileTarget(arch.target(target), flags), called)
    ]


def graph_of(operation, *given):
    graph = Graph()
    inputs = [graph.input(one.shape, one.dtype) for one in given]
    graph.outputs = list(graph.apply_to_all(operation, inputs))
    return graph


def tensor(dtype, *shape):
    return TensorType(shape or (8,), dtype)


def convolution(strides=1, gaps=0, dilations=1):
    operation = Convolution((strides,), (0,), (0,), (gaps,), (dilations,), 1)
    return graph_of(operation, tensor("float32", 1, 3, 9), tensor("float32", 2, 3, 2))


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({}, []),
        ({"gaps": 1}, []),
        ({"dilations": 2}, []),
        ({"strides": 2, "dilations": 2}, []),
        ({"gaps": 1, "dilations": 2}, ["NCC_EVRF010"]),
        ({"gaps": 1, "strides": 2}, ["NCC_EVRF011"]),
        ({"gaps": 1, "strides": 2, "dilations": 2}, ["NCC_EVRF010", "NCC_EVRF011"]),
    ],
    ids=str,
)
def test_a_convolution_with_gaps_has_neither_dilation_nor_strides(options, wanted):
    assert codes(convolution(**options)) == wanted


@pytest.mark.parametrize(("dtype", "is_refused"), [("int32", 1), ("int16", 0), ("float32", 0)])
def test_topk_takes_no_wide_integers(dtype, is_refused):
    assert codes(graph_of(TopK(2), tensor(dtype))) == ["NCC_EVRF013"] * is_refused


@pytest.mark.parametrize(("dilations", "is_refused"), [((), 0), ((1,), 0), ((2,), 1)])
def test_windows_are_not_dilated(dilations, is_refused):
    operation = ReduceWindow((2,), (1,), (0,), (0,), "maximum", dilations)
    assert codes(graph_of(operation, tensor("float32"))) == ["NCC_EVRF018"] * is_refused


@pytest.mark.parametrize(
    ("operation", "dtype", "is_refused"),
    [
        (ShiftRightArithmetic(32), "int32", 0),
        (ShiftRightArithmetic(16), "int16", 1),
        (ShiftRightArithmetic(8), "int8", 1),
        (ShiftLeft(16), "int16", 0),
    ],
)
def test_an_arithmetic_shift_to_the_right_is_of_32_bits(operation, dtype, is_refused):
    found = codes(graph_of(operation, tensor(dtype), tensor(dtype)))
    assert found == ["NCC_EVRF022"] * is_refused


@pytest.mark.parametrize("op", ["add", "multiply", "maximum", "minimum", "assign"])
@pytest.mark.parametrize(
    ("dtype", "flags", "code"),
    [
        ("float32", STRICT, ""),
        ("int32", Flags(), ""),
        ("int32", STRICT, "NCC_EVRF060"),
        ("int32", Flags(implicit_integer_downcast=("dot",)), "NCC_EVRF060"),
        ("int32", Flags(implicit_integer_downcast=("scatter",)), ""),
        ("uint32", STRICT, "NCC_EVRF060"),
        ("int8", Flags(), "NCC_EVRF016"),
        ("bool", Flags(), "NCC_EVRF016"),
    ],
)
def test_a_scatter_that_combines_is_of_floating_point(op, dtype, flags, code):
    given = tensor(dtype, 5), tensor("int32", 5), tensor(dtype, 4)
    found = codes(graph_of(Scatter.rows((4,), (5,), op, None), *given), flags)
    assert found == [code] * bool(code and op != "assign")


@pytest.mark.parametrize(
    ("operation", "flag", "code"),
    [
        (AllReduce(GROUP), "all_reduce", "NCC_EVRF061"),
        (ReduceScatter(GROUP), "reduce_scatter", "NCC_EVRF063"),
        (AllGather(GROUP), "all_reduce", ""),
    ],
)
def test_collectives_add_integers_as_a_flag_permits(operation, flag, code):
    graph = graph_of(operation, tensor("int32"))
    assert codes(graph, STRICT) == [code] * bool(code)
    assert codes(graph, STRICT, called=frozenset({1})) == []
    assert codes(graph, Flags(implicit_integer_downcast=(flag,))) == []
    assert codes(graph) == codes(graph_of(operation, tensor("float32")), STRICT) == []


def test_float8_e4m3fn_is_told_once_and_what_comes_between_each_time():
    graph = convolution(gaps=1, strides=2)
    x = graph.input((4,), "float8_e4m3fn")
    graph.outputs += [graph.elementwise("convert", x, dtype="float32")]
    graph.outputs += graph.apply_to_all(graph.nodes[0].operation, graph.nodes[0].values)
    graph.outputs += [graph.elementwise("convert", x, dtype="bfloat16")]
    assert codes(graph) == ["NCC_EVRF011", "NCC_EVRF051", "NCC_EVRF011"]


def test_float8_e4m3fn_is_of_trn3():
    graph = Graph()
    x = graph.input((4,), "float8_e4m3fn")
    graph.outputs = [graph.elementwise("negate", graph.elementwise("convert", x, dtype="float32"))]
    assert codes(graph) == codes(graph, target="trn1") == ["NCC_EVRF051"]
    assert codes(graph, target="trn3") == []
    assert codes(graph, Flags(fp8_e4m3fn_as_e4m3=True)) == []
    e4m3 = graph_of(AllGather(GROUP), tensor("float8_e4m3"))
    assert codes(e4m3) == []


def counted(length, start=0, dtype="int32"):
    """A graph that has places from `start` on."""
    graph = Graph()
    places = graph.elementwise("add", graph.iota((length,), 0), float(start), dtype=dtype)
    return graph, graph.reshape(places, (1, length))


@pytest.mark.parametrize(("length", "start", "is_refused"), [(8, 0, 0), (9, 0, 1), (2, 7, 1)])
def test_counted_places_end_where_a_tensor_does(length, start, is_refused):
    graph, places = counted(length, start)
    rows = graph.gather(graph.input((8, 4), "float32"), places)
    graph.outputs = [rows, graph.scatter(graph.input((8, 4), "float32"), places, rows)]
    assert codes(graph) == ["NCC_EVRF056", "NCC_EVRF031"] * is_refused
    found = [*node_refusals(graph, CompileTarget(arch.target("trn2"), Flags()), frozenset())]
    if is_refused:
        assert f"places to {start + length - 1} in a length of 8" in found[0][1]


def test_places_are_followed_through_what_wraps_negative_ones():
    """As PyTorch's indexing does: place -1 of 8 is 7, which is inside."""
    graph, places = counted(8, -8)
    below = graph.elementwise("compare", places, 0.0, direction="LT")
    wrapped = graph.elementwise("add", places, 8.0)
    found = graph.elementwise("select", below, wrapped, places)
    graph.outputs = [graph.gather(graph.input((8, 4), "float32"), found)]
    assert codes(graph) == []


def test_places_are_followed_through_as_many_operations_as_there_are():
    """A generation that is unrolled adds one to its places at each token."""
    graph = Graph()
    places = graph.iota((1, 1), 0)
    for _ in range(2000):
        places = graph.elementwise("add", places, 1.0)
    graph.outputs = [graph.gather(graph.input((2000, 4), "float32"), places)]
    assert codes(graph) == ["NCC_EVRF056"]


def test_each_index_of_a_vector_is_compared_with_its_own_dimension():
    graph = Graph()
    vectors = graph.iota((5, 2), 0)
    wide = Gather((), (0, 1), (), (), (0, 1), 1, (1, 1))
    for shape, is_refused in (((5, 5), 0), ((5, 4), 1), ((4, 5), 1)):
        graph = Graph()
        vectors = graph.iota((5, 2), 0)
        graph.outputs = [graph.apply(wide, graph.input(shape, "float32"), vectors)]
        assert codes(graph) == ["NCC_EVRF056"] * is_refused


def test_places_that_are_given_constant_random_or_many_are_not_judged():
    graph = Graph()
    table = graph.input((4, 4), "float32")
    drawn = graph.elementwise("multiply", graph.apply(Rng((3,))), 100.0)
    many = graph.iota((1 << 19,), 0)
    for places in (
        graph.input((3,), "int32"),
        graph.apply(Constant((3,), "int32", 9.0)),
        graph.elementwise("convert", drawn, dtype="int32"),
        many,
        graph.slice(many, (0,), (9,)),
    ):
        graph.outputs.append(graph.gather(table, places))
    assert codes(graph) == []


def test_graphs_that_a_node_runs_are_looked_into():
    branch = graph_of(TopK(2), tensor("int32"))
    graph = Graph()
    index, x = graph.input((), "int32"), graph.input((8,), "int32")
    graph.outputs = [graph.apply(Case((branch, branch)), index, x)]
    found = [*node_refusals(graph, CompileTarget(arch.target("trn2"), Flags()), frozenset())]
    assert [code for code, _, _ in found] == ["NCC_EVRF013"] * 2
    assert {number for _, _, number in found} == {graph.outputs[0].number}
    assert found[0][1] == "top_k of tensor<8xint32>, in case"


def test_what_came_from_a_call_is_judged_by_it():
    graph = graph_of(TopK(2), tensor("int32"))
    assert codes(graph, called=frozenset({1})) == []
    assert codes(convolution(gaps=1, dilations=2), called=frozenset({2})) == []
