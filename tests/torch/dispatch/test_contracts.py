import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

from trnsim.torch import pytorch
from trnsim.torch.dispatch.contracts import is_view, read_contract

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


def test_every_operator_of_the_cpu_is_a_view_by_its_name_as_by_its_contract():
    names = [
        name
        for name in pytorch.operators()
        if name.startswith("aten::") and pytorch.has_kernel(name, "CPU")
    ]
    views = {name for name in names if is_view(name)}
    assert {"aten::as_strided", "aten::view", "aten::unfold"} <= views
    operators = {name: pytorch.overload(name) for name in names}
    assert None not in operators.values(), "each can be called from Python"
    assert views == {name for name, found in operators.items() if read_contract(found).is_view}
