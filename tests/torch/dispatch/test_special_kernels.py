import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

import copy

from trnsim.device.numerics import numerics
from trnsim.torch.call_recording import recording


def test_views_share_the_storage():
    tensor = torch.arange(12.0, device="neuron").view(3, 4)
    view = tensor.t()[1:3, ::2]
    assert view._base is not None
    assert view.untyped_storage().data_ptr() == tensor.untyped_storage().data_ptr()
    view.add_(100)
    expected = torch.arange(12.0).view(3, 4)
    expected.t()[1:3, ::2].add_(100)
    assert torch.equal(tensor.cpu(), expected)
    assert torch.equal(tensor.unfold(1, 2, 1).cpu(), expected.unfold(1, 2, 1))
    assert torch.equal(tensor.view(torch.int32).cpu(), expected.view(torch.int32))


def test_gradients_flow_through_a_write_to_a_view():
    leaf = torch.ones(2, 3, device="neuron", requires_grad=True)
    tensor = leaf * 1
    tensor[:, 1].mul_(5)
    tensor.sum().backward()
    assert leaf.grad.tolist() == [[1, 5, 1], [1, 5, 1]]


def test_copies_between_all_devices_and_layouts():
    source = torch.arange(6.0).view(2, 3)
    tensor = source.to("neuron:0")
    assert torch.equal(tensor.t().cpu(), source.t())
    back = torch.empty(3, 2).copy_(tensor.t())
    assert torch.equal(back, source.t())
    assert torch.equal(tensor.to(torch.bfloat16).float().cpu(), source)
    assert tensor.to("neuron") is tensor
    channels_last = torch.randn(1, 2, 3, 4).to("neuron", memory_format=torch.channels_last)
    assert channels_last.is_contiguous(memory_format=torch.channels_last)


def test_conjugate_views_are_copied_once():
    numbers = torch.tensor([1 + 2j, 3 - 4j])
    tensor = numbers.to("neuron").conj()
    assert torch.equal(tensor.cpu(), numbers.conj().resolve_conj())
    assert torch.equal(tensor.clone().cpu(), numbers.conj().resolve_conj())
    assert torch.equal((tensor @ tensor).cpu(), numbers.conj() @ numbers.conj())
    tensor.copy_(torch.tensor([1j, 2j]))
    assert torch.equal(tensor.cpu(), torch.tensor([1j, 2j]))


def test_scalars_and_printing():
    assert torch.tensor(2.5, device="neuron").item() == 2.5
    assert repr(torch.ones(2, device="neuron")) == "tensor([1., 1.], device='neuron:0')"


def test_resizing_keeps_what_was_there():
    tensor = torch.ones(3, device="neuron")
    tensor.resize_(2, 4)
    assert tensor.shape == (2, 4)
    assert tensor.flatten()[:3].tolist() == [1, 1, 1]
    tensor.resize_(2)
    assert tensor.tolist() == [1, 1]
    tensor.set_()
    assert tensor.shape == (0,)


def test_set_points_at_other_memory():
    first, second = torch.zeros(4, device="neuron"), torch.ones(2, device="neuron")
    first.set_(second)
    assert first.is_set_to(second)
    first.set_(second.untyped_storage())
    assert first.tolist() == [1, 1]


def test_a_parameter_stays_itself_when_its_module_moves():
    linear = torch.nn.Linear(3, 2)
    weight = linear.weight
    linear.to("neuron")
    assert linear.weight is weight
    assert weight.device.type == "neuron"
    weight.data = torch.zeros(2, 3, device="neuron")
    assert weight.sum() == 0


def test_modules_start_on_meta_or_on_the_device():
    with torch.device("meta"):
        linear = torch.nn.Linear(3, 2)
    assert linear.to_empty(device="neuron").weight.device.type == "neuron"
    with torch.device("neuron"):
        assert torch.nn.Linear(3, 2).weight.device.type == "neuron"
    assert copy.deepcopy(linear).weight.device.type == "neuron"


def test_a_gradient_of_zeros_has_memory():
    leaf = torch.randn(3, device="neuron", requires_grad=True)
    torch.sgn(leaf).sum().backward()
    assert leaf.grad.tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"dtype": torch.float64},
        {"copy": True},
        {"memory_format": torch.channels_last},
    ],
)
@pytest.mark.parametrize("target", ["cpu", "neuron"])
def test_a_copy_that_need_not_wait_has_ended(target, options):
    host = torch.arange(16.0).view(1, 2, 2, 4).transpose(2, 3)
    for source in (host, host.to("neuron"), host.to("neuron")[:, 1:]):
        found = source.to(target, non_blocking=True, **options)
        expected = source.cpu().to("cpu", **options)
        assert found.device.type == target
        assert found.stride() == expected.stride()
        assert torch.equal(found.cpu(), expected)


def test_a_gradient_flows_through_a_copy_that_need_not_wait():
    leaf = torch.ones(3, device="neuron", requires_grad=True)
    (leaf * 2).to("cpu", non_blocking=True).sum().backward()
    assert leaf.grad.tolist() == [2, 2, 2]
    assert leaf.grad.device.type == "neuron"


def test_a_module_moves_without_waiting():
    moved = torch.nn.Linear(2, 3).to("neuron").to("cpu", non_blocking=True)
    assert {p.device.type for p in moved.parameters()} == {"cpu"}


def test_a_histogram_of_integers_is_one_of_integers():
    experts = torch.tensor([0, 2, 2, 1], dtype=torch.int32, device="neuron")
    counts = torch.histc(experts, bins=3, min=0, max=2)
    assert counts.tolist() == [1, 1, 2]
    assert counts.dtype is torch.int32


def test_a_histogram_is_a_call_with_a_time():
    experts = torch.arange(64, dtype=torch.int32, device="neuron") % 4
    with recording() as recorded, numerics("exact") as on_host:
        counts = torch.histc(experts, bins=4, min=0, max=3)
    (event,) = recorded.events
    assert event.call.name == "aten::histc"
    assert event.call.time("trn2").device_time_s > 0
    assert (counts.tolist(), counts.dtype, dict(on_host)) == ([16] * 4, torch.int32, {})


@pytest.mark.parametrize("memory_format", [None, torch.contiguous_format], ids=str)
def test_a_resize_to_its_own_size_is_the_hosts(memory_format):
    strides, options = [], {"memory_format": memory_format} if memory_format else {}
    for place in ("cpu", "neuron"):
        whole = torch.arange(6).to(place)
        view = whole[::2].resize_(3, **options)
        strides.append((view.stride(), view.cpu().tolist()))
    assert strides[0] == strides[1]
