import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

aten = torch.ops.aten
X = torch.arange(120.0).reshape(4, 5, 6)
TABLE, PLACES = torch.randn(50, 16), torch.randint(0, 50, (3, 70))


def test_copies(agree):
    agree(lambda x: x.transpose(0, 2).contiguous(), X, tolerance=0)
    agree(lambda x: x.to(torch.bfloat16), X, tolerance=2.0**-8)


def test_joining(agree):
    agree(lambda x: torch.cat([x, x + 1], 1), X, tolerance=0)
    agree(lambda x: torch.stack([x, x + 1], 1), X, tolerance=0)


def test_rows_of_a_table_and_their_gradient(agree):
    agree(torch.nn.functional.embedding, PLACES, TABLE, tolerance=0)
    agree(
        lambda g, i: aten.embedding_dense_backward(g, i, 50, -1, False),
        torch.randn(3, 70, 16), PLACES, tolerance=2.0**-18,
    )  # fmt: skip


def test_indexing_by_a_tensor(agree):
    agree(lambda t, i: t[i], TABLE, PLACES, tolerance=0)
    agree(lambda t, i: torch.index_select(t, 1, i), TABLE, PLACES[0] % 16, tolerance=0)
    agree(lambda t, i: t[:, i], TABLE, PLACES[0] % 16, tolerance=0)
    agree(lambda t, i: t[i, i % 16], TABLE, PLACES, is_lowered=False, tolerance=0)


@pytest.mark.parametrize("diagonal", [-1, 0, 2])
def test_triangles(agree, diagonal):
    agree(lambda x: torch.tril(x, diagonal), X, tolerance=0)
    agree(lambda x: torch.triu(x, diagonal), X, tolerance=0)


def test_filling(agree):
    agree(lambda x: torch.full_like(x, 2.5), X, tolerance=0)
    agree(torch.zeros_like, X, tolerance=0)
    agree(lambda x: x.clone().fill_(3), X, tolerance=0)
    agree(lambda x: torch.arange(2, 30, 3, device=x.device), X, tolerance=0)


def test_padding_and_repeating(agree):
    agree(lambda x: torch.nn.functional.pad(x, (1, 2, 0, 3), value=7), X, tolerance=0)
    agree(lambda x: aten.slice_backward(x, [4, 9, 6], 1, 2, 7, 1), X, tolerance=0)
    agree(lambda x: aten.select_backward(x, [4, 7, 5, 6], 1, 3), X, tolerance=0)
