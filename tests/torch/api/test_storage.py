import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

import copy
import io
import pickle

import forked

from trnsim.errors import BadInput, NotModelled


def saved(value):
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return file


@pytest.mark.parametrize("location", [None, "cpu", "neuron", "neuron:0", torch.device("neuron")])
def test_saved_tensors_load_where_they_are_wanted(location):
    tensor = torch.randn(3, 4, device="neuron")
    loaded = torch.load(saved({"all": tensor, "row": tensor[1]}), map_location=location)
    assert loaded["all"].device.type == ("cpu" if location == "cpu" else "neuron")
    assert torch.equal(loaded["row"].cpu(), tensor[1].cpu())
    loaded["all"].zero_()
    assert loaded["row"].abs().sum() == 0, "the view must share its storage"


def test_tensors_saved_on_the_cpu_load_on_the_device():
    assert torch.load(saved(torch.ones(2)), map_location="neuron").device.type == "neuron"


def test_loading_onto_a_core_that_does_not_exist_fails():
    file = saved(torch.ones(2, device="neuron"))
    with pytest.raises(RuntimeError, match="neuron:4 does not exist: this process has 4"):
        torch.load(file, map_location="neuron:4")


def test_deep_copies_keep_views_and_parameters():
    tensor = torch.ones(4, device="neuron")
    whole, part = copy.deepcopy([tensor, tensor[1:]])
    whole.zero_()
    assert part.sum() == 0
    assert tensor.sum() == 4
    weight = copy.deepcopy(torch.nn.Linear(2, 2).to("neuron")).weight
    assert type(weight) is torch.nn.Parameter
    assert weight.requires_grad


def test_state_dicts_cross_devices():
    source, model = torch.nn.Linear(3, 4), torch.nn.Linear(3, 4).to("neuron")
    model.load_state_dict(source.state_dict())
    assert torch.equal(model.state_dict()["weight"].cpu(), source.weight)
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(1, 3, device="neuron")).sum().backward()
    optimizer.step()
    optimizer.load_state_dict(optimizer.state_dict())
    assert optimizer.state[model.weight]["exp_avg"].device.type == "neuron"


def test_tensors_can_be_pickled():
    assert pickle.loads(pickle.dumps(torch.ones(2, device="neuron"))).device.type == "neuron"  # noqa: S301


def test_storages_are_made_on_the_device():
    assert torch.UntypedStorage(16, device="neuron").nbytes() == 16
    assert torch.UntypedStorage([1, 2, 3], device="neuron").tolist() == [1, 2, 3]
    assert torch.UntypedStorage(16).device.type == "cpu"


def test_storages_shrink_and_do_not_grow():
    storage = torch.ones(4, device="neuron").untyped_storage()
    assert storage.resize_(0) is storage
    assert storage.nbytes() == storage.size() == 0
    assert storage.resize_(16).nbytes() == 16
    assert torch.ones(4, device="neuron").untyped_storage().nbytes() == 16
    with pytest.raises(NotModelled, match="cannot grow to 32"):
        storage.resize_(32)
    assert torch.UntypedStorage(4).resize_(8).nbytes() == 8


def test_a_storage_has_no_negative_size():
    storage = torch.ones(6, device="neuron").untyped_storage()
    with pytest.raises(BadInput, match=r"resize_\(-1\) of a storage; legal: 0 to 24 bytes"):
        storage.resize_(-1)
    assert storage.nbytes() == 24


def test_a_stream_may_be_named_for_memory():
    tensor = torch.ones(3, device="neuron")
    assert tensor.record_stream(torch.neuron.current_stream()) is None


def test_pinned_memory_says_so_as_long_as_somebody_holds_it():
    plain = torch.ones(3)
    pinned = plain.pin_memory()
    assert not plain.is_pinned()
    assert pinned.is_pinned()
    assert pinned.pin_memory() is pinned
    assert pinned.untyped_storage().is_pinned()
    assert torch.empty(0).pin_memory().is_pinned()
    assert not pinned.to("neuron").is_pinned()
    part = pinned[1:]
    del pinned
    assert part.is_pinned()
    del part
    # A later storage may lie where the pinned one lay.
    assert not any(torch.ones(3).is_pinned() for _ in range(100))


CORES = """
import torch
host = torch.arange(4, dtype=torch.uint8).untyped_storage()
first = host.to(device="neuron")
second = host.to(device="neuron:1", non_blocking=True)
print(first.device, second.device, second.tolist(), first.to(device="neuron:1").tolist())
print(second.to(device=torch.device("neuron:1")) is second, first.to(device="neuron") is first)
print(second.to(device="cpu").tolist(), host.to(device="cpu") is host)
second[0] = 9
print(host.tolist(), second.tolist())
try:
    host.to(device="neuron:2")
except RuntimeError as error:
    print(str(error).splitlines()[0])
"""


@pytest.mark.slow
def test_storages_move_to_every_core():
    done = forked.python(CORES, "-W", "error", check=True, NEURON_RT_VISIBLE_CORES="4-5")
    assert done.stdout.splitlines() == [
        "neuron:0 neuron:1 [0, 1, 2, 3] [0, 1, 2, 3]",
        "True True",
        "[0, 1, 2, 3] True",
        "[0, 1, 2, 3] [9, 1, 2, 3]",
        "neuron:2 does not exist: this process has 2 NeuronCore(s), neuron:0 to neuron:1",
    ]


@pytest.mark.parametrize("make", ["new", "new_tensor"])
def test_a_new_tensor_lies_on_the_core_of_its_own(make):
    for device in ("cpu", "neuron:0", "neuron:1"):
        tensor = getattr(torch.ones(3, device=device), make)([1.0, 2.0])
        assert (str(tensor.device), tensor.tolist()) == (device, [1, 2])
    x = torch.ones(3, device="neuron:1")
    assert getattr(x, make)([1.0], device="neuron:0" if make == "new_tensor" else None).tolist()
