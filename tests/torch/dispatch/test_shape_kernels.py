import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

from trnsim.device.numerics import numerics
from trnsim.device.step_time import step_time
from trnsim.torch.call_recording import recording

DEFAULTS = (torch.float32, torch.float16, torch.float32)


def step(kind):
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(32, 2, 64, batch_first=True)
    with numerics(kind):
        model = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).to("neuron")
        optimizer = torch.optim.AdamW(model.parameters(), fused=True)
        x = torch.randn(2, 16, 32).to("neuron")
        with recording() as found:
            model(x).pow(2).mean().backward()
            optimizer.step()
    return found


@pytest.mark.slow
def test_a_step_without_values_makes_the_same_calls_in_the_same_time():
    fast, shapes = step("fast"), step("shapes")
    assert [e.call.name for e in fast.events] == [e.call.name for e in shapes.events]
    times = [step_time(found, "trn2").device_time_s for found in (fast, shapes)]
    assert times[0] == pytest.approx(times[1])


def test_operators_without_a_shape_function_are_computed_after_all():
    x = torch.tensor([0.0, 1.0, 2.0]).to("neuron")
    with numerics("shapes"):
        found = torch.nonzero(x)
    assert found.cpu().tolist() == [[1], [2]]
    assert (x + 1).cpu().tolist() == [1, 2, 3]


def test_in_place_results_are_the_argument_itself():
    x = torch.ones(3, device="neuron")
    with numerics("shapes"):
        assert x.mul_(2) is x
        assert torch.add(x, 1).shape == (3,)


def test_out_takes_the_shape_of_the_result():
    x, out = torch.ones(3, 4, device="neuron"), torch.empty(0, device="neuron")
    with numerics("shapes"):
        assert torch.tril(x, out=out) is out
    assert out.shape == (3, 4)


def test_equal_numbers_of_another_type_are_told_apart():
    x = torch.ones(3, dtype=torch.int32, device="neuron")
    with numerics("shapes"):
        assert (x * 2).dtype == torch.int32
        assert (x * 2.0).dtype == torch.float32


def test_a_new_default_dtype_is_that_of_quotients():
    x = torch.ones(3, dtype=torch.int32, device="neuron")
    default = torch.get_default_dtype()
    try:
        with numerics("shapes"):
            found = [(torch.set_default_dtype(t), (x / x).dtype)[1] for t in DEFAULTS]
    finally:
        torch.set_default_dtype(default)
    assert found == list(DEFAULTS)
