"""The first screen: five things that trnsim does, each computed at the moment it is printed."""

from trnsim.screen.claims import claims_lines
from trnsim.screen.cost import cost_lines
from trnsim.screen.kernel import KernelShow, show_kernel
from trnsim.screen.mistake import mistake_lines
from trnsim.screen.training import training_lines

__all__ = [
    "KernelShow",
    "claims_lines",
    "cost_lines",
    "mistake_lines",
    "show_kernel",
    "training_lines",
]
