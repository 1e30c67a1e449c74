"""The demo: five things that trnsim does, each computed when it is printed."""

from trnsim.demo.claims_section import claims_lines
from trnsim.demo.cost_section import cost_lines
from trnsim.demo.kernel_section import KernelShow, show_kernel
from trnsim.demo.mistake_section import mistake_lines
from trnsim.demo.training_section import training_lines

__all__ = [
    "KernelShow",
    "claims_lines",
    "cost_lines",
    "mistake_lines",
    "show_kernel",
    "training_lines",
]
