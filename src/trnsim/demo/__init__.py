"""The demo: five things that trnsim does, each computed when it is printed."""

from trnsim.demo.claims import claims_lines
from trnsim.demo.cost import cost_lines
from trnsim.demo.kernel import KernelShow, show_kernel
from trnsim.demo.mistake import mistake_lines
from trnsim.demo.training import training_lines

__all__ = [
    "KernelShow",
    "claims_lines",
    "cost_lines",
    "mistake_lines",
    "show_kernel",
    "training_lines",
]
