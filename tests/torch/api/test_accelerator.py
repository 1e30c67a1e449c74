import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

import threading

from torch.utils._python_dispatch import TorchDispatchMode

from trnsim.device.device_core import NoSuchCore
from trnsim.torch import pytorch


def test_the_accelerator_is_the_device():
    accelerator = torch.accelerator
    assert accelerator.is_available()
    assert accelerator.current_accelerator() == torch.device("neuron")
    assert (accelerator.device_count(), accelerator.current_device_index()) == (4, 0)
    accelerator.set_device_index(0)
    accelerator.synchronize()
    accelerator.empty_cache()


def test_its_memory_figures_are_the_devices():
    tensor = torch.empty(1000, device="neuron")
    accelerator = torch.accelerator
    assert accelerator.memory_allocated() == torch.neuron.memory_allocated() > 0
    accelerator.reset_peak_memory_stats()
    accelerator.reset_accumulated_memory_stats()
    assert accelerator.max_memory_allocated() == torch.neuron.max_memory_allocated()
    assert accelerator.get_memory_info() == torch.neuron.mem_get_info()
    del tensor


def test_figures_of_a_missing_core_are_refused():
    accelerator = torch.accelerator
    for reset in (
        accelerator.reset_peak_memory_stats,
        accelerator.reset_accumulated_memory_stats,
    ):
        with pytest.raises(NoSuchCore, match="neuron:4"):
            reset(4)


def test_backward_runs_in_the_thread_that_asks():
    seen = []
    leaf = torch.ones(2, device="neuron", requires_grad=True)
    leaf.register_hook(lambda _: seen.append(threading.get_ident()))
    (leaf * 2).sum().backward()
    assert seen == [threading.get_ident()]


def test_backward_in_many_threads():
    gradients = []

    def work():
        leaf = torch.ones(2, device="neuron", requires_grad=True)
        (leaf * 2).sum().backward()
        gradients.append(leaf.grad.tolist())

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert gradients == [[2, 2]] * 4


def test_backward_on_the_cpu_is_untouched():
    leaf = torch.ones(2, requires_grad=True)
    (leaf * 2).sum().backward()
    assert leaf.grad.tolist() == [2, 2]


def test_the_hosts_cache_is_emptied_without_an_allocator():
    assert torch.accelerator.empty_host_cache() is None


def test_the_capability_names_the_chips_dtypes():
    found = torch.accelerator.get_device_capability()["supported_dtypes"]
    assert torch.bfloat16 in found
    assert torch.float64 not in found


def test_an_error_inside_a_traced_backward_pass_arrives_where_the_pass_began():
    class Refusing(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            if function is torch.ops.aten.mm.default:
                raise ValueError("not this one")
            return function(*args, **(kwargs or {}))

    x, y = (torch.randn(3, 3, device="neuron", requires_grad=True) for _ in range(2))
    product = (x @ y).sum()
    with Refusing(), pytest.raises(ValueError, match="not this one"):
        product.backward()
    product.backward()
    assert x.grad is not None


def test_an_interrupt_while_the_devices_type_is_asked_is_not_lost(monkeypatch):
    def interrupted():
        monkeypatch.undo()
        raise KeyboardInterrupt

    x = torch.ones(3, device="neuron", requires_grad=True)
    loss = (x * 2).sum()
    monkeypatch.setattr(pytorch, "_let_errors_out", interrupted)
    with pytest.raises(KeyboardInterrupt):
        loss.backward()
    (x * 2).sum().backward()


def test_an_error_of_one_thread_is_no_other_threads():
    pytorch.deferred_errors.errors.append(ValueError("of this thread"))
    found = []

    def work():
        x = torch.ones(3, device="neuron", requires_grad=True)
        (x * 2).sum().backward()
        found.extend(pytorch.deferred_errors.errors)

    other = threading.Thread(target=work)
    other.start()
    other.join()
    assert not found
    assert [str(error) for error in pytorch.deferred_errors.errors] == ["of this thread"]
    pytorch.deferred_errors.errors.clear()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_what_the_compiler_cannot_trace_back_runs_as_it_is():
    def function(x, mask, values):
        return x.index_put((mask,), values)

    def gradients(function, device):
        mask = torch.tensor([True, False, True]).to(device)
        x, v = (torch.ones(3, 3, device=device, requires_grad=True) for _ in range(2))
        return torch.autograd.grad(function(x, mask, v[:2]).sum(), [x, v])

    torch._dynamo.reset()
    found = gradients(torch.compile(function, backend="neuron"), "neuron")
    for mine, theirs in zip(found, gradients(function, "cpu"), strict=True):
        assert torch.equal(mine.cpu(), theirs)
