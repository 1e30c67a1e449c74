# nki: 0.6
# Kernels of one core, in graphs of two: NKI 0.7 refuses them (tests of check_degree).
import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

from torch_neuronx import nki, nki_op

import trnsim.nki
from trnsim.device.step_time import step_time
from trnsim.errors import IllegalInstruction
from trnsim.torch.call_recording import recording

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture(scope="module")
def sine(kernels):
    """An operator of kernels with a gradient of kernels."""

    @nki_op("trnsim_tests::sine", mutates_args={})
    def sine(x: torch.Tensor) -> torch.Tensor:
        result = torch.empty_like(x)
        kernels.sine_into(x, result)
        return result

    sine.register_autograd(
        lambda ctx, gradient: gradient * kernels.cosine(ctx.saved_tensors[0]),
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[0]),  # noqa: ARG005
    )
    return sine


def test_the_names_of_awss_page_are_there():
    assert nki is trnsim.nki
    import torch_neuronx.nki  # noqa: PLC0415  the statement under test

    assert torch_neuronx.nki is trnsim.nki


@pytest.mark.parametrize("compiled", [False, True])
def test_an_operator_of_kernels_has_values_gradients_and_time(sine, compiled):
    torch._dynamo.reset()
    function = lambda x: sine(x * 2.0)  # noqa: E731  compiled or not
    call = torch.compile(function, backend="neuron", fullgraph=True) if compiled else function
    x = torch.rand(128, 16, device="neuron", requires_grad=True)  # the chip's sine ends at pi
    with recording() as found:
        result = call(x)
        result.sum().backward()
    host = x.detach().cpu()
    assert torch.allclose(result.cpu(), (2 * host).sin(), atol=1e-4)
    assert torch.allclose(x.grad.cpu(), 2 * (2 * host).cos(), atol=1e-4)
    time = step_time(found, "trn2")
    assert not time.missing
    kernels = [kernel.name for call in time.times.values() for kernel in call.kernels]
    assert {"sine_into", "cosine"} <= set(kernels)


def test_a_model_of_such_operators_trains(sine):
    class Wave(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = torch.nn.Linear(8, 16)

        def forward(self, x):
            return sine(self.inner(x))

    torch.manual_seed(0)
    model = Wave().to("neuron")
    x = torch.randn(128, 8).to("neuron")
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    losses = []
    for _ in range(5):
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses == sorted(losses, reverse=True)


def test_a_kernel_that_fails_in_a_backward_pass_names_its_line_and_the_process_goes_on(kernels):
    @nki_op("trnsim_tests::fails_backward")
    def identity(x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    identity.register_autograd(lambda ctx, gradient: kernels.too_wide(gradient))  # noqa: ARG005
    x = torch.ones(128, 4, device="neuron", requires_grad=True)
    with pytest.raises(IllegalInstruction) as caught:
        identity(x).sum().backward()
    assert caught.value.line.file.endswith("conftest.py")
    (x * 2).sum().backward()
    assert x.grad.cpu().unique().tolist() == [2]


def test_without_a_gradient_pytorch_says_that_one_is_missing():
    @nki_op("trnsim_tests::no_gradient", schema="(Tensor x) -> Tensor")
    def doubled(x):
        return x * 2

    x = torch.ones(4, device="neuron", requires_grad=True)
    with pytest.raises(RuntimeError, match="no autograd formula was registered"):
        doubled(x).sum().backward()
