import copy
import io
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

from trnsim.torch.traces.script_module import is_program, programs_in

X = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
Y = X * torch.tensor([2.0, -3.0])

pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")


def saved(module):
    stream = io.BytesIO()
    torch.jit.save(module, stream)
    stream.seek(0)
    return stream


def test_a_module_computes_saves_and_loads(scaled_module):
    assert isinstance(scaled_module, torch.jit.ScriptModule)
    assert torch.equal(scaled_module(X), Y)
    assert torch.equal(torch.jit.load(saved(scaled_module))(X), Y)


def test_what_is_set_on_a_program_is_saved_with_it(scaled_module):
    (part,) = programs_in(scaled_module)
    part.is_lazy = part.is_batched = True
    (loaded,) = programs_in(torch.jit.load(saved(scaled_module)))
    assert (loaded.is_lazy, loaded.is_async, loaded.is_batched) == (True, False, True)
    assert loaded.instance != part.instance
    assert not loaded.training


def test_a_copy_a_frozen_and_an_enclosing_module_compute_the_same(scaled_module):
    class Twice(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.part = scaled_module

        def forward(self, x):
            return self.part(self.part(x))

    assert torch.equal(copy.deepcopy(scaled_module)(X), Y)
    frozen = torch.jit.load(saved(torch.jit.freeze(scaled_module)))
    assert torch.equal(frozen(X), Y)
    assert torch.equal(torch.jit.script(Twice())(X), Y * torch.tensor([2.0, -3.0]))


def test_other_modules_are_no_programs(scaled_module):
    assert not is_program(torch.nn.Linear(1, 1))
    assert not is_program(scaled_module)
    assert programs_in(torch.nn.Linear(1, 1)) == []


@pytest.mark.slow
def test_a_new_process_needs_no_code_of_the_model(scaled_module, tmp_path):
    path = tmp_path / "scaled.pt"
    torch.jit.save(scaled_module, path)
    program = f"import torch; print(torch.jit.load({str(path)!r})(torch.ones(2, 2)).tolist())"
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert ended.stdout == "[[2.0, -3.0], [2.0, -3.0]]\n"
