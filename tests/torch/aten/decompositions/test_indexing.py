import math

import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

from trnsim.graph.building.build import Build
from trnsim.torch.aten.decomposition import Unlowered
from trnsim.torch.aten.decompositions import DECOMPOSITIONS

aten = torch.ops.aten
torch.manual_seed(0)
X = torch.randn(4, 5, 6)
TABLE, PLACES = torch.randn(50, 16), torch.randint(0, 50, (3, 70))


@pytest.mark.slow_but_every(3)
@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int32, torch.bool])
def test_gather_takes_from_any_dimension(agree, dim, dtype):
    places = torch.randint(0, X.shape[dim], (3, 4, 5))
    agree(torch.gather, (X * 9).to(dtype), dim, places, tolerance=0)


def test_a_row_longer_than_a_partition_holds_is_read_element_by_element(agree):
    x = torch.randn(2, 20_000)
    agree(torch.gather, x, 1, torch.randint(0, 20_000, (2, 9)), tolerance=0)


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_scatter_writes_and_adds_along_any_dimension(agree, dim):
    places = torch.stack([torch.randperm(X.shape[dim])[:3] for _ in range(9)]).reshape(3, 3, 3)
    places = places.movedim(-1, dim)
    updates = torch.randn(3, 3, 3)
    agree(torch.scatter, X, dim, places, updates, tolerance=0)
    agree(torch.scatter, X, dim, places, 7.0, tolerance=0)
    agree(torch.scatter_add, X, dim, places % 2, updates, tolerance=2.0**-20)


@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("count", [1, 3, 9])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int32, torch.bool])
def test_few_updates_of_each_row_are_chosen(agree, same, dim, count, dtype):
    """Up to 8 updates; those of one element are added, and an infinity reaches no other."""
    x = torch.randn(10, 11, 12).to(dtype)
    shape = [count if d == dim % 3 else n for d, n in enumerate(x.shape)]
    places = torch.rand(x.shape).argsort(dim).narrow(dim, 0, count)
    updates = torch.randn(shape).to(dtype)
    agree(torch.scatter, x, dim, places, updates, tolerance=0)
    agree(torch.scatter, x, dim, places, 1, tolerance=0)
    if dtype.is_floating_point:
        infinite = updates.clone()
        infinite[0, 0, 0] = math.inf
        same(lambda x, i, u: x.scatter(dim, i, u), x, places, infinite)
        within = 2.0**-20 if dtype == torch.float32 else 2.0**-6
        agree(torch.scatter_add, x, dim, places % 2, updates, tolerance=within)


@pytest.mark.slow_but_every(3)
@pytest.mark.parametrize("reduce", ["sum", "prod", "mean", "amax", "amin"])
@pytest.mark.parametrize("include_self", [True, False])
def test_scatter_reduce_combines_what_falls_together(agree, reduce, include_self):
    def scatter(x, i, u):
        return torch.scatter_reduce(x, 1, i, u, reduce, include_self=include_self)

    agree(scatter, X, torch.randint(0, 3, (4, 5, 6)), torch.randn(4, 5, 6), tolerance=2.0**-20)


def test_indexing_by_a_tensor(agree):
    agree(lambda t, i: t[i], TABLE, PLACES, tolerance=0)
    agree(lambda t, i: torch.index_select(t, 1, i), TABLE, PLACES[0] % 16, tolerance=0)
    agree(lambda t, i: t[:, i], TABLE, PLACES[0] % 16, tolerance=0)


def test_indexing_by_several_tensors_and_from_the_end(agree):
    agree(lambda t, i: t[i, i % 16], TABLE, PLACES, tolerance=0)
    agree(lambda t, i: t[-1 - i], TABLE, PLACES, tolerance=0)
    agree(lambda x, i: x[:, i], X, PLACES[:, :4] % 5, tolerance=0)
    agree(lambda x, i: x[i % 4, :, i], X, PLACES[:, :4] % 6, tolerance=0)


def test_masks_as_indices_are_named(agree):
    agree(lambda t: t[t > 0], TABLE, is_lowered=False, tolerance=0)


@pytest.mark.parametrize("accumulate", [False, True])
def test_index_put_writes_or_adds(agree, accumulate):
    def put(t, i, v):
        return t.clone().index_put_((i,), v, accumulate=accumulate)

    rows = torch.randperm(50)[:9] if not accumulate else PLACES[0]
    agree(put, TABLE, rows, torch.randn(len(rows), 16), tolerance=2.0**-20)
    agree(
        lambda x, i: aten.index_put(x, [None, i], x[:, i] * 2), X, torch.tensor([1, 4]), tolerance=0
    )
    agree(lambda t: t.clone().masked_fill_(t > 0, 3.0), TABLE, tolerance=0)
    agree(lambda t: aten.index_put(t, [t > 0], t.new_tensor(3.0)), TABLE, tolerance=0)


