"""Findings of a scan: code that another accelerator does not run unchanged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Kind = Literal["cuda", "triton", "package", "operator", "device", "unreadable"]
"""Kinds of findings.

CUDA kernels, Triton kernels, packages that need CUDA, operators that the compiler does not lower,
code that names a CUDA device, and files that cannot be read as programs.
"""

Effort = Literal["S", "M", "L"]
"""Effort of a remedy: S, some lines to change; M, a part to replace; L, a kernel to rewrite."""

KINDS: Final[tuple[Kind, ...]] = ("cuda", "triton", "package", "operator", "device", "unreadable")
EFFORTS: Final[tuple[Effort, ...]] = ("S", "M", "L")


@dataclass(frozen=True, order=True)
class ScanFinding:
    """A finding in a program.

    Attributes:
        file: path relative to the root of the scan.
        line: line number from 1.
        what: name in the code ("flash_attn", "torch.linalg.svd"), or the reason of "unreadable".
    """

    file: str
    line: int
    kind: Kind
    what: str
    effort: Effort
    advice: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.what} ({self.effort}): {self.advice}"


@dataclass(frozen=True)
class ScanFindings:
    """Findings in a set of programs.

    Attributes:
        places: findings in the order of files and lines.
        lowered: number of calls of PyTorch's operators that the compiler lowers.
        unlowered: number of calls of operators that it does not lower.
        unknown: PyTorch functions about which `trnsim.decide.scan.operators` knows nothing.
        frameworks: imported frameworks: "jax", "pytorch", "tensorflow".
    """

    places: tuple[ScanFinding, ...] = ()
    files: int = 0
    lowered: int = 0
    unlowered: int = 0
    unknown: tuple[str, ...] = ()
    frameworks: tuple[str, ...] = ()

    @property
    def effort(self) -> Effort | None:
        """Largest effort of all findings of readable files; None without any."""
        efforts = {finding.effort for finding in self.places if finding.kind != "unreadable"}
        return next((effort for effort in reversed(EFFORTS) if effort in efforts), None)

    def of_kind(self, kind: Kind) -> tuple[ScanFinding, ...]:
        """Findings of a kind."""
        return tuple(finding for finding in self.places if finding.kind == kind)
