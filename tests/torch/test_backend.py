import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

import os
import subprocess
import sys

import forked

from trnsim.errors import BadInput, NotModelled
from trnsim.torch import backend, pytorch, versions

STRICT = ("-W", "error::DeprecationWarning")


def anew(program, **environment):
    """What an interpreter of its own gives, for programs that the order of imports is for."""
    return subprocess.run(
        [sys.executable, *STRICT, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | environment,
    )


def python(program, **environment):
    return forked.python(program, *STRICT, **environment)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "autoload"),
    [
        ("import torch; torch.ones(2, device='neuron')", "1"),
        ("import torch_neuronx, torch; torch.ones(2, device='neuron')", "1"),
        ("import torch_neuron, torch; torch.ones(2, device='neuron')", "0"),
        ("import trnsim, sys; assert 'torch' not in sys.modules", "1"),
        ("import torch, sys; assert 'trnsim.fabric.collective_time' not in sys.modules", "1"),
        ("import torch, sys; assert 'trnsim.document.answer' not in sys.modules", "1"),
        ("import torch, sys; assert 'trnsim.instance.state' not in sys.modules", "1"),
    ],
)
def test_every_way_to_import_it(program, autoload):
    done = anew(program, TORCH_DEVICE_BACKEND_AUTOLOAD=autoload)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
@pytest.mark.parametrize("autoload", ["1", "0"])
def test_it_is_imported_after_pytorch(autoload):
    program = "import torch, torch_neuron; torch.ones(2, device='neuron')"
    done = python(program, TORCH_DEVICE_BACKEND_AUTOLOAD=autoload)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
@pytest.mark.parametrize("before", ["enable", "disable"])
def test_collections_are_on_or_off_as_before(before):
    program = (
        f"import gc; gc.{before}(); import torch; assert gc.isenabled() == {before == 'enable'}"
    )
    done = anew(program)
    assert (done.returncode, done.stderr) == (0, "")


def test_autoload_can_be_turned_off():
    done = python("import torch; torch.device('neuron')", TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert "neuron" in done.stderr
    assert done.returncode == 1


def test_an_untested_pytorch_is_refused_by_name():
    for found in ("2.12.1", "2.14.0+cpu", "3.0"):
        with pytest.raises(NotModelled, match=r"torch>=2\.13,<2\.14") as caught:
            versions.check(found)
        assert f"PyTorch {found} is installed" in str(caught.value)
        assert caught.value.fix == "pip install 'torch>=2.13,<2.14'"
    versions.check("2.13.1+cu132")


UNTESTED = """
import torch
torch.__version__ = "2.99.0"
torch.__spec__._initializing = True
torch._import_device_backends()  # the last thing that `import torch` does
torch.__spec__._initializing = False
print(torch.ones(2).sum().item())
try:
    import torch_neuron
except Exception as error:
    print(error)
"""


def test_on_an_untested_pytorch_torch_works_and_our_name_raises():
    done = python(UNTESTED, TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("2.0\nPyTorch 2.99.0 is installed")
    assert "torch.device('neuron') is not available: PyTorch 2.99.0" in done.stderr


def test_a_second_registration_does_nothing():
    backend.register()
    assert pytorch.backend_name() == "neuron"


def test_another_backend_is_named(monkeypatch):
    monkeypatch.setattr(backend, "_is_registered", [])
    with pytest.raises(BadInput, match="'neuron' has taken it"):
        backend.register()


@pytest.mark.slow
def test_trnsim_autoload_registers_nothing():
    program = """
import torch
print(torch.accelerator.current_accelerator(), hasattr(torch, "neuron"))
import torch_neuronx
print(torch.ones(2, device="neuron").device)
"""
    done = python(program, TRNSIM_AUTOLOAD="0")
    assert (done.stdout, done.stderr) == ("None False\nneuron:0\n", "")


SAID = (
    "trnsim: the accelerator of this program is the emulated device 'neuron', as PyTorch has no "
    "other (TRNSIM_AUTOLOAD=0 leaves it out)\n"
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("import torch; [torch.accelerator.current_accelerator() for _ in range(2)]", SAID),
        ("import torch; torch.ones(2) + 1", ""),
        (
            "import torch; torch.ones(2, device='neuron'); torch.accelerator.current_accelerator()",
            "",
        ),
        ("import torch\nwith torch.random.fork_rng(): torch.rand(2)", ""),
        (
            """import torch; from torch.utils.checkpoint import checkpoint
checkpoint(torch.sin, torch.ones(2, requires_grad=True), use_reentrant=False)""",
            "",
        ),
    ],
)
def test_a_program_that_never_named_the_device_is_told_once(program, said):
    # Of several devices PyTorch's own fork_rng warns where none of them is named.
    done = python(program, NEURON_RT_NUM_CORES="1")
    assert (done.returncode, done.stderr) == (0, said)


@pytest.mark.slow
def test_a_program_that_imports_the_device_first_has_named_it():
    done = anew("import torch_neuronx, torch; torch.accelerator.current_accelerator()")
    assert (done.returncode, done.stderr) == (0, "")


COMPILED = """
import torch
import torch._dynamo.utils as dynamo
function = torch.compile(lambda x: x @ x, backend="eager")
function(torch.ones(4, 4))
print(dict(dynamo.counters["frames"]), dict(dynamo.counters["graph_break"]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("autoload", ["1", "0"])
def test_a_program_of_the_host_is_compiled_as_if_the_device_were_not_there(autoload):
    done = python(
        "import warnings; warnings.simplefilter('error')\n" + COMPILED, TRNSIM_AUTOLOAD=autoload
    )
    assert (done.stdout, done.stderr) == ("{'total': 1, 'ok': 1} {}\n", "")


ANOTHER = """
import types, torch
calls = []
torch.cuda.is_available = lambda: True
torch.cuda.set_device = lambda index: calls.append(index)
torch.cuda.current_device = lambda: 3
print(torch.accelerator.current_accelerator(), torch.accelerator.current_device_index())
torch.accelerator.set_device_index(1)
print(calls, torch.ones(2, device="neuron").device, torch.neuron.is_available())
library = types.ModuleType("accelerate.utils.imports")
library.is_neuron_available = torch.neuron.is_available
from trnsim.torch.clients import accelerate
accelerate.apply(library)
print(library.is_neuron_available())
"""


@pytest.mark.slow
def test_another_accelerator_stays_the_default():
    done = python(ANOTHER)
    assert done.stdout == "cuda 3\n[1] neuron:0 True\nFalse\n"
    assert done.stderr == (
        "trnsim: the device 'neuron' is there by name alone; the accelerator stays 'cuda' "
        "(TRNSIM_AUTOLOAD=0 leaves it out)\n"
    )


@pytest.mark.slow
def test_unknown_numerics_are_refused_with_the_legal_ones():
    for program in ("import torch_neuronx", "import torch; torch.device('neuron')"):
        done = python(program, TRNSIM_NUMERICS="exactly")
        assert done.returncode == 1
        assert "TRNSIM_NUMERICS='exactly'; legal: fast, exact, shapes" in done.stderr
