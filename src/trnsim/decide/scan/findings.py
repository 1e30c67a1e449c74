"""Findings of a scan: code that another accelerator does not run unchanged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

__all__ = ["EFFORTS", "KINDS", "Effort", "Kind", "ScanFinding", "ScanFindings"]

Kind = Literal["cuda", "triton", "package", "operator", "device", "unreadable"]
"""Kernels in CUDA, kernels in Triton, packages of CUDA, operators without a known lowering,
calls that name a device, and files that cannot be read as programs."""

Effort = Literal["S", "M", "L"]
"""Lines to change, a part to replace, a kernel to rewrite."""

KINDS: Final[tuple[Kind, ...]] = ("cuda", "triton", "package", "operator", "device", "unreadable")
EFFORTS: Final[tuple[Effort, ...]] = ("S", "M", "L")


@dataclass(frozen=True, order=True)
class ScanFinding:
    """A finding in a program.

    Attributes:
        file: path relative to the root of the scan.
        line: line number from 1.
        what: name in the code ("flash_attn", "torch.linalg.svd").
        advice: remedy.
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
        files: number of files read.
        lowered: calls of PyTorch's operators that the compiler lowers.
        unlowered: calls of operators that it does not lower.
        unknown: names of PyTorch's functions that no table here has, each once.
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
        """Largest effort of all findings; None without findings."""
        efforts = {place.effort for place in self.places if place.kind != "unreadable"}
        return next((effort for effort in reversed(EFFORTS) if effort in efforts), None)

    def of(self, kind: Kind) -> tuple[ScanFinding, ...]:
        """Findings of a kind."""
        return tuple(place for place in self.places if place.kind == kind)
