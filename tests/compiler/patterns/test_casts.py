import numpy as np
import pytest

from trnsim.compiler import Flags
from trnsim.compiler.patterns.casts import apply_casts
from trnsim.graph import OPERATIONS, Graph, Kind, TensorType, verify
from trnsim.graph.ops.calls import CustomCall
from trnsim.graph.ops.contraction import Attention, AttentionBackward, Convolution
from trnsim.graph.ops.control_flow import Case
from trnsim.graph.ops.layout import Reinterpret
from trnsim.graph.ops.leaves import Rng
from trnsim.graph.ops.rounding import BitcastConvert
from trnsim.lower import costs, evaluate

MATMULT, ALL = Flags(auto_cast="matmult"), Flags(auto_cast="all")
SHORT = {"bf16": "bfloat16", "fp16": "float16", "fp8_e4m3": "float8_e4m3"}


def product():
    """``exp(x) @ w + 1`` of float32."""
    graph = Graph()
    x, w = graph.input((3, 130), "float32"), graph.input((130, 5), "float32")
    wide = graph.dot_general(graph.elementwise("exponential", x), w, (1, 0))
    graph.outputs = [graph.elementwise("add", wide, 1.0)]
    return graph


def numbers(graph, seed=0):
    draw = np.random.default_rng(seed)
    return [
        draw.integers(0, 3, value.shape).astype(value.type.numpy_dtype())
        if not value.type.is_floating
        else draw.standard_normal(value.shape).astype(value.type.numpy_dtype())
        for value in graph.inputs
    ]


def types(graph):
    return [(node.name, *(str(value.type) for value in node.results)) for node in graph.nodes]


@pytest.mark.parametrize("flags", [Flags(), Flags(auto_cast="all", auto_cast_type="tf32")])
def test_without_a_cast_a_graph_is_itself(flags):
    graph = product()
    assert apply_casts(graph, flags) is graph


@pytest.mark.parametrize("name", SHORT)
def test_matmult_casts_the_operands_of_a_product_alone(name):
    graph = product()
    cast = apply_casts(graph, Flags(auto_cast="matmult", auto_cast_type=name))
    short = SHORT[name]
    assert types(cast) == [
        ("exponential", "tensor<3x130xfloat32>"),
        ("convert", f"tensor<3x130x{short}>"),
        ("convert", f"tensor<130x5x{short}>"),
        ("dot_general", "tensor<3x5xfloat32>"),
        ("add", "tensor<3x5xfloat32>"),
    ]
    assert cast.inputs == graph.inputs
    assert cast.outputs == graph.outputs


@pytest.mark.parametrize("name", SHORT)
def test_a_cast_product_is_that_of_rounded_operands(name):
    graph = product()
    x, w = numbers(graph)
    kind = TensorType((), SHORT[name]).numpy_dtype()
    rounded = [side.astype(kind).astype(np.float64) for side in (np.exp(x), w)]
    cast = apply_casts(graph, Flags(auto_cast="matmult", auto_cast_type=name))
    (found,) = evaluate(cast, [x, w])
    np.testing.assert_allclose(found, rounded[0] @ rounded[1] + 1, rtol=2e-5, atol=1e-5)
    (plain,) = evaluate(graph, [x, w])
    assert not np.allclose(found, plain, rtol=1e-5)


def test_a_product_of_short_operands_is_left_alone():
    graph = Graph()
    x, w = graph.input((3, 4), "bfloat16"), graph.input((4, 5), "bfloat16")
    graph.outputs = [graph.dot_general(x, w, (1, 0), "float32")]
    assert apply_casts(graph, MATMULT) == graph


def test_what_was_short_before_is_not_rounded_anew():
    graph = Graph()
    x, w = graph.input((3, 4), "bfloat16"), graph.input((4, 5), "float32")
    wide = graph.elementwise("convert", x, dtype="float32")
    graph.outputs = [graph.dot_general(wide, w, (1, 0))]
    assert types(apply_casts(graph, MATMULT)) == [
        ("convert", "tensor<4x5xbfloat16>"),
        ("dot_general", "tensor<3x5xfloat32>"),
    ]


def test_an_operand_of_two_products_is_cast_once():
    graph = Graph()
    x, w = graph.input((4, 4), "float32"), graph.input((4, 4), "float32")
    graph.outputs = [graph.dot_general(x, w, (1, 0)), graph.dot_general(x, w, (0, 0))]
    assert [node.name for node in apply_casts(graph, MATMULT).nodes].count("convert") == 2


def test_convolution_and_attention_are_cast_and_give_float32():
    graph = Graph()
    image, taps = graph.input((1, 3, 5), "float32"), graph.input((2, 3, 1), "float32")
    found = graph.apply(Convolution((1,), (0,), (0,), (0,), (1,), 1), image, taps)
    q, k, v = (graph.input((2, 5, 16), "float32") for _ in range(3))
    result, logs = graph.apply_to_all(Attention(0.25), [q, k, v])
    grads = graph.apply_to_all(AttentionBackward(0.25), [q, k, v, result, result, logs])
    graph.outputs = [found, result, logs, *grads]
    cast = apply_casts(graph, MATMULT)
    assert cast.outputs == graph.outputs
    assert {value.dtype for value in cast.outputs} == {"float32"}
    for node in cast.nodes:
        if node.kind is Kind.CONTRACTION:
            dtypes = [value.dtype for value in node.values]
            is_backward = isinstance(node.operation, AttentionBackward)
            assert dtypes[5:] == (["float32"] if is_backward else [])
            assert set(dtypes[:5]) == {"bfloat16"}


