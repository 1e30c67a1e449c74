import importlib

import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

import torch_neuronx

import trnsim.torch
from trnsim.xla.neuronx import lazy_names, trace


def test_names_of_the_tracing_api_and_of_the_device_are_there():
    assert torch_neuronx.trace is trace.trace
    assert torch_neuronx.nki is trnsim.torch.nki
    assert torch_neuronx.nki_op is trnsim.torch.nki_op
    assert torch_neuronx.autoload is trnsim.torch.autoload
    assert importlib.import_module("torch_neuronx.distributed") is not None
    assert torch_neuronx.__version__.startswith("2")


def test_a_name_that_never_was_is_absent():
    assert not hasattr(torch_neuronx, "no_such_name")
    with pytest.raises(ImportError):
        from torch_neuronx import no_such_name


def test_an_absent_name_says_what_is_there_instead():
    get = lazy_names.serve("torch_neuronx.x", __name__, {"a": "math:pi"}, {"b": ("why", "that")})
    assert get("a") == importlib.import_module("math").pi
    with pytest.raises(AttributeError, match=r"(?s)torch_neuronx.x.b: why.*fix: that"):
        get("b")
    with pytest.raises(AttributeError):
        get("c")
