import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

from trnsim.errors import InternalError
from trnsim.torch.alias import host_alias, neuron_alias


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
