import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

from torch.fx.experimental.proxy_tensor import make_fx

from trnsim.device.numerics import numerics
from trnsim.graph import TensorType
from trnsim.graph.building.build import Build
from trnsim.lower import evaluate
from trnsim.torch.aten.decompositions.movement import DECOMPOSITIONS
from trnsim.torch.aten.operator_call import build, call_of
from trnsim.torch.compile.fx_import import import_graph

aten = torch.ops.aten
X = torch.arange(120.0).reshape(4, 5, 6)


def test_copies(agree):
    agree(lambda x: x.transpose(0, 2).contiguous(), X, tolerance=0)
    agree(lambda x: x.to(torch.bfloat16), X, tolerance=2.0**-8)


def test_joining(agree):
    agree(lambda x: torch.cat([x, x + 1], 1), X, tolerance=0)
    agree(lambda x: torch.stack([x, x + 1], 1), X, tolerance=0)


def test_views_that_are_copied(agree):
    agree(aten.detach_copy, X, tolerance=0)
    agree(lambda x: aten.view_copy(x, [5, -1]), X, tolerance=0)
    agree(lambda x: aten.permute_copy(x, [2, 0, 1]), X, tolerance=0)
    agree(lambda x: aten.select_copy(x, 1, -2), X, tolerance=0)
    agree(lambda x: aten.slice_copy(x, 2, 1, 6, 2), X, tolerance=0)
    agree(lambda x: aten.split_copy(x, 2, 1), X, tolerance=0)


INTEGERS_OF_32_BITS = torch.tensor([[0, 1, 2**24 + 1], [2**31 - 1, 2**31, 2**32 - 1]])


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.cat([x, x], 1),
        lambda x: x.mT.contiguous(),
        lambda x: x * 3,
        lambda x: x & 0xFFF0F0F0,
        lambda x: x == x[:1],
        lambda x: x.to(torch.int32),
        lambda x: x.to(torch.float32),
        lambda x: torch.where(x.bool(), x, 7),
    ],
)
def test_unsigned_integers_of_32_bits(agree, function):
    agree(function, INTEGERS_OF_32_BITS.to(torch.uint32), tolerance=0)


@pytest.mark.parametrize("diagonal", [-1, 0, 2])
def test_triangles(agree, diagonal):
    agree(lambda x: torch.tril(x, diagonal), X, tolerance=0)
    agree(lambda x: torch.triu(x, diagonal), X, tolerance=0)


def test_filling(agree):
    agree(lambda x: torch.full_like(x, 2.5), X, tolerance=0)
    agree(torch.zeros_like, X, tolerance=0)
    agree(lambda x: x.clone().fill_(3), X, tolerance=0)
    agree(lambda x, y: x.clone().fill_(y), X, torch.tensor(2.5), tolerance=0)
    agree(lambda x: torch.arange(2, 30, 3, device=x.device), X, tolerance=0)


@pytest.mark.parametrize(
    ("start", "end", "step"), [(-9, 3, 1), (-7, 99, 2), (-4, 99, 1), (1, -1, 3)]
)
def test_a_slice_may_begin_before_the_first_element(start, end, step):
    expected = aten.slice.Tensor(X, 1, start, end, step)
    call = call_of("aten::slice.Tensor", (X, 1, start, end, step), {}, expected)
    (found,) = evaluate(build(call).graph, [X.numpy()], "trn2")
    assert (found == expected.numpy()).all()


def test_padding_and_repeating(agree):
    agree(lambda x: torch.nn.functional.pad(x, (1, 2, 0, 3), value=7), X, tolerance=0)
    agree(lambda x: aten.slice_backward(x, [4, 9, 6], 1, 2, 7, 1), X, tolerance=0)
    agree(lambda x: aten.select_backward(x, [4, 7, 5, 6], 1, 3), X, tolerance=0)
    agree(lambda x: aten.slice_backward(x, [4, 14, 6], 1, -13, 14, 3), X, tolerance=0)
    agree(lambda x: torch.nn.functional.pad(x, (-1, 2, 3, -2)), X, tolerance=0)


@pytest.mark.parametrize(
    "padding", [(1, 2), (0, 3), (1, 2, 0, 3), (-1, 2, 3, -2), (1, 0, 0, 2, 3, 4), (0, 0)]
)
@pytest.mark.parametrize("number", [0, 7.5])
def test_padding_in_a_graph_is_one_operation_from_the_last_dimension_on(padding, number):
    """A call pads by a fill and a copy; only a graph has the operator."""
    x = torch.arange(60.0).reshape(3, 4, 5)
    b = Build()
    given = b.input(TensorType((3, 4, 5), "float32"))
    b.graph.outputs = [DECOMPOSITIONS["constant_pad_nd"](b, given, padding, number)]
    assert [node.name for node in b.graph.nodes] == (["pad"] if any(padding) else [])
    (found,) = evaluate(b.graph, [x.numpy()])
    expected = torch.nn.functional.pad(x, padding, value=number).numpy()
    assert found.tolist() == expected.tolist()


