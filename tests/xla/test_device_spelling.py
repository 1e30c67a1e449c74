"""The device spelled "xla": every way to name it, and the traps of a name that Python adds."""

import copy
import io
import pickle
import warnings

import pytest
import torch

from trnsim.errors import BadInput
from trnsim.torch.device_errors import MixedDevices
from trnsim.torch.device_name import is_neuron
from trnsim.xla import device_spelling
from trnsim.xla.absent_names import RefusedImport

XLA = torch.device("xla", 0)


def saved(value):
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return file


def test_every_factory_makes_tensors_of_the_device():
    import torch_xla

    tensors = [
        torch.empty(2, device="xla"),
        torch.tensor([1.0], device="xla"),
        torch.randn(2, 3, device="xla:0"),
        torch.arange(4, device=XLA),
        torch.full((2,), 3.0, device="xla"),
        torch.eye(2, device="xla"),
        torch.linspace(0, 1, 3, device="xla"),
        torch.tril_indices(2, 2, device="xla"),
        torch.triu_indices(2, 2, device="xla"),
        torch.zeros_like(torch.ones(2), device="xla"),
        torch.empty_strided((2, 3), (1, 2), device="xla"),
        torch.ones(2).to("xla"),
        torch.ones(2).to(device="xla"),
        torch.ones(2).to("xla", torch.bfloat16),
        torch.nn.Linear(2, 2, device="xla").weight,
        torch.ones(2).to("xla").new_zeros(2),
    ]
    for tensor in tensors:
        assert tensor.device == XLA
        assert tensor.device.type == "xla"
        assert tensor.is_xla
        assert is_neuron(tensor.device)
    assert tensors[10].stride() == (1, 2)
    assert str(tensors[3]) == "tensor([0, 1, 2, 3], device='xla:0')"


def test_another_core_is_named_by_its_index_and_one_beyond_the_last_is_refused():
    import torch_xla

    assert torch.zeros(1, device="xla:1").device == torch.device("xla:1")
    count = torch.xla.device_count()
    assert torch.zeros(1).to(f"xla:{count - 1}").get_device() == count - 1
    with pytest.raises(BadInput, match="does not exist"):
        torch.zeros(1, device=f"xla:{count}")


def test_a_tensor_of_the_host_stays_what_it_was():
    import torch_xla

    host = torch.ones(2)
    assert host.device == torch.device("cpu")
    assert not host.is_xla
    assert torch.ones(2, device="xla").cpu().device.type == "cpu"
    assert torch.ones(2, device="meta").device.type == "meta"


@pytest.mark.parametrize("place", ["xla", "xla:0", XLA, "neuron"])
def test_a_tensor_that_is_there_is_not_copied(place):
    import torch_xla

    tensor = torch.ones(2, device="xla")
    assert tensor.to(place) is tensor
    assert tensor.to(device=place) is tensor
    assert tensor.to(tensor) is tensor
    assert tensor.to(place, copy=True) is not tensor


def test_tensors_made_before_the_import_have_the_name_too():
    tensor = torch.ones(2, device="neuron")
    assert tensor.device.type == "neuron"
    import torch_xla

    assert tensor.device.type == "xla"
    assert torch.ones(2, device="neuron").device == XLA


def test_a_model_trains_to_the_values_of_the_host():
    import torch_xla

    results = []
    for place in ("cpu", "xla"):
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
        inputs = torch.randn(5, 3)
        model.to(place)
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            model(inputs.to(place)).square().mean().backward()
            optimizer.step()
        assert model[0].weight.grad.device.type == place
        results.append([parameter.detach().cpu() for parameter in model.parameters()])
    torch.testing.assert_close(results[0], results[1])


def test_saved_tensors_come_back_to_where_a_program_wants_them():
    import torch_xla

    state = torch.nn.Linear(2, 2).to("xla").state_dict()
    assert torch.load(saved(state))["weight"].device == XLA
    assert torch.load(saved(state), map_location="cpu")["weight"].device.type == "cpu"
    host = {"a": torch.ones(2)}
    assert torch.load(saved(host))["a"].device.type == "cpu"
    for place in ("xla", XLA, {"cpu": "xla"}):
        with pytest.raises(RuntimeError, match=r"restore data location.*tagged with xla"):
            torch.load(saved(host), map_location=place)  # the real package cannot either