def test_rows_are_added_copied_and_filled(agree):
    rows = torch.tensor([3, 0, 3])
    agree(lambda x, u, i: x.index_add(1, i, u, alpha=0.5), X, X[:, :3], rows, tolerance=2.0**-20)
    agree(lambda x, u, i: x.index_copy(1, i, u), X, X[:, :2], rows[:2], tolerance=0)
    agree(lambda x, i: x.index_fill(2, i, 7), X, rows, tolerance=0)


def test_elements_of_the_whole(agree):
    agree(torch.take, X, torch.tensor([[3, -1], [0, 90]]), tolerance=0)
    agree(lambda x, s: x.masked_scatter(x > 0, s), X, torch.arange(120.0), tolerance=0)
    agree(lambda x: torch.flip(x, (0, 2)), X, tolerance=0)
    agree(lambda x: torch.flip(x, (-2,)), X, tolerance=0)
    agree(lambda x: torch.flip(x, (0,)), X.flatten(), tolerance=0)
    agree(lambda x: torch.flip(x, (-2,)), torch.randn(230, 2, 256), tolerance=0)
    agree(lambda x: torch.diagonal_copy(x, 1, 0, 2), X, tolerance=0)


def test_a_table_and_its_gradient(agree):
    agree(torch.nn.functional.embedding, PLACES, TABLE, tolerance=0)
    for padding in (-1, 3):
        agree(
            lambda g, i, p=padding: aten.embedding_dense_backward(g, i, 50, p, False),
            torch.randn(3, 70, 16), PLACES, tolerance=2.0**-18,
        )  # fmt: skip


@pytest.mark.parametrize("mode", ["sum", "mean"])
def test_bags_of_rows(agree, mode):
    offsets = torch.tensor([0, 4, 30])
    bag = torch.nn.functional.embedding_bag
    agree(lambda i, t, o: bag(i, t, o, mode=mode), PLACES[0], TABLE, offsets, tolerance=2.0**-18)


@pytest.mark.parametrize("mask", ["some", "none", "all", "rows"])
def test_the_gradient_of_what_a_mask_scatters(agree, mask):
    grad = torch.randn(3, 5, 8)
    held = {
        "some": torch.randn(3, 5, 8) > 0,
        "none": torch.zeros(3, 5, 8, dtype=torch.bool),
        "all": torch.ones(3, 5, 8, dtype=torch.bool),
        "rows": torch.tensor([[True, False, True, True, False]]).unsqueeze(-1).expand(3, 5, 8),
    }[mask]
    for sizes in ([120], [15, 8], [130]):
        agree(lambda g, m, s=sizes: aten.masked_scatter_backward(g, m, s), grad, held, tolerance=0)


def test_a_gradient_put_into_place_at_strides(agree):
    x, source = torch.randn(2, 12), torch.randn(4, 6)
    agree(lambda x, s: aten.as_strided_scatter(x, s, [4, 6], [6, 1], 0), x, source, tolerance=0)
    b = Build()
    given = [b.graph.input(shape, "float32") for shape in ((25,), (4, 6))]
    with pytest.raises(Unlowered, match="strides that leave elements out"):
        DECOMPOSITIONS["as_strided_scatter"](b, *given, [4, 6], [6, 1], 1)


@pytest.mark.parametrize("include_self", [False, True])
@pytest.mark.parametrize(("reduce", "number"), [("amax", -math.inf), ("amin", math.inf)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int32, torch.int8])
def test_extremes_of_the_lowest_and_highest_updates(same, reduce, number, include_self, dtype):
    if not dtype.is_floating_point:
        limits = torch.iinfo(dtype)
        number = limits.min if number < 0 else limits.max
    index = torch.tensor([[0, 1, 1, 3]])
    updates = torch.full((1, 4), number, dtype=dtype)
    x = torch.tensor([[3, 2, 1, -1, 7]], dtype=dtype)
    same(
        lambda x, i, u: x.scatter_reduce(1, i, u, reduce, include_self=include_self),
        x, index, updates,
    )  # fmt: skip


def test_means_of_integers_are_rounded_down(same):
    index, x = torch.tensor([0, 0, 1, 1]), torch.tensor([-2, 3, 9], dtype=torch.int32)
    updates = torch.tensor([-3, -2, 4, 4], dtype=torch.int32)
    same(lambda x, i, u: x.scatter_reduce(0, i, u, "mean"), x, index, updates)


def test_a_single_row_is_filled_with_the_element_of_a_tensor(same):
    x, index = torch.zeros(1, 5), torch.tensor([2])
    same(lambda x, i, v: x.index_fill(1, i, v), x, index, torch.tensor(3.0))


def test_no_element_is_taken_from_an_empty_source(same):
    x, mask = torch.arange(4.0), torch.zeros(4, dtype=torch.bool)
    same(lambda x, m, s: x.masked_scatter(m, s), x, mask, torch.empty(0))
