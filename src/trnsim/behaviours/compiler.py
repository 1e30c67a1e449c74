"""Options of `nki.jit`, and the degree of logical cores of kernels and graphs."""

from __future__ import annotations

from typing import Final

from trnsim.behaviours.behaviour import Behaviour, existence

CONFIGS: Final = {
    key: existence(
        "0.7",
        f"nki.jit({key}=)",
        "leave it out: values do not depend on it",
        "nki.jit of NKI 0.7",
    )
    for key in ("compile_config", "specialization_config")
}
"""The configurations of a kernel by parameter."""
DEGREE_OF_VARIABLE: Final = Behaviour(
    name="kernel-degree-of-variable",
    since="0.7",
    rule="kernel(...) runs on the number of cores that NEURON_LOGICAL_NC_CONFIG names",
    otherwise="kernel(...) runs on one core, and NEURON_LOGICAL_NC_CONFIG must be 1",
    instead="launch it as kernel[2](...)",
    source="nki.jit of NKI 0.7",
)
ANY_DEGREE_IN_GRAPH: Final = Behaviour(
    name="any-degree-in-graph",
    until="0.7",
    rule="a graph holds kernels of another number of cores than it is compiled for",
    otherwise="kernels of a graph run on as many cores as it is compiled for",
    instead="set NEURON_LOGICAL_NC_CONFIG to 1 or 2, which kernels and graphs follow",
    source="compiler/error-codes/EVRF066",
)

ROWS: Final = tuple(CONFIGS.values())
"""The rows of this family."""
