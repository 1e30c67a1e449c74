"""`nki.compiler.frontend`: a check of kernels by tracing, which here means running them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trnsim.nki.kernel import default_target, jit
from trnsim.runner import run
from trnsim.runs import Run


class NKIFrontend:
    """The compiler's frontend: a Python kernel becomes a program."""

    def compile(
        self,
        kernel: Any,
        inputs: Mapping[str, Any] | None = None,
        target: str | None = None,
        lnc: int = 1,
        **options: Any,
    ) -> Run:
        """The kernel's run for `target`, on `lnc` cores.

        Raises:
            EmulatorError: where the chip or its compiler would refuse the kernel.
        """
        del options  # where to put artifacts, and how to name them
        return run(
            jit(kernel)[lnc],
            target=target or default_target(),
            races="warn",
            kernel_kwargs=dict(inputs or {}),
        )


class ParserFrontend(NKIFrontend):
    """The vendor's older frontend; kernels run the same way here."""


class TracerFrontend(NKIFrontend):
    """The vendor's newer frontend; kernels run the same way here."""
