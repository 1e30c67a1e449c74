import subprocess
import sys

import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

from trnsim.graph import Graph
from trnsim.lower import memory_plan
from trnsim.torch.compile.compiled_graph import CompiledGraph


def test_two_graphs_that_do_the_same_are_two():
    graph = Graph()
    one, other = (
        CompiledGraph("forward-0", (), graph, memory_plan(graph), (), (), "") for _ in range(2)
    )
    assert one != other
    assert one.operation == "forward-0"


def test_the_device_loads_without_pytorchs_compiler():
    code = "import sys, torch, torch_neuron; print('torch._dynamo' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
