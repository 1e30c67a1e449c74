"""Parts that a framework adds to the report of a program's last step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    from trnsim.document.answer import Block


class ReportPart(Protocol):
    """A part of a step's report, with the heading of its blocks."""

    heading: str

    def rows(self) -> list[tuple[str, str]]:
        """Rows of a label and text for the summary."""
        ...

    def blocks(self, target: str) -> Sequence[Block]:
        """Blocks of the document."""
        ...

    def values(self, target: str) -> dict[str, Any]:
        """The same as values of the document, by the names of their fields in its schema."""
        ...


report_parts: Final[list[Callable[[], ReportPart]]] = []
"""Functions that make the parts: a report's modules are loaded when one is written."""
