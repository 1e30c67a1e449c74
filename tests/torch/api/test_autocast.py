import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

from torch import nn


def test_matmul_runs_low_and_softmax_in_float32():
    model = nn.Linear(3, 4).to("neuron")
    inputs = torch.randn(2, 3, device="neuron")
    with torch.autocast("neuron", dtype=torch.bfloat16):
        outputs = model(inputs)
        assert outputs.dtype == torch.bfloat16
        assert torch.softmax(outputs, -1).dtype == torch.float32
        assert (outputs + 1).dtype == torch.bfloat16
        assert torch.addcmul(inputs, inputs.bfloat16(), inputs).dtype == torch.float32
        assert torch.dot(outputs[0], outputs[0]).dtype == torch.bfloat16
        assert torch.einsum("ij,kj->ik", inputs, inputs).dtype == torch.bfloat16
    outputs.float().sum().backward()
    assert model.weight.grad.dtype == torch.float32


def test_convolutions_and_attention_run_low():
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ConvTranspose2d(4, 2, 3))
    with torch.autocast("neuron", dtype=torch.bfloat16):
        outputs = model.to("neuron")(torch.randn(2, 3, 8, 8, device="neuron"))
        query = torch.randn(1, 2, 4, 8, device="neuron")
        attended = nn.functional.scaled_dot_product_attention(query, query, query)
    assert outputs.dtype == attended.dtype == torch.bfloat16


def test_float64_integers_and_the_cpu_are_left_alone():
    with torch.autocast("neuron", dtype=torch.bfloat16):
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.float32
        double = torch.ones(2, 2, dtype=torch.float64, device="neuron")
        assert (double @ double).dtype == torch.float64


def test_only_dtypes_of_the_chip_are_accepted():
    with pytest.warns(UserWarning, match="not support"), torch.autocast("neuron", torch.float64):
        pass
