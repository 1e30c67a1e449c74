"""Stored programs of small functions, traced and not compiled."""

import pytest
import torch

from trnsim.torch.traces.fx_program import Calls
from trnsim.torch.traces.script_module import script_module
from trnsim.torch.traces.stored import StoredProgram, StoredTensor
from trnsim.torch.traces.structure import forward_text
from trnsim.torch.traces.tracing import trace_function


def program_of(function, example, **members):
    traced = trace_function(function, example)
    calls = Calls(traced.module, traced.values)
    program = StoredProgram(
        **{
            "title": traced.title,
            "traced_at": "model.py:3",
            "target": "trn2",
            "cores": 2,
            "flags": [],
            "weights": {name: StoredTensor.of(t) for name, t in traced.weights.items()},
            "inputs": {name: StoredTensor.of(t) for name, t in traced.inputs.items()},
            "calls": calls.calls,
            "outputs": calls.outputs,
            "places": calls.places,
            **members,
        }
    )
    return traced, program


def module_of(function, example, **members):
    traced, program = program_of(function, example, **members)
    text = forward_text(
        traced.parameters, traced.arguments, traced.results, ["r = self.neuron_0(a)"]
    )
    parts = {"neuron_0": (program.to_bytes(), list(traced.weights.values()))}
    return script_module(traced.title, parts, text)


class Scaled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.tensor([2.0, -3.0]))

    def forward(self, x):
        return x * self.weight


@pytest.fixture
def scaled():
    return program_of(Scaled(), torch.ones(2, 2))[1]


@pytest.fixture
def scaled_module():
    return module_of(Scaled(), torch.ones(2, 2))


@pytest.fixture
def stored():
    return program_of


@pytest.fixture
def traced_module():
    return module_of
