import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

from trnsim.torch.dispatch.contracts import read_contract

aten = torch.ops.aten


def test_a_fresh_result():
    contract = read_contract(aten.add.Tensor)
    assert (contract.name, contract.returned_arguments, contract.outs) == (
        "aten::add.Tensor",
        (None,),
        (),
    )
    assert contract.tensors == {"self", "other"}


def test_results_that_are_arguments():
    assert read_contract(aten.add_.Tensor).returned_arguments == ((0, "self"),)
    assert read_contract(aten.add.out).outs == ("out",)
    legit = read_contract(aten._native_batch_norm_legit.default)
    assert legit.returned_arguments == (None, None, None)


def test_views_devices_and_random_numbers():
    assert read_contract(aten.as_strided.default).is_view
    assert read_contract(aten.empty_strided.default).takes_device
    assert read_contract(aten.normal_.default).generator == (3, "generator")
    assert read_contract(aten.native_dropout.default).is_seeded
