import pytest

from trnsim.graph import TensorType
from trnsim.graph.building.build import Build
from trnsim.torch.aten.decomposition import Unlowered
from trnsim.torch.aten.decompositions import DECOMPOSITIONS

GROUPS = {"tp": ((0, 1), (2, 3))}


def made(name, shape, *args):
    b = Build(GROUPS)
    b.result_types = [TensorType(shape, "float32")]
    value = b.graph.input(shape, "float32")
    return b, DECOMPOSITIONS[name](b, value, *args)


@pytest.mark.parametrize(
    ("op", "body"),
    [("sum", "add"), ("max", "maximum"), ("min", "minimum"), ("product", "multiply")],
)
def test_a_reduction_names_its_body_and_its_groups(op, body):
    b, found = made("all_reduce", (4, 3), op, "tp")
    (node,) = b.graph.nodes
    assert (node.operation.op, node.operation.replica_groups) == (body, GROUPS["tp"])
    assert found.shape == (4, 3)


def test_an_average_is_a_sum_over_the_number_of_ranks():
    b, _ = made("all_reduce", (4, 3), "avg", "tp")
    assert [node.name for node in b.graph.nodes] == ["all_reduce", "multiply"]
    assert b.graph.nodes[1].operands[1] == 0.5


def test_shares_are_gathered_and_scattered_along_the_first_dimension():
    assert made("all_gather_into_tensor", (4, 3), 2, "tp")[1].shape == (8, 3)
    assert made("reduce_scatter_tensor", (4, 3), "sum", 2, "tp")[1].shape == (2, 3)
    assert made("all_to_all_single", (4, 3), [2, 2], [2, 2], "tp")[1].shape == (4, 3)


def test_to_wait_is_nothing():
    b, found = made("wait_tensor", (4,))
    assert (b.graph.nodes, found) == ([], b.graph.inputs[0])


@pytest.mark.parametrize(
    ("name", "args", "reason"),
    [
        ("all_reduce", ("sum", "0"), "a group '0' whose ranks are not known"),
        ("all_reduce", ("band", "tp"), "a reduction by band"),
        ("all_to_all_single", ([1, 3], [2, 2], "tp"), "an all-to-all of parts of different sizes"),
    ],
)
def test_what_is_not_known_is_not_lowered(name, args, reason):
    with pytest.raises(Unlowered, match=reason):
        made(name, (4, 3), *args)
