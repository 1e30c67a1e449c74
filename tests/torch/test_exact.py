import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

from trnsim.errors import BadInput
from trnsim.torch.exact import numerics

K = 512


def test_a_sum_of_products_agrees_within_the_stated_bound():
    torch.manual_seed(0)
    a, b = torch.randn(40, K), torch.randn(K, 50)
    with numerics("exact") as on_host:
        found = (a.to("neuron") @ b.to("neuron")).cpu()
    assert not on_host
    bound = 2 * K * 2.0**-24 * (a.abs().double() @ b.abs().double())
    assert ((found.double() - a.double() @ b.double()).abs() <= bound).all()


def losses(kind):
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Embedding(20, 16), torch.nn.LayerNorm(16), torch.nn.Linear(16, 32),
        torch.nn.GELU(), torch.nn.Linear(32, 20),
    ).to("neuron")  # fmt: skip
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    tokens = torch.randint(0, 20, (24,)).to("neuron")
    found = []
    with numerics(kind) as on_host:
        for _ in range(3):
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(tokens), tokens.roll(1))
            loss.backward()
            optimizer.step()
            found.append(loss.item())
    return found, on_host


def test_a_model_trains_alike_in_both_numerics():
    fast, _ = losses("fast")
    exact, on_host = losses("exact")
    assert exact == pytest.approx(fast, rel=1e-4)
    assert not any("layer_norm" in reason or "mm" in reason for reason in on_host)


def test_what_has_no_kernel_is_left_to_the_host_and_counted():
    x = torch.randn(5, 5).to("neuron")
    with numerics("exact") as on_host:
        values = torch.linalg.eigvalsh(x)
    assert torch.equal(values.cpu(), torch.linalg.eigvalsh(x.cpu()))
    assert list(on_host) == ["aten::_linalg_eigh has no lowering to the chip's instructions yet"]


def test_random_numbers_and_operators_on_nothing_are_no_gap():
    with numerics("exact") as on_host:
        torch.randn(3, device="neuron")
        torch.empty(0, 4, device="neuron").exp()
    assert not on_host


def test_other_numerics_are_refused():
    legal = "numerics 'slow'; legal: fast, exact, shapes"
    with pytest.raises(BadInput, match=legal), numerics("slow"):
        pass
