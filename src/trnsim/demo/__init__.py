"""The demo: five things that trnsim does, each computed when it is printed."""

from trnsim.demo.claims_section import claims_blocks
from trnsim.demo.cost_section import cost_blocks
from trnsim.demo.kernel_section import KernelShow, show_kernel
from trnsim.demo.mistake_section import mistake_blocks
from trnsim.demo.training_section import training_blocks

__all__ = [
    "KernelShow",
    "claims_blocks",
    "cost_blocks",
    "mistake_blocks",
    "show_kernel",
    "training_blocks",
]
