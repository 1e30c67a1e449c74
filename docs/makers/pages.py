"""Pages of docs that are made from the source: `make docs` writes them, tests/test_pages.py reads.

A maker beside this file has the name of its page; it imports trnsim, which imports no maker.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

import accuracy_collectives
import how_true
import instruction_set
import jax_ops
import ncc_errors
import torch_xla_oracle
import user_files

if TYPE_CHECKING:
    from collections.abc import Callable

DOCS: Final = Path(__file__).parents[1]
GENERATED: Final = DOCS / "generated"
MAKERS: Final[dict[str, Callable[[], str]]] = {
    "how-true.md": how_true.page,
    "ncc-errors.md": ncc_errors.page,
    "jax-ops.md": jax_ops.page,
    "accuracy-collectives.md": accuracy_collectives.page,
    "user-files.md": user_files.page,
    "torch-xla-oracle.md": torch_xla_oracle.page,
}
"""Path below docs/generated -> what makes it of the source."""


@cache
def instructions() -> dict[str, str]:
    """Path below docs/generated -> the text, of the pages of the instruction set."""
    return {f"isa/{name}": text for name, text in instruction_set.pages().items()}


def made(name: str) -> str:
    """The text of the page whose path below docs/generated is `name`."""
    return MAKERS[name]() if name in MAKERS else instructions()[name]


def rewrite() -> None:
    """Write every page that the source makes; those of instructions that are gone go."""
    folder = GENERATED / "isa"
    folder.mkdir(exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    for name in (*instructions(), *MAKERS):
        (GENERATED / name).write_text(made(name), encoding="utf-8")


if __name__ == "__main__":
    rewrite()
