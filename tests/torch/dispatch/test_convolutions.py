"""Convolutions in TorchScript, beside the same script on the CPU."""

import copy
import io

import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

from torch import nn

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

CONVOLUTIONS = {
    "two": (lambda: nn.Conv2d(3, 4, 3, padding=1), (2, 3, 8, 9)),
    "grouped": (lambda: nn.Conv1d(4, 6, 3, groups=2, dilation=2), (2, 4, 9)),
    "without bias": (lambda: nn.Conv3d(2, 3, 2, bias=False), (1, 2, 4, 5, 3)),
    "same": (lambda: nn.Conv1d(4, 6, 3, padding="same"), (4, 9)),
    "transposed": (lambda: nn.ConvTranspose2d(4, 6, 3, 2, groups=2), (2, 4, 5, 6)),
}


@pytest.fixture(params=CONVOLUTIONS)
def module_and_inputs(request):
    """A convolution, and two inputs: one to trace with, another to call with."""
    make, shape = CONVOLUTIONS[request.param]
    torch.manual_seed(0)
    return nn.Sequential(make(), nn.ReLU()), torch.randn(shape), torch.randn(shape)


@pytest.mark.parametrize("has_gradients", [False, True])
def test_a_traced_convolution_reads_its_argument(module_and_inputs, has_gradients):
    module, example, x = module_and_inputs
    with torch.set_grad_enabled(has_gradients):
        traced = torch.jit.trace(copy.deepcopy(module).to("neuron"), example.to("neuron"))
    torch.testing.assert_close(traced(x.to("neuron")).cpu(), module(x))


def test_a_convolution_traced_on_the_cpu_is_loaded_onto_the_device(module_and_inputs):
    module, example, x = module_and_inputs
    buffer = io.BytesIO()
    torch.jit.save(torch.jit.trace(module, example), buffer)
    buffer.seek(0)
    loaded = torch.jit.load(buffer, map_location="neuron")

    moved = x.to("neuron").requires_grad_()
    loaded(moved).square().sum().backward()
    x.requires_grad_()
    module(x).square().sum().backward()

    torch.testing.assert_close(moved.grad.cpu(), x.grad)
    for found, expected in zip(loaded.parameters(), module.parameters(), strict=True):
        torch.testing.assert_close(found.grad.cpu(), expected.grad)