def test_all_keeps_tensors_short_between_operations_and_the_interface_float32():
    graph = product()
    cast = apply_casts(graph, ALL)
    assert types(cast) == [
        ("convert", "tensor<3x130xbfloat16>"),
        ("exponential", "tensor<3x130xbfloat16>"),
        ("convert", "tensor<130x5xbfloat16>"),
        ("dot_general", "tensor<3x5xbfloat16>"),
        ("add", "tensor<3x5xbfloat16>"),
        ("convert", "tensor<3x5xfloat32>"),
    ]
    assert cast.inputs == graph.inputs
    assert [value.type for value in cast.outputs] == [value.type for value in graph.outputs]


def test_places_and_masks_keep_their_precision_under_all():
    """In bfloat16 place 300 would be 300 but 301 would be 302."""
    graph = Graph()
    table = graph.input((512, 4), "float32")
    places = graph.elementwise("convert", graph.iota((300,), 0), dtype="float32")
    places = graph.elementwise("add", places, 101.0)
    rows = graph.gather(table, graph.elementwise("convert", places, dtype="int32"))
    graph.outputs = [graph.elementwise("negate", rows)]
    given = np.arange(2048, dtype=np.float32).reshape(512, 4)
    (found,) = evaluate(apply_casts(graph, ALL), [given])
    rounded = given.astype(TensorType((), "bfloat16").numpy_dtype()).astype(np.float32)
    np.testing.assert_array_equal(found, -rounded[101:401])


@pytest.mark.parametrize(("name", "near"), [("bf16", 2.0**-7), ("fp16", 2.0**-10)])
def test_a_softmax_under_all_is_near_that_of_float32(name, near):
    graph = Graph()
    x = graph.input((3, 70), "float32")
    high = graph.broadcast_in_dim(graph.reduce("maximum", x, (1,)), x.shape, (0,))
    powers = graph.elementwise("exponential", graph.elementwise("subtract", x, high))
    total = graph.broadcast_in_dim(graph.reduce("add", powers, (1,)), x.shape, (0,))
    graph.outputs = [graph.elementwise("divide", powers, total)]
    (given,) = numbers(graph)
    cast = apply_casts(graph, Flags(auto_cast="all", auto_cast_type=name))
    assert {node.result.dtype for node in cast.nodes[1:-1]} == {SHORT[name]}
    (found,), (exact,) = cast.reference([given]), graph.reference([given])
    np.testing.assert_allclose(found, exact, rtol=8 * near)
    assert not np.allclose(found, exact, rtol=near / 64)


@pytest.mark.parametrize("operation", [Reinterpret("int16"), BitcastConvert("int32")])
def test_what_reads_bits_reads_those_of_float32(operation):
    graph = Graph()
    graph.outputs = [graph.apply(operation, graph.input((3, 4), "float32"))]
    assert apply_casts(graph, ALL) == graph


def test_a_constant_and_random_numbers_are_cast_where_they_meet_a_tensor():
    graph = Graph()
    x = graph.input((4,), "float32")
    whole = graph.elementwise("add", x, graph.constant(0.1, x.type))
    kept = graph.elementwise("compare", graph.apply(Rng((4,))), 0.5, direction="GE")
    graph.outputs = [graph.elementwise("select", kept, whole, x)]
    cast = apply_casts(graph, ALL)
    made = {node.name: node for node in cast.nodes}
    assert made["constant"].result.dtype == "bfloat16"
    assert made["constant"].operation.number == 0.1
    assert made["rng"].result.dtype == "float32"
    assert made["select"].result.dtype == "bfloat16"


def test_branches_and_kernels_of_the_user_get_the_types_that_they_ask_for():
    branch = Graph()
    branch.outputs = [branch.elementwise("exponential", branch.input((4,), "float32"))]
    graph = Graph()
    x, index = graph.input((4,), "float32"), graph.input((), "int32")
    twice = graph.elementwise("multiply", x, 2.0)
    chosen = graph.apply(Case((branch, branch)), index, twice)
    call = CustomCall("a kernel", (TensorType((4,), "float32"),))
    graph.outputs = [graph.apply(call, graph.elementwise("negate", chosen))]
    cast = apply_casts(graph, ALL)
    verify(cast)
    for node in cast.nodes:
        if node.kind in (Kind.CONTROL, Kind.CALL):
            assert node.values[-1].dtype == node.result.dtype == "float32"


EXAMPLES = [
    pytest.param(example, id=f"{operation.name}-{number}")
    for operation in OPERATIONS.values()
    for number, example in enumerate(operation.examples())
    if any(given.dtype == "float32" for given in example.operands)
]


@pytest.mark.slow_but_every(4)
@pytest.mark.parametrize("flags", [MATMULT, ALL, Flags(auto_cast="all", auto_cast_type="fp16")])
@pytest.mark.parametrize("example", EXAMPLES)
def test_any_operation_that_is_cast_is_a_legal_graph_with_the_same_interface(example, flags):
    graph = Graph()
    inputs = [graph.input(one.shape, one.dtype) for one in example.operands]
    graph.outputs = list(graph.apply_to_all(example.operation, inputs))
    cast = apply_casts(graph, flags)
    verify(cast)
    assert [value.type for value in cast.inputs] == [value.type for value in graph.inputs]
    assert [value.type for value in cast.outputs] == [value.type for value in graph.outputs]


def test_a_cast_changes_the_time_and_the_key_of_what_is_remembered():
    graph = Graph()
    x, w = graph.input((128, 512), "float32"), graph.input((512, 512), "float32")
    graph.outputs = [graph.dot_general(x, w, (1, 0))]
    cast = apply_casts(graph, MATMULT)
    assert cast.key() != graph.key()
    times = [sum(cost.device_time_s for cost in costs(one, "trn2")) for one in (graph, cast)]
    assert times[1] != times[0]
