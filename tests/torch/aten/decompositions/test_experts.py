import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

torch.manual_seed(0)
CLOSE = 2.0**-16
ENDS = {
    "uneven": [4, 9, 20],
    "one empty": [7, 7, 20],
    "all in one": [0, 20, 20],
}


@pytest.mark.parametrize("ends", ENDS)
def test_each_group_of_rows_meets_its_own_matrix(agree, ends):
    x, w, ends = torch.randn(20, 16), torch.randn(3, 16, 24), torch.tensor(ENDS[ends]).int()
    agree(lambda x, w, e: torch._grouped_mm(x, w, offs=e), x, w, ends, tolerance=CLOSE)
    flipped = w.transpose(1, 2).contiguous()
    agree(
        lambda x, w, e: torch._grouped_mm(x, w.transpose(1, 2), offs=e), x, flipped, ends,
        tolerance=CLOSE,
    )  # fmt: skip


@pytest.mark.parametrize("ends", ENDS)
def test_the_gradient_of_the_matrices_is_a_product_over_each_groups_rows(agree, ends):
    x, g, ends = torch.randn(20, 16), torch.randn(20, 24), torch.tensor(ENDS[ends]).int()
    agree(lambda x, g, e: torch._grouped_mm(x.t(), g, offs=e), x, g, ends, tolerance=CLOSE)


def test_groups_longer_than_a_block_and_more_than_fit_one(agree):
    ends = torch.tensor([150, 151, 300]).int()
    x, w = torch.randn(300, 16), torch.randn(3, 16, 8)
    agree(lambda x, w, e: torch._grouped_mm(x, w, offs=e), x, w, ends, tolerance=CLOSE)


def test_one_matrix_each_is_a_batch(agree):
    agree(torch._grouped_mm, torch.randn(3, 4, 16), torch.randn(3, 16, 8), tolerance=CLOSE)


def test_groups_of_columns(agree):
    x, w, ends = torch.randn(3, 8, 16), torch.randn(16, 24), torch.tensor([8, 8, 24]).int()
    agree(lambda x, w, e: torch._grouped_mm(x, w, offs=e), x, w, ends, tolerance=CLOSE)


def test_the_time_grows_with_the_rows_and_not_with_the_groups():
    from trnsim.device.step_time import step_time  # noqa: PLC0415  torch is there by now
    from trnsim.torch.call_recording import recording  # noqa: PLC0415  likewise

    def flop(rows, groups):
        x = torch.randn(rows, 64).bfloat16().to("neuron")
        w = torch.randn(groups, 64, 64).bfloat16().to("neuron")
        ends = torch.full((groups,), rows, dtype=torch.int32, device="neuron")
        with recording() as found:
            torch._grouped_mm(x, w, offs=ends)
        step = step_time(found, "trn2")
        assert not step.missing
        return step.flop

    # Blocks of 64 rows read least: sqrt(1,024 rows * 32 rows of a matrix's bytes / 8 groups).
    assert flop(1024, 8) == 2 * 64 * 64 * (1024 + 8 * 64)


@pytest.mark.parametrize("ends", ENDS)
def test_gradients_of_rows_and_of_their_matrices_at_once(ends):
    import numpy as np  # noqa: PLC0415  this file needs torch first

    from trnsim.graph.building.build import Build  # noqa: PLC0415  likewise
    from trnsim.graph.types import TensorType  # noqa: PLC0415  likewise
    from trnsim.torch.aten.decompositions import DECOMPOSITIONS  # noqa: PLC0415  likewise

    x, w = torch.randn(20, 16, requires_grad=True), torch.randn(3, 16, 24, requires_grad=True)
    grad, stops = torch.randn(20, 24), torch.tensor(ENDS[ends]).int()
    torch._grouped_mm(x, w, offs=stops).backward(grad)
    b = Build()
    arrays = [one.detach().numpy() for one in (x, w, stops, grad)]
    given = [b.graph.input(one.shape, one.dtype.name) for one in arrays]
    b.result_types = [TensorType(one.shape, "float32") for one in (x, w)]
    b.graph.outputs = list(DECOMPOSITIONS["grouped_mm_fallback_backward"](b, *given))
    for ours, theirs in zip(b.graph.reference(arrays), (x.grad, w.grad), strict=True):
        np.testing.assert_allclose(ours, theirs.numpy(), atol=1e-4)
