import subprocess
import sys

import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

from trnsim.torch import pytorch
from trnsim.torch.device_errors import MixedDevices, OperatorNotModelled
from trnsim.torch.dispatch import host_kernels


def on(device, *values):
    return [torch.tensor(value).to(device) for value in values]


@pytest.mark.parametrize(
    "compute",
    [
        lambda x, y: x + y,
        lambda x, y: x @ y.t(),
        lambda x, _: x.sort(dim=1),
        lambda x, y: torch.cat([x, y], dim=1),
        lambda x, _: torch.nn.functional.layer_norm(x, (2,)),
        lambda x, _: x.topk(1),
        lambda x, y: torch._foreach_add([x, y], 1.0),
        lambda x, _: x[torch.tensor([1])],
        lambda x, _: (x % 2, 2 - x, torch.xlogy(2.0, x.abs() + 1)),
        lambda x, _: torch.linalg.qr(x),
        lambda x, _: torch.var_mean(x),
        lambda x, _: torch.where(x > 1, x, 0.0),
    ],
)
def test_values_are_the_cpus_and_live_on_the_device(compute):
    values = [[1.0, -2.0], [3.0, 4.0]], [[0.5, 1.0], [2.0, 8.0]]
    expected = torch.utils._pytree.tree_leaves(compute(*on("cpu", *values)))
    results = torch.utils._pytree.tree_leaves(compute(*on("neuron", *values)))
    for result, right in zip(results, expected, strict=True):
        assert result.device.type == "neuron"
        assert result.dtype == right.dtype
        torch.testing.assert_close(result.cpu(), right)


def test_in_place_returns_the_very_tensor():
    (tensor,) = on("neuron", [1.0, 2.0])
    assert tensor.mul_(2) is tensor
    assert tensor.tolist() == [2, 4]


def test_out_is_filled_or_resized():
    (ones,) = on("neuron", [[1.0, 1.0, 1.0], [1.0, 1.0, 1.0]])
    empty = torch.empty(0, device="neuron")
    assert torch.add(ones, 1, out=empty) is empty
    assert empty.tolist() == [[2, 2, 2], [2, 2, 2]]
    strided = torch.empty(3, 2, device="neuron").t()
    torch.mul(ones, 3, out=strided)
    assert strided.stride() == (1, 2)
    assert strided.sum() == 18
    values, indices = torch.empty(2, device="neuron"), torch.empty(2, device="neuron").long()
    torch.max(ones, dim=1, out=(values, indices))
    assert values.tolist() == [1, 1]
    with pytest.warns(UserWarning, match="was resized"):
        torch.add(ones, 1, out=values)


@pytest.mark.parametrize(
    "compute",
    [
        lambda neuron, cpu: neuron + cpu,
        lambda neuron, cpu: cpu + neuron,
        lambda neuron, cpu: neuron @ cpu,
        lambda neuron, cpu: cpu.add_(neuron),
        lambda neuron, cpu: torch.cat([cpu, neuron]),
        torch.nn.functional.linear,
    ],
)
def test_tensors_on_two_devices_are_refused(compute):
    neuron, cpu = torch.ones(2, 2, device="neuron"), torch.ones(2, 2)
    with pytest.raises(MixedDevices, match="found at least two devices, neuron:0 and cpu"):
        compute(neuron, cpu)


def test_what_every_device_takes_from_the_cpu_is_taken():
    tensor = torch.ones(3, device="neuron")
    assert (tensor + torch.tensor(2.0)).tolist() == [3, 3, 3]
    tensor[torch.tensor([0, 2])] = 5.0
    assert tensor.tolist() == [5, 1, 5]


def test_random_operators_draw_from_the_core():
    torch.manual_seed(1)
    first = torch.native_dropout(torch.ones(64, device="neuron"), 0.5, True)[0]
    torch.neuron.manual_seed(1)
    assert torch.equal(first, torch.native_dropout(torch.ones(64, device="neuron"), 0.5, True)[0])
    own = torch.Generator().manual_seed(2)
    drawn = torch.randn(4, device="neuron", generator=own)
    assert torch.equal(drawn.cpu(), torch.randn(4, generator=torch.Generator().manual_seed(2)))


def test_an_operator_of_another_package_reaches_its_cpu_kernel():
    @torch.library.custom_op("trnsim_test::double", mutates_args=(), device_types="cpu")
    def double(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    assert double(torch.ones(2, device="neuron")).device.type == "neuron"


def test_an_operator_without_a_kernel_is_named():
    library = torch.library.Library("trnsim_test", "FRAGMENT")
    library.define("nowhere(Tensor x) -> Tensor")
    with pytest.raises(OperatorNotModelled, match="trnsim_test::nowhere is not modelled"):
        torch.ops.trnsim_test.nowhere(torch.ones(2, device="neuron"))


def test_an_operator_that_python_cannot_call_is_named():
    with pytest.raises(OperatorNotModelled, match="aten::none_such is not modelled on the neuron"):
        host_kernels._named_kernels("aten::none_such")


def test_every_operator_with_a_cpu_kernel_has_one_here():
    missing = [
        name
        for name in pytorch.operators()
        if name.startswith("aten::")
        and pytorch.has_kernel(name, "CPU")
        and not pytorch.has_kernel(name, "PrivateUse1")
        and pytorch.overload(name) is not None
    ]
    # Views that PyTorch makes for strided CPU tensors alone: sparse, nested and MKL-DNN ones.
    assert len(missing) < 15, missing


FIRST_USES = {
    "a tensor": "torch.ones(2, device='neuron')",
    "an operator without tensors": "torch.tril_indices(2, 2, device='neuron')",
    "a composite of the CPU": "torch.nn.functional.embedding(torch.ones(1, dtype=torch.long, "
    "device='neuron'), torch.eye(2, device='neuron'))",
}


@pytest.mark.slow
@pytest.mark.parametrize("use", FIRST_USES.values(), ids=FIRST_USES)
def test_the_first_use_of_the_device_registers_kernels(use):
    program = f"""
import torch
from trnsim.torch import pytorch
from trnsim.torch.api.memory import placement_listeners
assert not pytorch.has_kernel("aten::tril_indices", "PrivateUse1") and placement_listeners
assert {use}.device.type == "neuron"
assert pytorch.has_kernel("aten::tril_indices", "PrivateUse1") and not placement_listeners
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)


@pytest.mark.slow
def test_two_threads_that_use_the_device_first_both_find_its_kernels():
    program = """
import threading
import torch
values = [None, None]
def use(index):
    values[index] = float(torch.linalg.vector_norm(torch.ones(4, device="neuron")))
threads = [threading.Thread(target=use, args=(index,)) for index in range(2)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
assert values == [2, 2], values
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)
