import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

from trnsim.torch.device_time import step_time
from trnsim.torch.recording import recording

torch.manual_seed(0)
MANY = [torch.randn(5, 7), torch.randn(300), torch.randn(3)]


def test_operators_on_lists(agree):
    agree(lambda x: torch._foreach_mul(x, 0.5), MANY)
    agree(lambda x: torch._foreach_add(x, x, alpha=2), MANY)
    agree(lambda x: torch._foreach_addcmul(x, x, x, 0.5), MANY)
    agree(lambda x: torch._foreach_addcdiv(x, x, x, [1.0, 2.0, 3.0]), MANY)
    agree(torch._foreach_norm, MANY, tolerance=2.0**-16)


def test_lists_in_place(agree):
    def halve(tensors):
        copies = [tensor.clone() for tensor in tensors]
        torch._foreach_mul_(copies, 0.5)
        return copies

    agree(halve, MANY)


@pytest.mark.parametrize(
    ("kind", "options"),
    [("AdamW", {"fused": True}), ("Adam", {"fused": True, "weight_decay": 0.1}), ("AdamW", {}),
     ("SGD", {"fused": True, "momentum": 0.9, "weight_decay": 0.1}), ("SGD", {"foreach": True})],
)  # fmt: skip
def test_every_operator_of_an_optimizer_step_has_a_time(kind, options):
    model = torch.nn.Linear(64, 32).to("neuron")
    optimizer = getattr(torch.optim, kind)(model.parameters(), lr=1e-3, **options)
    with recording() as found:
        model(torch.randn(8, 64).to("neuron")).sum().backward()
        optimizer.step()
    time = step_time(found, "trn2")
    assert not time.missing
    assert {name: taken for name, _, taken in time.by("phase")}["optimizer"] > 0
