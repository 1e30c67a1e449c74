"""A program for each documented error that can arise here: run under TRNSIM_POLICY=chip, it does.

What PyTorch has an operator for is said in PyTorch, the rest in the graph's own language.
"""

from __future__ import annotations

from textwrap import dedent
from typing import Final


def _compiled(function: str, given: str, options: str = "") -> str:
    """A function of `x` compiled for the device, and its call."""
    more = f", {options}" if options else ""
    return dedent(f"""\
        import torch


        @torch.compile(backend="neuron"{more})
        def function(x):
            return {function}


        function({given}.to("neuron"))
        """)


def _of_graph(building: str, arguments: str = '"trn2"', imports: str = "") -> str:
    """A graph, and the first of what is refused of it."""
    lines = [
        "from trnsim.compiler import Flags",
        "from trnsim.compiler.ncc.refusals import refusals",
        "from trnsim.graph import Graph",
        *dedent(imports).splitlines(),
        "",
        "graph = Graph()",
        *dedent(building).strip().splitlines(),
        f"raise refusals(graph, {arguments})[0].error()",
        "",
    ]
    unused = [] if "Flags(" in arguments else [lines[0]]
    return "\n".join(line for line in lines if line not in unused)


_STRICT: Final = 'options={"implicit_integer_downcast": "none"}'
_STRICTLY: Final = '"trn2", Flags(implicit_integer_downcast=())'
_PLANNED: Final = '"trn2", plan=memory_plan(graph), hbm_bytes=12 * 2**30'
_PLAN: Final = "from trnsim.lower import memory_plan"
_CONVOLUTION: Final = "from trnsim.graph.ops.contraction import Convolution"
_GROUP: Final = "((0, 1, 2, 3),)"

PROGRAMS: Final = {
    "NCC_EARG001": _of_graph("", '"trn1", Flags(logical_nc_config=2)'),
    "NCC_EMOD025": _compiled("x + x", "torch.ones(6)", "dynamic=True"),
    "NCC_EOOM001": _of_graph(
        """
        x = graph.input((65536, 65536), "bfloat16")  # 8 GiB
        sums = graph.scan("add", x)  # 8 GiB
        graph.outputs = [graph.reduce("maximum", sums, (1,))]
        """,
        _PLANNED,
        _PLAN,
    ),
    "NCC_ESFH002": _compiled(
        "torch.full((3,), 5_000_000_000, dtype=torch.uint64).to(x.device) + x.to(torch.uint64)",
        "torch.ones(3)",
    ),
    "NCC_ESPP004": _compiled("x.double() * 2", "torch.ones(4)"),
    "NCC_ESPP047": _compiled("x.to(torch.float8_e8m0fnu).float()", "torch.ones(4)"),
    "NCC_EVRF001": _compiled("torch.ops.aten.triangular_solve(x, x)[0]", "torch.eye(4)"),
    "NCC_EVRF004": _compiled("(x * 1j).abs()", "torch.ones(4)"),
    "NCC_EVRF005": _compiled("x.to(torch.float8_e4m3fnuz).float()", "torch.ones(4)"),
    "NCC_EVRF007": _of_graph("", '"trn2", instructions=5_000_001'),
    "NCC_EVRF009": _of_graph(
        """
        x = graph.input((65536, 65536), "float32")  # 16 GiB
        graph.outputs = [graph.reduce("maximum", x, (1,))]
        """,
        _PLANNED,
        _PLAN,
    ),
    "NCC_EVRF010": _compiled(
        "torch.nn.functional.conv_transpose2d(x, x, stride=2, dilation=2)",
        "torch.ones(1, 1, 3, 3)",
    ),
    "NCC_EVRF011": _of_graph(
        """
        x, w = graph.input((1, 3, 9), "float32"), graph.input((2, 3, 2), "float32")
        by_two = Convolution(strides=(2,), low=(0,), high=(0,), gaps=(1,), dilations=(1,))
        graph.outputs = [graph.apply(by_two, x, w)]
        """,
        imports=_CONVOLUTION,
    ),
    "NCC_EVRF013": _compiled("torch.topk(x, 2).values", "torch.arange(8)"),
    "NCC_EVRF016": _compiled(
        'torch.zeros_like(x).scatter_reduce(0, x.long(), x, "sum")',
        "torch.arange(4, dtype=torch.int32)",
    ),
    "NCC_EVRF018": _compiled(
        "torch.nn.functional.max_pool2d(x, 2, dilation=2)", "torch.ones(1, 1, 6, 6)"
    ),
    "NCC_EVRF022": _compiled(
        "torch.bitwise_right_shift(x, 1)", "torch.tensor([16, 32], dtype=torch.int16)"
    ),
    "NCC_EVRF031": _compiled(
        "torch.zeros(3, 4, device=x.device).index_add(0, torch.arange(10, device=x.device), x)",
        "torch.ones(10, 4)",
    ),
    "NCC_EVRF035": _compiled("x @ x", "torch.ones(4, 4, dtype=torch.int32)", _STRICT),
    "NCC_EVRF051": _compiled("x.to(torch.float8_e4m3fn).float()", "torch.ones(4)"),
    "NCC_EVRF056": _compiled("x[torch.arange(10, device=x.device)]", "torch.ones(3, 4)"),
    "NCC_EVRF060": _compiled(
        "torch.zeros_like(x).scatter_add(0, x, x)", "torch.arange(4)", _STRICT
    ),
    "NCC_EVRF061": _of_graph(
        f"""
        x = graph.input((8, 6), "int32")
        graph.outputs = [graph.apply(AllReduce({_GROUP}), x)]
        """,
        _STRICTLY,
        "from trnsim.graph.ops.collectives import AllReduce",
    ),
    "NCC_EVRF062": _compiled("x**x", "torch.arange(4)", _STRICT),
    "NCC_EVRF063": _of_graph(
        f"""
        x = graph.input((8, 6), "int32")
        graph.outputs = [graph.apply(ReduceScatter({_GROUP}), x)]
        """,
        _STRICTLY,
        "from trnsim.graph.ops.collectives import ReduceScatter",
    ),
    "NCC_EVRF066": dedent("""\
        import nki
        import nki.language as nl
        import torch


        @nki.jit
        def copied(x):
            out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
            nl.store(out, nl.load(x))
            return out


        @torch.compile(backend="neuron")
        def function(x):
            return copied(x)  # LNC=1, and neuronx-cc compiles for LNC=2


        function(torch.ones(4, 4).to("neuron"))
        """),
    "NCC_EXSP001": _of_graph(
        """
        x, y = graph.input((65536, 1), "float32"), graph.input((1, 65536), "float32")
        outer = graph.dot_general(x, y, (1, 0))  # 16 GiB
        graph.outputs = [graph.reduce("maximum", graph.scan("add", outer), (1,))]
        """,
        _PLANNED,
        _PLAN,
    ),
}
"""By code."""
