# nki: 0.6
import io

import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

import nki.language as nl

from trnsim.device.call_log import recording
from trnsim.device.step_time import step_time
from trnsim.xla.neuronx.kernels import KernelRefused, nki_jit
from trnsim.xla.neuronx.trace import compile_function, trace

X = torch.rand(8, 4)

pytestmark = pytest.mark.slow  # it compiles programs


@nki_jit
def add(a, b):
    result = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nl.store(result, value=nl.add(nl.load(a), nl.load(b)))
    return result


def test_a_kernel_runs_on_the_device_and_is_timed():
    with recording() as log:
        result = add(X.to("neuron"), X.to("neuron"))
    torch.testing.assert_close(result.cpu(), 2 * X)
    assert step_time(log, "trn2").device_time_s > 0


def test_a_kernel_is_a_part_of_a_traced_program():
    compiled = compile_function(lambda x: add(x, x) * 3, X, {})
    alone = compile_function(lambda x: x * 3, X, {})
    assert compiled.report.time_s > alone.report.time_s
    torch.testing.assert_close(compiled.script_module()(X), 6 * X)


@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
def test_a_module_that_calls_a_kernel_is_not_saved_by_its_name():
    traced = trace(lambda x: add(x, x), X)
    with pytest.raises(RuntimeError, match="calls the NKI kernel add is not saved"):
        torch.jit.save(traced, io.BytesIO())


def test_every_spelling_gives_a_kernel():
    def kernel(a):
        return a

    assert nki_jit(add) is add
    assert type(nki_jit()(kernel)) is type(nki_jit(kernel, mode="torchxla")) is type(add)


def test_a_kernel_of_the_first_generation_is_refused_by_its_name():
    def flash_fwd():
        pass

    flash_fwd.__module__ = "neuronxcc.nki.kernels.attention"
    with pytest.raises(
        KernelRefused, match=r"nki.kernels.attention.flash_fwd, a kernel of NKI 0.1"
    ):
        nki_jit()(flash_fwd)
