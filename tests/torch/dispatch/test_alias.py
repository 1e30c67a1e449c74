import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

from trnsim.errors import InternalError
from trnsim.torch.dispatch.alias import host_alias, host_aliases, neuron_alias


def test_both_aliases_share_the_memory_and_keep_it_alive():
    host = torch.zeros(2, 3)
    tensor = neuron_alias(host, 0)
    again = host_alias(tensor)
    assert tensor.device == torch.device("neuron:0")
    assert host.data_ptr() == tensor.data_ptr() == again.data_ptr()
    del host, tensor
    again.add_(1)
    assert again.tolist() == [[1, 1, 1], [1, 1, 1]]


def test_strides_dtype_and_index_survive():
    host = torch.zeros(4, 6, dtype=torch.bfloat16)[::2, ::3].t()
    tensor = neuron_alias(host, 3)
    assert (tensor.shape, tensor.stride(), tensor.dtype) == (host.shape, host.stride(), host.dtype)
    assert tensor.get_device() == 3


def test_conjugation_and_negation_survive():
    tensor = torch.tensor([1 + 2j, 3 - 4j]).to("neuron")
    assert host_alias(tensor.conj()).tolist() == [1 - 2j, 3 + 4j]
    assert host_alias(tensor.conj().imag).tolist() == [-2, 4]


def test_memory_of_the_wrong_device_is_refused():
    with pytest.raises(InternalError, match="on cpu was taken"):
        host_alias(torch.zeros(2))
    with pytest.raises(InternalError, match="on neuron:0 was taken"):
        neuron_alias(torch.zeros(2, device="neuron"), 0)


def test_a_list_is_resolved_before_it_reaches_the_device():
    x = torch.randn(3, dtype=torch.complex64)
    ours = x.to("neuron")
    found = torch.cat([ours.conj(), ours.conj().imag.to(torch.complex64)])
    assert torch.equal(found.cpu(), torch.cat([x.conj(), x.conj().imag.to(torch.complex64)]))
    found = torch.cat([ours.conj().imag, ours.real])
    assert torch.equal(found.cpu(), torch.cat([x.conj().imag, x.real]))


def test_a_list_with_a_tensor_of_another_core_has_no_aliases():
    ours, host = torch.ones(2, device="neuron"), torch.ones(2)
    (alias,) = host_aliases([ours], 0)
    assert alias.data_ptr() == ours.data_ptr()
    assert host_aliases([ours, host], 0) is None
    assert host_aliases([ours, None], 0) is None
    assert host_aliases([ours], 1) is None
