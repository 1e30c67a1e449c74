import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

from trnsim.device.numerics import numerics
from trnsim.torch.dispatch.stochastic_rounding import ROUNDED

FEW_BITS = sorted(ROUNDED, key=str)


@pytest.fixture
def stochastic():
    with numerics("fast", is_stochastic=True):
        torch.manual_seed(0)
        yield


@pytest.mark.slow
@pytest.mark.usefixtures("stochastic")
def test_small_steps_add_up_as_awss_page_shows():
    # rounding-modes.rst, Quick Tests: to nearest it stays 1024, by chance it is about 2048.
    a = torch.tensor(1024.0).half().to("neuron")
    for _ in range(2048):
        a = a + 0.5
    assert a.item() == pytest.approx(2048, abs=150)


def test_to_nearest_is_the_default():
    a = torch.tensor(1024.0).half().to("neuron")
    for _ in range(16):
        a = a + 0.5
    assert a.item() == 1024


@pytest.mark.parametrize("dtype", FEW_BITS, ids=str)
@pytest.mark.usefixtures("stochastic")
def test_a_cast_is_unbiased_and_gives_one_of_the_two_neighbours(dtype):
    x = torch.full((40_000,), 1.3, device="neuron")
    found = x.to(dtype).to(torch.float32).cpu()
    low, high = found.min().item(), found.max().item()
    assert low < 1.3 < high
    assert set(found.unique().tolist()) == {low, high}
    spread = (high - low) / 2
    assert found.mean().item() == pytest.approx(1.3, abs=4 * spread / 200)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.usefixtures("stochastic")
def test_sums_of_products_are_rounded_once_from_float32(dtype):
    torch.manual_seed(1)
    a, b = (torch.randn(8, 8).to(dtype) for _ in range(2))
    exact = a.double() @ b.double()
    mean = torch.zeros(8, 8, dtype=torch.float64)
    for _ in range(400):
        mean += (a.to("neuron") @ b.to("neuron")).cpu().double() / 400
    ulp = torch.finfo(dtype).eps * exact.abs()
    assert ((mean - exact).abs() <= 0.25 * ulp + 1e-6).all()


@pytest.mark.usefixtures("stochastic")
def test_what_is_exact_stays():
    x = torch.arange(64.0, device="neuron").bfloat16()
    assert torch.equal((x + 1).cpu().float(), torch.arange(1, 65).float())
    assert torch.equal(x.reshape(8, 8).t().contiguous().cpu(), x.cpu().reshape(8, 8).t())


@pytest.mark.usefixtures("stochastic")
def test_in_place_lists_and_outs_are_rounded_too():
    x = torch.full((4096,), 1.0, device="neuron").bfloat16()
    x.add_(1e-3)
    assert x.float().mean().item() == pytest.approx(1.001, abs=4e-4)
    many = [torch.full((4096,), 1.0, device="neuron").bfloat16()]
    torch._foreach_add_(many, 1e-3)
    assert many[0].float().mean().item() == pytest.approx(1.001, abs=4e-4)
    out = torch.empty(4096, dtype=torch.bfloat16, device="neuron")
    torch.add(torch.ones_like(out), 1e-3, out=out)
    assert out.float().mean().item() == pytest.approx(1.001, abs=4e-4)


@pytest.mark.usefixtures("stochastic")
def test_the_seed_gives_the_same_roundings_again():
    def step():
        torch.manual_seed(3)
        return (torch.rand(512, device="neuron").bfloat16() * 1.1).cpu()

    first = step()
    assert torch.equal(step(), first)
    torch.manual_seed(4)
    assert not torch.equal((torch.rand(512, device="neuron").bfloat16() * 1.1).cpu(), first)


@pytest.mark.usefixtures("stochastic")
def test_float32_and_what_draws_numbers_are_left_alone():
    x = torch.randn(64, device="neuron")
    assert torch.equal((x * 1.1).cpu(), x.cpu() * 1.1)
    torch.manual_seed(5)
    drawn = torch.empty(64, device="neuron", dtype=torch.bfloat16).normal_().cpu()
    torch.manual_seed(5)
    assert torch.equal(drawn, torch.empty(64, dtype=torch.bfloat16).normal_())


@pytest.mark.usefixtures("stochastic")
def test_a_model_in_bfloat16_moves_by_steps_smaller_than_its_weights_resolve():
    weight = torch.nn.Parameter(torch.full((512,), 1.0, device="neuron").bfloat16())
    optimizer = torch.optim.SGD([weight], lr=1e-3)
    for _ in range(50):
        optimizer.zero_grad()
        weight.sum().backward()
        optimizer.step()
    assert weight.float().mean().item() == pytest.approx(0.95, abs=0.01)
