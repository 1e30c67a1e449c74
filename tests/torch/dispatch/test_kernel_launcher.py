"""The launcher of kernels that NKI receives; what it launches is tested beside `launches`."""

from types import ModuleType

import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

import nki
import nki.isa as nisa
import nki.language as nl

from trnsim.device.device_core import device_core
from trnsim.nki import kernel
from trnsim.nki.kernel import launchers
from trnsim.torch.dispatch import kernel_launcher


@nki.jit
def kept(x):
    return nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)


def test_nki_has_it_once():
    assert launchers.count(kernel_launcher.launch) == 1


def test_it_is_asked_before_the_launchers_of_other_frameworks():
    module = ModuleType("kernel")
    module.launchers = ["of JAX"]
    kernel_launcher._add_launcher(module)
    assert module.launchers == [kernel_launcher.launch, "of JAX"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:one core writes")  # both of a logical core's write the result
def test_pytorchs_compiler_traces_it_before_the_launchers_of_other_frameworks(monkeypatch):
    @nki.jit
    def doubled(x):
        tile = nl.load(x)
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out, src=tile)
        return out

    @torch.compiler.disable
    def other(*_):
        raise AssertionError("the launcher of another framework was asked")

    monkeypatch.setenv("NEURON_LOGICAL_NC_CONFIG", str(device_core().physical_cores))
    monkeypatch.setattr(kernel, "launchers", [other])
    kernel_launcher._add_launcher(kernel)
    x = torch.arange(8.0, device="neuron").reshape(2, 4)
    compiled = torch.compile(lambda x: doubled(x) + 1, backend="neuron")
    assert compiled(x).cpu().tolist() == [[1, 3, 5, 7], [9, 11, 13, 15]]


def test_kernels_on_tensors_of_the_host_are_not_its():
    assert kernel_launcher.launch(kept, (torch.zeros(4, 4),), {}) is NotImplemented
