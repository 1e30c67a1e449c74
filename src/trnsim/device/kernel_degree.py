"""The degree of kernels in graphs: the number of NeuronCores that run a kernel, and a graph.

Since NKI 0.7 the two must be equal. A kernel's degree is that of its launch grid, else of
NEURON_LOGICAL_NC_CONFIG, else 1; a graph's is that of neuronx-cc (`device_core.compiled_cores`), 2
by default where a chip has logical cores. A kernel that is launched by itself has no graph to
agree with.

Source: compiler/error-codes/EVRF066; nki.jit.
"""

from __future__ import annotations

from trnsim.behaviours.compiler import ANY_DEGREE_IN_GRAPH
from trnsim.compiler import Flags
from trnsim.compiler.ncc.errors import NCC_ERRORS
from trnsim.compiler.ncc.refusals import CompilerRefusal
from trnsim.device.device_core import compiled_cores, target
from trnsim.device.program_line import program_line
from trnsim.errors import SourceLine
from trnsim.nki.kernel import Kernel

_CODE = "NCC_EVRF066"


def check_degree(kernel: Kernel, line: tuple[str, int] | None = None) -> None:
    """Refuse a kernel in a graph that is compiled for another number of cores.

    Args:
        kernel: the kernel.
        line: file and line of its call, where the stack does not show it.

    Raises:
        CompilerRefusal: the numbers differ, unless the kernel's version of NKI is before 0.7.
    """
    if kernel.version().version.follows(ANY_DEGREE_IN_GRAPH):
        return
    kernel_cores, graph_cores = kernel.cores, compiled_cores(target(), Flags.of_environment())
    if kernel_cores == graph_cores:
        return
    title, error = kernel.title, NCC_ERRORS[_CODE]
    raise CompilerRefusal(
        f"{_CODE}: the kernel {title} has LNC={kernel_cores}, and neuronx-cc compiles its graph on "
        f"{target().name} with LNC={graph_cores}; {error.rule}",
        fix=f"{error.fix}; or launch it as {title}[{graph_cores}](...)",
        source=error.source,
        line=SourceLine(*line) if line is not None else program_line(),
    )
