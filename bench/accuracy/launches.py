"""A kernel with its arguments, ready to run."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import trnsim
from trnsim.nki.notices import SimulatorOnlyWarning, as_simulator


@dataclass(frozen=True)
class Launch:
    """A kernel, the chip and the arguments.

    Attributes:
        kernel: an `@nki.jit` kernel.
        target: the chip.
        arguments: by name; arrays need no values.
        cores: the size of the logical core.
    """

    kernel: Any
    target: str
    arguments: dict[str, Any]
    cores: int = 1

    def run(self):
        """The run, without values.

        AWS measured these kernels, so what its tools accept is accepted: an enumeration's member by
        name, and two cores that write the same values to the same bytes.
        """
        kernel = self.kernel[self.cores] if self.cores > 1 else self.kernel
        arguments = {
            name.removesuffix(".must_alias_input"): value for name, value in self.arguments.items()
        }
        with as_simulator(True), warnings.catch_warnings():
            warnings.simplefilter("ignore", SimulatorOnlyWarning)
            return trnsim.run(
                kernel,
                target=self.target,
                numerics=False,
                races="warn",
                kernel_kwargs=arguments,
            )
