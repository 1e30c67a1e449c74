"""What each operation is not defined on, in its words: operands and attributes, one at a time."""

import numpy as np
import pytest

from trnsim.errors import BadInput
from trnsim.graph import Graph, TensorType
from trnsim.graph.ops import (
    arithmetic,
    bits,
    collectives,
    comparison,
    contraction,
    control_flow,
    functions,
    layout,
    leaves,
    lookup,
    reductions,
    rounding,
)
from trnsim.graph.ops.calls import CustomCall
from trnsim.graph.ops.layout import are_dims

F32, I32, BOOL = "float32", "int32", "bool"
INF, NAN = float("inf"), float("nan")
ROWS, PLACE = ((4, 6), F32), ((), I32)
INDICES = ((5, 2), I32)


def graph(*shapes, dtype=F32):
    made = Graph()
    made.outputs = [made.input(shape, dtype) for shape in shapes]
    return made


GATHER = {"offset_dims": (1, 2), "start_index_map": (0, 1), "index_vector_dim": 1}
SCATTER = {"update_window_dims": (1, 2), "start_index_map": (0, 1), "index_vector_dim": 1}
REFUSALS = [
    # Elementwise: one shape, element types, and attributes that fit them.
    (arithmetic.Add(), [ROWS, ((4, 5), F32)], "legal: operands of one shape"),
    (arithmetic.Subtract(), [((2,), "int64"), ((2,), "int64")], "of tensor<2xint64> as lhs; legal"),
    (arithmetic.Divide(), [((2,), BOOL), ((2,), BOOL)], "as lhs; legal: float32, bfloat16"),
    (arithmetic.Sign(), [((2,), "uint8")], "sign of tensor<2xuint8> as operand; legal: float32"),
    (arithmetic.Reciprocal(), [((2,), I32)], "reciprocal of tensor<2xint32> as operand"),
    (arithmetic.Clamp(), [ROWS, ROWS], "takes smallest, operand, largest; given 2"),
    (bits.And(), [ROWS, ROWS], "and of tensor<4x6xfloat32> as lhs; legal: int32, uint32"),
    (bits.ShiftLeft(16), [((2,), I32)] * 2, "with bits=16; legal: the size of its type"),
    (bits.ShiftRightArithmetic(), [((2,), "uint32")] * 2, "legal: int32, int16, int8"),
    (bits.Popcnt(), [ROWS], "popcnt of tensor<4x6xfloat32> as operand; legal: int32"),
    (bits.Popcnt(8), [((2,), I32)], "with bits=8; legal: the size of its type"),
    (comparison.Compare("ABOVE"), [ROWS, ROWS], "by ABOVE; legal: EQ, NE, GT, GE, LT, LE"),
    (comparison.IsFinite(), [((2,), I32)], "is_finite of tensor<2xint32> as operand"),
    (comparison.Select(), [((2,), BOOL), ROWS, ROWS], "legal: operands of one shape"),
    (functions.Exponential(), [((2,), I32)], "exponential of tensor<2xint32> as operand"),
    (rounding.Floor(), [((2,), I32)], "floor of tensor<2xint32> as operand; legal: float32"),
    (rounding.BitcastConvert("int8"), [ROWS], "to int8; legal: a type of the same size"),
    (rounding.BitcastConvert("int64"), [ROWS], "to int64; legal: a type of the same size"),
    (rounding.Convert("int64"), [ROWS], "to int64; legal: float32, bfloat16"),
    (rounding.ReducePrecision("int8"), [ROWS], "to int8; legal: float32, bfloat16"),
    # Leaves.
    (leaves.Constant((2,), "int64"), [], "constant of int64; legal: float32"),
    (leaves.Constant((2,), I32, float("nan")), [], "of nan as int32; legal: what is an integer"),
    (leaves.Iota((2, 3), I32, 2), [], r"iota of \(2, 3\) along 2; legal: one of its dimensions"),
    (leaves.Iota(()), [], r"iota of \(\) along 0; legal: one of its dimensions"),
    (leaves.RngBitGenerator((4,)), [((4,), I32)], "as initial_state; legal: uint32"),
    # Contractions.
    (
        contraction.Attention(),
        [((2, 4, 3), F32), ((2, 0, 3), F32), ((2, 0, 3), F32)],
        "legal: one key or more, one element or more in each",
    ),
    (
        contraction.Attention(),
        [((2, 4, 0), F32), ((2, 3, 0), F32), ((2, 3, 5), F32)],
        "legal: one key or more, one element or more in each",
    ),
    (
        contraction.Attention(),
        [((2, 4, 6), F32), ((2, 3, 6), F32), ((2, 3, 0), F32)],
        "legal: one key or more, one element or more in each key and value",
    ),
    # Layout.
    (layout.Reshape((5, 5)), [ROWS], r"to \(5, 5\); legal: as many elements"),
    (layout.BroadcastInDim((4, 6), (0,)), [ROWS], "legal: lengths 1 or equal"),
    (layout.BroadcastInDim((4, 6), (0, 0)), [ROWS], "legal: lengths 1 or equal"),
    (layout.BroadcastInDim((4, 6), (1, 2)), [ROWS], "legal: lengths 1 or equal"),
    (layout.BroadcastInDim((8, 6), (0, 1)), [ROWS], "legal: lengths 1 or equal"),
    (layout.Slice((2,), (0,), (1,)), [ROWS], "legal: a number for each dimension"),
    (layout.Slice((5, 6), (0, 0), (1, 1)), [ROWS], "5 from 0 by 1 of 4"),
    (layout.Slice((2, 6), (0, 0), (4, 1)), [ROWS], "2 from 0 by 4 of 4"),
    (layout.Slice((2, 6), (0, 0), (0, 1)), [ROWS], "2 from 0 by 0 of 4"),
    (layout.Slice((2, 2), (0, -1), (1, 1)), [ROWS], "2 from -1 by 1 of 6"),
    (layout.Transpose((0, 0)), [ROWS], r"by \(0, 0\); legal: each dimension once"),
    (layout.Concatenate(2), [ROWS, ROWS], "along 2; legal: a dimension"),
    (layout.Concatenate(0), [], "along 0; legal: a dimension"),
    (layout.Concatenate(0), [ROWS, ((4, 5), F32)], "legal: other lengths and element types that"),
    (layout.Concatenate(0), [ROWS, ((4, 6), I32)], "legal: other lengths and element types that"),
    (layout.Pad((1,), (1,), (0,)), [ROWS], "legal: a number for each dimension"),
    (layout.Pad((-3, 0), (-2, 0), (0, 0)), [ROWS], "legal: lengths and gaps from 0"),
    (layout.Pad((0, 0), (0, 0), (0, -1)), [ROWS], "legal: lengths and gaps from 0"),
    (layout.Pad((1,), (1,), (0,), INF), [((2,), I32)], "with inf; legal: a finite number"),
    (layout.Pad((1,), (1,), (0,), NAN), [((2,), "uint8")], "with nan; legal: a finite number"),
    (layout.Reinterpret("int64"), [ROWS], "to int64; legal: float32, bfloat16"),
    (layout.Reshape((-4, -6)), [ROWS], "gives tensor<-4x-6xfloat32>; legal: lengths from 0"),
    (layout.Slice((-1, 6), (0, 0), (1, 1)), [ROWS], "gives tensor<-1x6x.*>; legal: lengths from 0"),
    (layout.BroadcastInDim((-2, 4, 6), (1, 2)), [ROWS], "legal: lengths from 0"),
    (layout.DynamicSlice((-1,)), [((6,), F32), ((), I32)], "legal: lengths from 0"),
    (leaves.RngBitGenerator((-1,)), [((4,), "uint32")], "legal: lengths from 0"),
    (layout.Reverse((2,)), [ROWS], "legal: its dimensions, each once"),
    (layout.Reverse((0, 0)), [ROWS], "legal: its dimensions, each once"),
    (layout.DynamicSlice((2, 2)), [ROWS, PLACE], "legal: a scalar for each dimension"),
    (layout.DynamicSlice((2, 2)), [ROWS, PLACE, ((1,), I32)], "legal: a scalar for each dim"),
    (layout.DynamicSlice((2, 7)), [ROWS, PLACE, PLACE], r"of \(2, 7\); legal: lengths up to its"),
    (layout.DynamicUpdateSlice(), [ROWS, ROWS, PLACE], "legal: a scalar for each dimension"),
    (
        layout.DynamicUpdateSlice(),
        [ROWS, ((5, 1), F32), PLACE, PLACE],
        r"of \(5, 1\); legal: lengths up to its own",
    ),
    (
        layout.DynamicUpdateSlice(),
        [ROWS, ((1, 1), I32), PLACE, PLACE],
        "with tensor<1x1xint32>; legal: one element type",
    ),
    # Lookup.
    (lookup.Gather(**GATHER, slice_sizes=(1, 7)), [ROWS, INDICES], "legal: lengths up to its own"),
    (
        lookup.Gather(collapsed_slice_dims=(0,), slice_sizes=(2, 6)),
        [ROWS, INDICES],
        "legal: lengths up to its own",
    ),
    (lookup.Gather(**GATHER, slice_sizes=(1, 1)), [ROWS, ((5, 3), I32)], "legal: 2 indices, for"),
    (lookup.Gather(**GATHER, slice_sizes=(1, 1)), [ROWS, ((5, 2), F32)], "as start_indices; legal"),
    (
        lookup.Gather((5,), (0,), start_index_map=(0,), index_vector_dim=1, slice_sizes=(1, 6)),
        [ROWS, ((3,), I32)],
        "legal: 1 of the result's 2 dimensions",
    ),
    (
        lookup.Gather((1,), (0,), start_index_map=(7,), index_vector_dim=1, slice_sizes=(1, 6)),
        [ROWS, ((3,), I32)],
        r"along \(7,\), with \(\) beside \(\); legal: dimensions of each, once",
    ),
    (
        lookup.Gather((1,), (), (0,), (), (1,), 1, (1, 6)),
        [ROWS, ((3,), I32)],
        r"with \(0,\) beside \(\); legal: dimensions of each, once",
    ),
    (
        lookup.Scatter(None, "add", (1,), (0,), (), (), (0,), 1),
        [((3, 7), F32), ((3,), I32), ROWS],
        r"into tensor<4x6xfloat32>; legal: windows of up to \[6\]",
    ),
    (
        lookup.Scatter(None, "add", (1,), (), (), (), (0,), 1),
        [((3, 6), F32), ((3,), I32), ROWS],
        r"legal: windows of up to \[4, 6\]",
    ),
    (lookup.Scatter(op="add"), [ROWS, INDICES], "into no operand; legal: one, or a type of zeros"),
    (lookup.Scatter(op="mean"), [ROWS, INDICES, ROWS], "by mean; legal: add, multiply, maximum"),
    (
        lookup.Scatter(op="add", **SCATTER),
        [((4, 1, 1), F32), INDICES, ROWS],
        "legal: an update for each vector of indices",
    ),
    # Reductions.
    (reductions.Reduce("mean", (0,)), [ROWS], "by mean; legal: add, multiply, maximum, minimum"),
    (reductions.Reduce("add", (1, 0)), [ROWS], r"over \(1, 0\); legal: its dimensions in order"),
    (reductions.Reduce("add", (2,)), [ROWS], r"over \(2,\); legal: its dimensions in order"),
    (reductions.Scan("mean"), [ROWS], "by mean; legal: add"),
    (reductions.Scan(), [((), F32)], "by add; legal: add, multiply, maximum, minimum of a row"),
    (reductions.TopK(7), [ROWS], "with k=7; legal: 1 to the last dimension's length"),
    (reductions.TopK(0), [ROWS], "with k=0; legal: 1 to the last dimension's length"),
    (reductions.TopK(1), [((), F32)], "with k=1; legal: 1 to the last dimension's length"),
    (reductions.Sort(0), [ROWS, ((6, 4), F32)], "legal: operands of one shape"),
    (reductions.Sort(0), [], "legal: operands of one shape"),
    (reductions.Sort(2), [ROWS], "along 2; legal: one of its dimensions, -1 the last"),
    (reductions.Sort(), [((), F32)], "along -1; legal: one of its dimensions, -1 the last"),
    (
        reductions.ReduceWindow((1, 1), (1, 1), (0, 0), (0, 0), "mean"),
        [ROWS],
        "by mean; legal: add",
    ),
    (reductions.ReduceWindow((1,), (1,), (0,), (0,)), [ROWS], "legal: a number a dimension"),
    (
        reductions.ReduceWindow((1, 1), (1, 0), (0, 0), (0, 0)),
        [ROWS],
        r"by strides of \(1, 0\) and \(1, 1\); legal: from 1",
    ),
    (
        reductions.SelectAndScatter((2, 2), (2, 2), (0, 0), (0, 0)),
        [ROWS, ((2, 2), F32)],
        r"legal: a source of \(2, 3\)",
    ),
    (
        reductions.SelectAndScatter((2, 2), (2, 2), (0, 0), (0, 0), "add"),
        [ROWS, ((2, 3), F32)],
        "by add; legal: maximum, minimum",
    ),
    # Contractions.
    (contraction.DotGeneral(), [ROWS, ((5, 3), F32)], "legal: lengths that agree"),
    (contraction.DotGeneral(), [ROWS, ((2, 6, 3), F32)], "legal: batching dimensions that agree"),
    (contraction.DotGeneral(), [((6,), F32)] * 2, "legal: batching dimensions that agree"),
    (contraction.DotGeneral((0, 1)), [((4, 6, 5), F32)] * 2, "legal: the last two dimensions"),
    (contraction.DotGeneral(), [((4, 4), I32)] * 2, "as lhs; legal: float32"),
    (contraction.Convolution(), [ROWS, ((4, 6, 1), F32)], r"legal: \[N, C, \*D\] and \[O, C / gr"),
    (contraction.Convolution(), [((1, 2, 5), F32), ((3, 2, 2), F32)], r"each dimension of \*D"),
    (
        contraction.Convolution((1,), (0,), (0,), (0,), (1,), 2),
        [((1, 4, 5), F32), ((3, 2, 2), F32)],
        "in 2 groups; legal: channels that agree",
    ),
    (
        contraction.Attention(),
        [((2, 5, 4), F32), ((2, 7, 3), F32), ((2, 7, 4), F32)],
        "legal: Q and K of one width, K and V of one length",
    ),
    # Control flow.
    (control_flow.Case(()), [PLACE, ROWS], "among 0; legal: a scalar, some graphs"),
    (
        control_flow.Case((graph((4, 6)),)),
        [((2,), I32), ROWS],
        "of tensor<2xint32> among 1; legal: a scalar, some graphs",
    ),
    (
        control_flow.Case((graph((4, 6)),)),
        [PLACE, ((4, 5), F32)],
        r"of a graph from \(tensor<4x6xfloat32>\) to .*; legal: from \(tensor<4x5xfloat32>\) to",
    ),
    (control_flow.If((graph((4, 6)),)), [((), BOOL)], "legal: two graphs"),
    (control_flow.If((graph(),) * 2), [PLACE], "if of tensor<int32> as pred; legal: bool"),
    (control_flow.While(), [ROWS], "without a condition or a body"),
    (control_flow.While(graph(()), graph()), [], r"legal: from \(\) to \(tensor<bool>\)"),
    # Collectives.
    (
        contraction.Convolution((0,), (0,), (0,), (0,), (1,)),
        [((1, 1, 4), F32), ((1, 1, 2), F32)],
        r"by strides of \(0,\) and \(1,\) in 1 groups; legal: from 1",
    ),
    (
        contraction.Convolution((1,), (0,), (0,), (0,), (1,), 0),
        [((1, 0, 4), F32), ((1, 1, 2), F32)],
        "in 0 groups; legal: from 1",
    ),
    (
        contraction.Convolution((1,), (-3,), (-3,), (0,), (1,)),
        [((1, 1, 4), F32), ((1, 1, 2), F32)],
        "legal: lengths and gaps from 0",
    ),
    (
        contraction.Convolution((1,), (0,), (0,), (-1,), (1,)),
        [((1, 1, 4), F32), ((1, 1, 2), F32)],
        "legal: lengths and gaps from 0",
    ),
    (
        reductions.ReduceWindow((0,), (1,), (0,), (0,)),
        [((4,), F32)],
        r"by windows of \(0,\); legal: from 1",
    ),
    (
        reductions.ReduceWindow((2,), (1,), (-3,), (-3,)),
        [((4,), F32)],
        r"padded by \(-3,\) and \(-3,\); legal: lengths from 0",
    ),
    (collectives.AllReduce(((0, 1), (1, 2))), [ROWS], "legal: groups of one size, apart"),
    (collectives.AllReduce(((0, 1), (2,))), [ROWS], "legal: groups of one size, apart"),
    (collectives.ReduceScatter(((),)), [ROWS], "legal: groups of one size, apart"),
    (collectives.AllReduce(()), [ROWS], "legal: groups of one size, apart"),
    (collectives.AllReduce(((0, 1),), "mean"), [ROWS], "by mean; legal: add, multiply"),
    (collectives.AllGather(((0, 1),), 2), [ROWS], "along 2; legal: one of its dimensions"),
    (collectives.ReduceScatter(((0, 1, 2),), "add", 0), [ROWS], "along 0 in groups of 3; legal"),
    (collectives.ReduceScatter(((0, 1),), "mean", 0), [ROWS], "by mean; legal: add, multiply"),
    (collectives.AllToAll(((0, 1, 2, 3),), 1, 0), [ROWS], "along 1 in groups of 4; legal: whole"),
    (collectives.AllToAll(((0, 1),), 0, 2), [ROWS], "along 2; legal: one of its dimensions"),
    (collectives.CollectivePermute(((0, 1), (0, 2))), [ROWS], "legal: each core once on either"),
    (collectives.CollectivePermute(((0, 1), (2, 1))), [ROWS], "legal: each core once on either"),
]


@pytest.mark.parametrize(
    ("operation", "given", "words"),
    [pytest.param(*case, id=f"{case[0].name}-{n}") for n, case in enumerate(REFUSALS)],
)
def test_an_operation_says_what_it_is_not_defined_on(operation, given, words):
    g = Graph()
    operands = [g.fresh(TensorType(shape, dtype)) for shape, dtype in given]
    with pytest.raises(BadInput, match=words) as caught:
        g.apply(operation, *operands)
    assert caught.value.reason.startswith(operation.name)
    assert caught.value.source == operation.source
    assert caught.value.fix


def test_a_kernel_of_the_users_own_has_no_reference():
    with pytest.raises(BadInput, match="custom_call has no reference; its kernel defines it"):
        CustomCall().reference(np.zeros(1))


def test_dimensions_are_inside_and_stand_once():
    assert are_dims((), 0)
    assert are_dims((2, 0), 3)
    assert not are_dims((0,), 0)
    assert not are_dims((3,), 3)
    assert not are_dims((-1,), 3)
    assert not are_dims((1, 1), 3)
