import warnings
from collections import Counter

import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

from trnsim.device.fallback_policy import HostFallback, state
from trnsim.errors import BadInput
from trnsim.torch.device_errors import DtypeRefused
from trnsim.torch.dispatch import fallback_policy


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    monkeypatch.setattr(state, "policy", "host")
    monkeypatch.setattr(state, "on_host", Counter())


@pytest.mark.parametrize("dtype", sorted(fallback_policy.UNSUPPORTED_DTYPES, key=str))
def test_the_chip_refuses_by_name_what_it_lacks(dtype):
    torch.neuron.set_policy("chip")
    with pytest.raises(DtypeRefused, match=str(dtype)) as caught:
        torch.zeros(2, dtype=dtype, device="neuron")
    assert isinstance(caught.value, RuntimeError)
    assert __file__ in str(caught.value)


def test_the_host_takes_it_counts_it_and_warns_once():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        x = torch.ones(2, dtype=torch.float64, device="neuron")
        assert (x + x).tolist() == [2, 2]
    assert [warning.category for warning in caught] == [HostFallback]
    assert torch.neuron.host_fallbacks()["float64"] >= 2


def test_a_tensor_is_printed_without_asking_the_chip_for_what_it_lacks():
    torch.neuron.set_policy("chip")
    x = torch.tensor([[1.5, -2.0], [float("nan"), 1e6]]).to("neuron")
    assert str(x).replace(", device='neuron:0'", "") == str(x.cpu())
    assert repr(torch.nn.Parameter(x)).endswith("device='neuron:0', requires_grad=True)")
    assert "grad_fn=<MulBackward0>" in str(torch.nn.Parameter(x) * 2)


def test_indices_of_64_bits_are_accepted():
    torch.neuron.set_policy("chip")
    assert torch.arange(3, device="neuron").dtype is torch.int64


def test_other_policies_are_refused():
    with pytest.raises(BadInput, match="TRNSIM_POLICY='none'; legal: chip, host"):
        torch.neuron.set_policy("none")
