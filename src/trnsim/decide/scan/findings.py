"""What a scan finds: places in a program that another accelerator does not run as they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

__all__ = ["EFFORTS", "KINDS", "Effort", "Kind", "ScanFinding", "ScanFindings"]

Kind = Literal["cuda", "triton", "package", "operator", "device", "unreadable"]
"""Kernels in CUDA, kernels in Triton, packages of CUDA, operators that no lowering is known of,
calls that name a device, and files that are no program."""

Effort = Literal["S", "M", "L"]
"""Lines to change, a part to exchange, a kernel to write again."""

KINDS: Final[tuple[Kind, ...]] = ("cuda", "triton", "package", "operator", "device", "unreadable")
EFFORTS: Final[tuple[Effort, ...]] = ("S", "M", "L")


@dataclass(frozen=True, order=True)
class ScanFinding:
    """One place.

    Attributes:
        file: relative to the root of the scan.
        line: from 1.
        what: the name that stands there ("flash_attn", "torch.linalg.svd").
        advice: what to do about it.
    """

    file: str
    line: int
    kind: Kind
    name: str
    effort: Effort
    advice: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.name} ({self.effort}): {self.advice}"


@dataclass(frozen=True)
class ScanFindings:
    """All places of a program.

    Attributes:
        places: in the order of files and lines.
        files: how many were read.
        lowered: calls of PyTorch's operators that the compiler has a lowering for.
        unlowered: those that it has none for.
        unknown: names of PyTorch's functions that no table here knows, each once.
        frameworks: those that are imported: "jax", "pytorch", "tensorflow".
    """

    places: tuple[ScanFinding, ...] = ()
    files: int = 0
    lowered: int = 0
    unlowered: int = 0
    unknown: tuple[str, ...] = ()
    frameworks: tuple[str, ...] = ()

    @property
    def effort(self) -> Effort | None:
        """The largest of all places; None where nothing is in the way."""
        efforts = {place.effort for place in self.places if place.kind != "unreadable"}
        return next((effort for effort in reversed(EFFORTS) if effort in efforts), None)

    def of(self, kind: Kind) -> tuple[ScanFinding, ...]:
        """The places of one kind."""
        return tuple(place for place in self.places if place.kind == kind)
