import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

import copy

from torch import nn


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("cell", [nn.LSTM, nn.GRU, nn.RNN])
def test_recurrent_layers_and_their_gradients(cell, bias):
    torch.manual_seed(0)
    on_cpu = cell(3, 4, num_layers=2, bidirectional=True, bias=bias)
    on_device = copy.deepcopy(on_cpu).to("neuron")
    inputs = torch.randn(5, 2, 3)
    expected, result = on_cpu(inputs)[0], on_device(inputs.to("neuron"))[0]
    assert torch.allclose(result.cpu(), expected, atol=1e-6)
    expected.square().sum().backward()
    result.square().sum().backward()
    for right, parameter in zip(on_cpu.parameters(), on_device.parameters(), strict=True):
        assert torch.allclose(parameter.grad.cpu(), right.grad, atol=1e-5)


def test_the_gradient_of_the_cell_state_alone():
    torch.manual_seed(0)
    cell = nn.LSTMCell(3, 4)
    _, expected = cell(torch.ones(2, 3))
    expected.sum().backward()
    right = cell.weight_ih.grad.clone()
    cell.zero_grad()
    _, state = cell.to("neuron")(torch.ones(2, 3, device="neuron"))
    state.sum().backward()
    assert torch.allclose(cell.weight_ih.grad.cpu(), right, atol=1e-6)


def test_packed_sequences_take_their_lengths_from_the_cpu():
    lstm = nn.LSTM(3, 4).to("neuron")
    inputs = torch.randn(5, 2, 3, device="neuron")
    packed = nn.utils.rnn.pack_padded_sequence(inputs, torch.tensor([5, 3]))
    assert lstm(packed)[0].data.device.type == "neuron"
