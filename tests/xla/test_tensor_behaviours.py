"""What tensors and modules mean in programs of torch_xla; tests/xla/oracle asks the real one."""

import pytest
import torch

from trnsim.errors import BadInput
from trnsim.torch.device_errors import MixedDevices
from trnsim.xla import tensor_behaviours


def test_an_address_is_the_offset_in_the_storage_and_the_hosts_is_its_own():
    import torch_xla

    tensor = torch.ones(2, 3, device="xla")
    assert tensor.data_ptr() == 0
    assert tensor[1].data_ptr() == 12
    assert torch.nn.Parameter(tensor).data_ptr() == 0
    assert torch.ones(2).data_ptr() > 12
    assert tensor.type() == "torch.xla.FloatTensor"
    assert torch.ones(2).type() == "torch.FloatTensor"
    assert tensor.type(torch.int32).dtype is torch.int32


@pytest.mark.parametrize("way", ["there", "back"])
def test_a_module_that_moves_has_new_parameters(way):
    import torch_xla

    start, end = ("cpu", "xla") if way == "there" else ("xla", "cpu")
    layer = torch.nn.Linear(2, 1).to(start)
    weight = layer.weight
    weight.grad = torch.ones_like(weight)
    layer.to(end)
    assert layer.weight is not weight
    assert weight.device.type == start
    assert layer.weight.grad.device.type == end
    assert layer.to(end).weight is layer.weight
    moved = layer.weight
    assert layer.to(torch.bfloat16).weight is moved


def test_operators_of_the_table_take_the_hosts_tensors_and_no_others_do():
    import torch_xla

    there, here = torch.full((2,), 3.0, device="xla"), torch.full((2,), 2.0)
    for name in ("add", "sub", "mul", "div", "pow", "fmod", "floor_divide"):
        function = getattr(torch, name)
        for pair in ((there, here), (here, there)):
            result = function(*pair)
            assert result.device.type == "xla"
            assert torch.equal(result.cpu(), function(*(tensor.cpu() for tensor in pair)))
    assert torch.div(there, here, rounding_mode="floor").tolist() == [1.0, 1.0]
    for name in ("maximum", "remainder", "atan2", "eq", "dot"):
        with pytest.raises(MixedDevices, match="xla:0 and cpu"):
            getattr(torch, name)(there, here)
    there.add_(here)
    here *= there
    assert there.tolist() == [5.0, 5.0]
    assert here.device.type == "cpu"
    assert here.tolist() == [10.0, 10.0]
    for name in tensor_behaviours.HOST_OPERANDS:
        packet, _, overload = name.removeprefix("aten::").partition(".")
        assert getattr(getattr(torch.ops.aten, packet), overload or "default")


def test_an_embedding_does_not_take_indices_of_the_host():
    import torch_xla

    table = torch.nn.Embedding(3, 2, device="xla")
    with pytest.raises(BadInput, match="indices"):
        table(torch.tensor([1]))
    assert torch.arange(3, device="xla")[torch.tensor([1])].tolist() == [1]


def test_the_seed_of_pytorch_leaves_the_device():
    import torch_xla

    torch.manual_seed(3)
    first = torch.rand(3, device="xla")
    torch.manual_seed(3)
    assert not torch.equal(torch.rand(3, device="xla"), first)
    host = torch.rand(3)
    torch.manual_seed(3)
    assert torch.equal(torch.rand(3), host)


def test_on_the_device_neuron_all_is_as_it_was():
    layer = torch.nn.Linear(2, 1)
    weight = layer.weight
    assert layer.to("neuron").weight is weight
    assert weight.data_ptr() > 12
    torch.manual_seed(3)
    first = torch.rand(3, device="neuron")
    torch.manual_seed(3)
    assert torch.equal(torch.rand(3, device="neuron"), first)
    with pytest.raises(MixedDevices, match="neuron:0 and cpu"):
        torch.ones(2, device="neuron") + torch.ones(2)
