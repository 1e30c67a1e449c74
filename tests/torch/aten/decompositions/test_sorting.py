import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

from trnsim.device.numerics import numerics

torch.manual_seed(0)
X = torch.randint(-9, 9, (3, 20, 4)).float()


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_sorts_keep_equal_elements_as_they_were(agree, dim, descending):
    agree(lambda x: torch.sort(x, dim=dim, descending=descending, stable=True), X, tolerance=0)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.int32])
def test_other_dtypes_are_sorted_too(agree, dtype):
    agree(lambda x: torch.sort(x, dim=1, stable=True), X.to(dtype), tolerance=0)


@pytest.mark.parametrize("largest", [False, True])
def test_the_k_largest_and_smallest(agree, largest):
    agree(lambda x: torch.topk(x, 3, 1, largest), torch.randn(3, 20, 4), tolerance=0)


def test_experts_are_chosen_among_few(agree):
    agree(lambda x: torch.topk(x, 2), torch.randn(30, 4), tolerance=0)


def test_middles(agree):
    x = torch.randn(3, 20)
    agree(lambda x: torch.kthvalue(x, 4), x, tolerance=0)
    agree(lambda x: torch.median(x, 0), x, tolerance=0)
    agree(torch.median, x, tolerance=0)


def test_a_random_permutation_has_a_time():
    from trnsim.device.step_time import step_time  # noqa: PLC0415  torch is there by now
    from trnsim.torch.call_recording import recording  # noqa: PLC0415  likewise

    with recording() as found:
        torch.randperm(64, device="neuron")
    step = step_time(found, "trn2")
    assert not step.missing
    assert step.device_time_s > 0


@pytest.mark.parametrize("right", [False, True])
def test_places_between_boundaries(agree, right):
    bounds = torch.tensor([-2.0, 0.0, 1.0, 5.0])
    agree(lambda x, b: torch.bucketize(x, b, right=right), X, bounds, tolerance=0)
    agree(lambda x, b: torch.searchsorted(b, x, right=right), X, bounds, tolerance=0)


@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("number", [2, 2.5, -3.0, 9])
def test_the_place_of_a_number(agree, number, right):
    for bounds in (torch.tensor([-2, 2, 2, 5]), torch.tensor([-3.0, 0.0, 2.5, 9.0])):
        agree(lambda b: torch.searchsorted(b, number, right=right), bounds, tolerance=0)
        agree(lambda b: torch.bucketize(number, b, right=right), bounds, tolerance=0)


def test_places_in_a_sorted_row_for_each(agree):
    rows = torch.randn(3, 7).sort().values
    agree(lambda r, x: torch.searchsorted(r, x, side="right"), rows, torch.randn(3, 4), tolerance=0)


@pytest.mark.parametrize("invert", [False, True])
def test_membership(agree, invert):
    few = torch.tensor([[-3.0, 0.0], [4.0, 5.0]])
    agree(lambda x, few: torch.isin(x, few, invert=invert), X, few, tolerance=0)
    agree(lambda x: torch.isin(x, 4.0, invert=invert), X, tolerance=0)


@pytest.mark.parametrize("right", [False, True])
def test_nan_comes_after_all_boundaries(agree, right):
    bounds, x = torch.tensor([-2.0, 0.0, 1.0, float("inf")]), torch.tensor([float("nan"), 0.0, 9.0])
    for dtype in (torch.float32, torch.bfloat16):
        pair = x.to(dtype), bounds.to(dtype)
        agree(lambda x, b: torch.bucketize(x, b, right=right), *pair, tolerance=0)
        agree(lambda x, b: torch.searchsorted(b, x, right=right), *pair, tolerance=0)


@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("bounds", [[1.0, 2.0, torch.nan], [torch.nan] * 3, [3.0, 1.0, 2.0]])
def test_boundaries_with_nan_or_in_no_order_are_the_hosts(bounds, right):
    rows, x = torch.tensor(bounds), torch.tensor([0.0, 1.0, 1.5, 5.0, torch.nan])
    for search in (torch.bucketize, lambda x, b, right: torch.searchsorted(b, x, right=right)):
        with numerics("exact") as on_host:
            found = search(x.to("neuron"), rows.to("neuron"), right=right)
        assert found.tolist() == search(x, rows, right=right).tolist()
        assert [reason.partition(" ")[2] for reason in on_host] == [
            "has no lowering for boundaries in no order, or with NaN"
        ]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int32, torch.uint8])
def test_the_middle_of_nothing(same, dtype):
    same(torch.median, torch.zeros((3, 0), dtype=dtype))


@pytest.mark.parametrize("number", [3, 2, 2.5])
@pytest.mark.parametrize("invert", [False, True])
def test_a_number_may_be_among_elements(same, number, invert):
    same(lambda y: torch.isin(number, y, invert=invert), torch.tensor([[1, 3], [5, 7]]))
