import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

import gc

from trnsim.device.hbm import device_memory
from trnsim.errors import NotModelled, OutOfMemory
from trnsim.torch.api.memory import place
from trnsim.torch.device_errors import OutOfDeviceMemory

GIB = 1024**3


@pytest.fixture
def held():
    gc.collect()
    start = torch.neuron.memory_allocated()
    return lambda: torch.neuron.memory_allocated() - start


def test_a_storage_counts_once_and_until_its_last_tensor(held):
    tensor = torch.zeros(1024, device="neuron")
    assert held() == 4096
    view, storage = tensor[::2], tensor.untyped_storage()
    assert held() == 4096
    del tensor, view
    assert held() == 4096
    del storage
    assert held() == 0


def test_results_and_moves_count(held):
    tensor = torch.ones(256).to("neuron")
    total = tensor + tensor
    tensor.add_(1)
    assert held() == 2048
    del tensor, total
    assert held() == 0


def test_the_graph_of_a_loss_is_released(held):
    weight = torch.ones(64, 64, device="neuron", requires_grad=True)
    (weight @ weight).sum().backward()
    assert held() == 2 * 64 * 64 * 4
    del weight
    assert held() == 0


def test_the_peak_is_the_most_at_once(held):
    torch.neuron.reset_peak_memory_stats()
    before = torch.neuron.max_memory_allocated()
    big = torch.empty(1 << 20, dtype=torch.uint8, device="neuron")
    del big
    assert torch.neuron.max_memory_allocated() - before == 1 << 20
    torch.neuron.reset_peak_memory_stats()
    assert torch.neuron.max_memory_allocated() == before
    assert held() == 0


@pytest.mark.slow
def test_what_does_not_fit_is_refused_with_a_table(held):
    weights = torch.empty(20 * GIB, dtype=torch.uint8, device="neuron")
    with pytest.raises(torch.OutOfMemoryError) as caught:
        torch.empty(5 * GIB, dtype=torch.uint8, device="neuron")
    message = str(caught.value)
    assert isinstance(caught.value, OutOfMemory)
    assert "5.00 GiB asked for, 20.00 GiB of 24.00 GiB in use (trn2)" in message
    assert "20.00 GiB        1  uint8[21474836480]" in message
    assert message.count(__file__) == 2
    del weights, caught
    gc.collect()
    assert held() == 0


def test_a_result_that_does_not_fit_is_refused_as_pytorch_would(monkeypatch):
    memory = device_memory(0)
    kept = torch.empty(15, device="neuron")
    monkeypatch.setattr(memory, "capacity_bytes", memory.live_bytes + 59)
    refusals = memory.refusals
    with pytest.raises(OutOfDeviceMemory, match="60 B asked for"):
        kept + 1
    assert memory.refusals == refusals + 1


def test_the_figures_that_programs_log():
    tensor = torch.empty(1000, device="neuron")
    stats = torch.neuron.memory_stats()
    assert stats["allocated_bytes.all.current"] == torch.neuron.memory_allocated() >= 4000
    assert stats["tensors_bytes.all.current"] == stats["allocated_bytes.all.current"]
    assert stats["model_code_bytes.all.current"] == 2 * 96 << 20
    assert torch.neuron.memory_reserved() == torch.neuron.memory_allocated()
    assert torch.neuron.max_memory_reserved() == torch.neuron.max_memory_allocated()
    free, total = torch.neuron.mem_get_info()
    assert total - free == torch.neuron.memory_allocated()
    assert "float32[1000]" in torch.neuron.memory_summary()
    assert len(torch.neuron.memory_summary(abbreviated=True).splitlines()) == 1
    torch.neuron.empty_cache()
    del tensor


def test_sparse_tensors_are_refused_by_name():
    with pytest.raises(NotModelled, match="sparse_coo"):
        torch.eye(3, device="neuron").to_sparse()


def test_several_tensors_over_one_storage_of_the_host_count_once(held):
    host = torch.zeros(64, 16)
    whole, part = place(host, 0), place(host[:8], 0)
    assert held() == 4096
    del host, whole
    assert (held(), part.shape) == (4096, (8, 16))
    del part
    assert held() == 0
