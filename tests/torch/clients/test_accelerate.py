import sys
from types import ModuleType

import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

from trnsim.torch.api import accelerator as torch_accelerator
from trnsim.torch.clients import accelerate


def served(answer, monkeypatch):
    """accelerate's module, and one that took the name before it was served."""
    asked = []

    def is_neuron_available(check_device=False):
        asked.append(check_device)
        return answer

    imports, state = ModuleType("accelerate.utils.imports"), ModuleType("accelerate.state")
    imports.is_neuron_available = state.is_neuron_available = is_neuron_available
    monkeypatch.setitem(sys.modules, "accelerate.state", state)
    accelerate.apply(imports)
    assert state.is_neuron_available is imports.is_neuron_available
    return imports.is_neuron_available, asked


def test_the_device_is_there_where_it_is_the_accelerator(monkeypatch):
    ask, asked = served(True, monkeypatch)
    assert ask() is True
    assert ask(check_device=True) is True
    assert asked == [False, True]


def test_what_accelerate_itself_does_not_find_is_not_there(monkeypatch):
    ask, _ = served(False, monkeypatch)
    assert ask() is False


def test_beside_another_accelerator_it_is_there_by_name_alone(monkeypatch):
    ask, _ = served(True, monkeypatch)
    monkeypatch.setattr(torch_accelerator, "builtin_accelerator", lambda: torch.device("cuda"))
    assert ask() is False
    assert torch.neuron.is_available()