def test_copies_and_pickles_stay_on_the_device():
    import torch_xla

    tensor = torch.ones(2, device="xla:1")
    for again in (copy.deepcopy(tensor), pickle.loads(pickle.dumps(tensor))):  # noqa: S301
        assert again.device == tensor.device
        assert again is not tensor
        assert again.tolist() == [1.0, 1.0]
    parameter = copy.deepcopy(torch.nn.Linear(2, 2).to("xla")).weight
    assert isinstance(parameter, torch.nn.Parameter)
    assert parameter.device == XLA


def test_autocast_of_xla_is_that_of_the_device():
    import torch_xla

    layer, inputs = torch.nn.Linear(2, 2).to("xla"), torch.ones(1, 2, device="xla")
    with torch.autocast("xla", dtype=torch.bfloat16):
        assert torch.is_autocast_enabled("xla")
        assert torch.get_autocast_dtype("xla") is torch.bfloat16
        assert layer(inputs).dtype is torch.bfloat16
        with torch.autocast("xla", enabled=False):
            assert layer(inputs).dtype is torch.float32
    assert not torch.is_autocast_enabled("xla")
    assert layer(inputs).dtype is torch.float32


def test_a_generator_of_xla_is_refused_and_those_of_other_devices_are_not():
    import torch_xla

    with pytest.raises(RuntimeError, match=r"torch.Generator\('xla'\).*no generators"):
        torch.Generator("xla")
    with pytest.raises(BadInput, match=r"fix: xm\.set_rng_state"):
        torch.Generator(device="xla:0")
    assert torch.Generator().device.type == "cpu"
    assert isinstance(torch.Generator("neuron"), torch.Generator)


def test_a_tensor_of_the_host_beside_one_of_the_device_is_named():
    import torch_xla

    with pytest.raises(MixedDevices, match="xla:0 and cpu"):
        torch.ones(2, 2, device="xla") @ torch.ones(2, 2)


def test_gradients_of_a_recomputed_part_are_those_without():
    import torch_xla
    from torch.utils.checkpoint import checkpoint

    tensor = torch.ones(2, device="xla", requires_grad=True)
    checkpoint(lambda x: (x * x).sum(), tensor, use_reentrant=False).backward()
    assert tensor.grad.tolist() == [2.0, 2.0]


def test_the_default_device_may_be_xla():
    import torch_xla

    with torch.device("xla"):
        assert torch.ones(2).device == XLA
    torch.set_default_device("xla")
    assert torch.ones(2).device == XLA
    torch.set_default_device(None)


@pytest.mark.slow
def test_a_compiled_program_names_and_mixes_both_names():
    import torch_xla

    warnings.simplefilter("ignore")
    layer = torch.nn.Linear(2, 2).to("xla")

    def step(inputs):
        there = torch.zeros(2, device="xla") + inputs.to("xla")
        with torch.autocast("xla", dtype=torch.bfloat16):
            result = layer(there)
        return result if inputs.device.type == "xla" else None

    result = torch.compile(step, backend="neuron")(torch.ones(2, device="xla"))
    assert result.dtype is torch.bfloat16
    assert result.device == XLA
    torch.testing.assert_close(result, step(torch.ones(2, device="xla")), rtol=0.02, atol=0.02)


def test_a_library_without_the_table_of_guards_is_refused_by_name(tmp_path):
    with pytest.raises(RefusedImport, match=r"(?s)libc10.so has no _ZN3c10.*fix: name it"):
        device_spelling.share_guard("linux", tmp_path)
    with pytest.raises(ImportError, match=r"c10.dll has no \?device_guard_impl_registry"):
        device_spelling.share_guard("win32", tmp_path)
    with pytest.raises(ImportError, match=r"libc10\.dylib has no _ZN3c10"):
        device_spelling.share_guard("darwin", tmp_path)
