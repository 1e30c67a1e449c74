"""Optimizers of training: bytes and FLOPs of their state and of an update."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final


@dataclass(frozen=True)
class Optimizer:
    """State and traffic of an optimizer for each parameter.

    Attributes:
        name: its name in options.
        master_bytes: bytes of a float32 copy of the parameter; 0 if bfloat16 is updated in place.
        flop: multiplications and additions of an update.
    """

    name: str
    master_bytes: float
    moment_bytes: float
    flop: float
    source: str

    @property
    def state_bytes(self) -> float:
        """Bytes of optimizer state for each parameter."""
        return self.master_bytes + self.moment_bytes

    def moved_bytes(self, weight_bytes: float = 2, gradient_bytes: float = 4) -> float:
        """Bytes of a parameter's update that cross HBM.

        State is read and written, the gradient is read, the parameter is written, and read where
        there is no copy in float32.
        """
        read_bytes = 0 if self.master_bytes else weight_bytes
        return 2 * self.state_bytes + gradient_bytes + weight_bytes + read_bytes


_ZERO_SOURCE = "ZeRO (arXiv:1910.02054), section 3.1: a copy and two moments in float32, K = 12"
OPTIMIZERS: Final = {
    optimizer.name: optimizer
    for optimizer in (
        Optimizer("adamw", 4, 8, 14, _ZERO_SOURCE),
        Optimizer(
            "adamw-bf16", 0, 4, 14, "moments as short as weights, rounded by chance: no copy"
        ),
        Optimizer("sgd", 4, 4, 4, "a copy and one momentum in float32"),
        Optimizer("lamb", 4, 8, 20, "LAMB (arXiv:1904.00962), algorithm 2: the moments of Adam"),
        Optimizer(
            "adafactor",
            4,
            0,
            14,
            "Adafactor (arXiv:1804.04235), section 3: sums of a matrix's rows and columns stand "
            "for its second moment; they are left out, thousandths of a byte a parameter",
        ),
    )
}
"""Optimizers by name, with weights in bfloat16."""


def optimizer_for(name: str, dtype: str) -> Optimizer:
    """The optimizer `name` where products have `dtype`; weights in float32 need no copy."""
    optimizer = OPTIMIZERS[name]
    return replace(optimizer, master_bytes=0) if dtype == "fp32" else optimizer
