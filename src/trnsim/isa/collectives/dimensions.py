"""Checks of collectives: the dimension along which tensors are joined or split, and their sizes."""

from __future__ import annotations

from trnsim.isa.collectives.collective import Collective
from trnsim.isa.language.instruction import SBUF


def check_dimension(instruction: Collective, dim: int, on_chip: tuple[int, ...]) -> None:
    """Refuse a `collective_dim` other than 0; for tensors in SBUF, one that is not in `on_chip`."""
    memory = instruction.sources()[0].memory
    legal = on_chip if memory is SBUF else (0,)
    if dim not in legal:
        instruction.refuse(
            f"collective_dim={dim} of tensors in {memory.value}; legal there: "
            f"{' or '.join(map(str, legal))}",
            "transpose or reshape the tensors so that it is the first dimension",
        )


def check_elements(instruction: Collective, multiple: int, divisor: int, dim: int = 0) -> None:
    """Refuse unless each destination is `multiple / divisor` times as large as its source.

    In HBM, where the first dimension is the slowest, only the number of elements counts. In SBUF
    the length of dimension `dim` has that ratio, and the other dimension is equal.
    """
    for source, target in zip(instruction.sources(), instruction.targets(), strict=True):
        if source.memory is SBUF:
            expected = list(source.shape)
            expected[dim] = expected[dim] * multiple // divisor
            is_legal = (
                tuple(expected) == target.shape and not source.shape[dim] * multiple % divisor
            )
        else:
            is_legal = source.pattern.elements * multiple == target.pattern.elements * divisor
        if not is_legal:
            instruction.refuse(
                f"a source is {source} and its destination {target}; legal: a destination "
                f"{_times(multiple, divisor)} as the source"
                + (f" along dimension {dim}" if source.memory is SBUF else ""),
                "allocate the destination for the number of ranks in the group",
            )


def _times(multiple: int, divisor: int) -> str:
    """The ratio of a destination's size to its source's, in words."""
    if multiple == divisor:
        return "as large"
    if multiple > divisor:
        return f"{multiple // divisor} times as large"
    return f"1/{divisor // multiple} as large"
