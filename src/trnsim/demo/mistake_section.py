"""2 Mistake: a kernel that the chip's compiler refuses, refused here at its own line."""

from __future__ import annotations

from typing import Any

import numpy as np

from trnsim.demo import examples
from trnsim.document.answer import Block, Note
from trnsim.errors import EmulatorError
from trnsim.runner import run


def mistake_blocks(target: str = "trn2", kernel: Any = None) -> list[Block]:
    """The line, the fault, the legal values, and the source of the rule."""
    wrong_kernel = examples.module("mistake").mistake if kernel is None else kernel
    a, b = np.ones((128, 128), np.float32), np.ones((128, 512), np.float32)
    try:
        run(wrong_kernel, a, b, target=target)
    except EmulatorError as error:
        line = error.line
        location = f"{examples.short_path(line.file)}:{line.line}" if line else "?"
        return [Note(f"2 Mistake   {location}  {error.reason}  ({error.source})", hanging=12)]
    return [Note("2 Mistake   none: the kernel is legal")]