def test_a_part_replaced(agree):
    agree(lambda x: torch.slice_scatter(x, x[:, :2] * 2, 1, 0, 4, 2), X, tolerance=0)
    agree(lambda x: torch.select_scatter(x, x[:, 1] * 2, 1, -2), X, tolerance=0)


@pytest.mark.parametrize(("offset", "first", "second"), [(0, 0, 1), (2, 0, 2), (-3, -1, 1)])
def test_a_diagonal_replaced(agree, offset, first, second):
    def replaced(x):
        part = torch.diagonal(x, offset, first, second) * -1 - 1
        return torch.diagonal_scatter(x, part, offset, first, second)

    agree(replaced, X, tolerance=0)


@pytest.mark.parametrize("offset", [4, 5, -3, -4])
def test_a_diagonal_of_one_element_or_of_none_replaced(agree, offset):
    def replaced(x):
        part = torch.diagonal(x, offset) * 0 + 7
        return torch.diagonal_scatter(x, part, offset)

    agree(replaced, X[:, :, 0].contiguous(), tolerance=0)


def test_places_moved_round_and_channels_made_places(agree):
    agree(lambda x: torch.roll(x, (1, -2), (0, 2)), X, tolerance=0)
    agree(lambda x: torch.roll(x, 7), X, tolerance=0)
    agree(lambda x: torch.pixel_shuffle(x.reshape(1, 4, 5, 6), 2), X, tolerance=0)
    agree(lambda x: torch.pixel_unshuffle(x.reshape(5, 4, 6), 2), X, tolerance=0)
    agree(lambda x: torch.linspace(-1, 2, 9, device=x.device), X, tolerance=2.0**-20)


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bool])
def test_an_identity_matrix(dtype):
    with numerics("exact") as on_host:
        found = torch.eye(3, 4, dtype=dtype, device="neuron")
    assert not on_host
    assert torch.equal(found.cpu(), torch.eye(3, 4, dtype=dtype))


def test_windows_are_added_to_where_they_came_from(agree):
    def gradient(x):
        leaf = x.detach().requires_grad_()
        (leaf.unfold(1, 4, 3).square() * 0.5).sum().backward()
        return leaf.grad

    agree(gradient, torch.randn(2, 12, 3), tolerance=0)


@pytest.mark.parametrize(
    ("dtype", "other"),
    [
        (torch.float32, torch.int32),
        (torch.float32, torch.int16),
        (torch.bfloat16, torch.float32),
        (torch.uint8, torch.bool),
    ],
)
def test_the_same_bytes_as_another_type(dtype, other):
    x = torch.tensor([[0, 1, 2, 3], [4, 5, 6, 7]]).to(dtype)
    x = x % 2 if other is torch.bool else x
    with numerics("exact") as on_host:
        found = (x.to("neuron").view(other) != 0).cpu()
    assert torch.equal(found, x.view(other) != 0)
    assert not on_host


@pytest.mark.parametrize(("dim", "size", "step"), [(1, 2, 1), (0, 3, 2), (-1, 6, 1), (2, 4, 3)])
def test_windows_along_a_dimension(dim, size, step):
    b = Build()
    x = b.input(TensorType(tuple(X.shape), "float32"))
    expected = X.unfold(dim, size, step)
    b.result_types = [TensorType(tuple(expected.shape), "float32")]
    b.graph.outputs = [DECOMPOSITIONS["unfold"](b, x, dim, size, step)]
    (found,) = evaluate(b.graph, [X.numpy()], "trn2")
    assert (found == expected.numpy()).all()


def test_windows_of_a_scalar_and_their_gradient(agree):
    def gradient(x):
        leaf = x.detach().requires_grad_()
        windows = leaf.unfold(0, 1, 3)
        return [windows.detach() * 2, *torch.autograd.grad(windows.square().sum(), leaf)]

    agree(gradient, torch.tensor(-1.5))


@pytest.mark.parametrize(
    ("shuffle", "shape"),
    [
        (lambda x: torch.pixel_shuffle(x, 3), (2, 18, 4, 5)),
        (lambda x: torch.pixel_shuffle(x, 2), (2, 1, 8, 3, 5)),
        (lambda x: torch.pixel_unshuffle(x, 3), (2, 2, 6, 9)),
        (lambda x: torch.pixel_unshuffle(x, 1), (2, 4, 6)),
    ],
    ids=["shuffle", "rank 5", "unshuffle", "factor 1"],
)
def test_pixels_are_shuffled_by_rows(agree, shuffle, shape):
    x = torch.randn(shape)
    agree(shuffle, x, tolerance=0)
    nodes = import_graph(make_fx(shuffle, tracing_mode="fake")(x)).graph.nodes
    orders = [n.operation.permutation for n in nodes if n.operation.name == "transpose"]
    assert all(order[-1] == len(order) - 1 for order in orders)
