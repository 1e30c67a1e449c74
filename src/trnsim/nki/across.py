"""One program under every version of NKI: where it runs, is refused, or gives other values.

Other values are traced to rows of the table of behaviours, which lists the differences between
versions. Candidates are the rows that the program consulted and that the two versions answer
differently; a candidate is a cause if changing this row alone changes the program's values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

import numpy as np

from trnsim.behaviours import VERSIONS, Behaviour, Version
from trnsim.behaviours.chosen import pinned
from trnsim.errors import EmulatorError

Program = Callable[[], Sequence[Any]]
"""Runs a program and returns the outputs of its kernels, in order."""

_MOST_ROWS: Final = 12
"""Maximum number of rows that are tried alone; further ones are named together."""


class End(Enum):
    """The outcome of a program under a version, compared with the reference version.

    Attributes:
        same: it ran, and its outputs are equal bit for bit.
        other: it ran, and its outputs differ.
        refused: trnsim raised an `EmulatorError`.
        failed: the program raised another exception.
    """

    same = "same values"
    other = "other values"
    refused = "refused"
    failed = "failed"


@dataclass(frozen=True)
class VersionEnd:
    """The outcome of a program under a version.

    Attributes:
        version: the version.
        end: the outcome.
        error: the exception that ended the program; None if it ran to its end.
        causes: the rows of the table of behaviours that explain other values or an error.
    """

    version: Version
    end: End
    error: BaseException | None = None
    causes: tuple[Behaviour, ...] = ()


@dataclass(frozen=True, eq=False)
class WatchedVersion(Version):
    """A version that records which behaviours a run looks up, and may invert some answers.

    Attributes:
        inverted: behaviours whose answer is the opposite of the version's.
        answers: behaviour -> the answer given, in the order of the last look-ups.
    """

    inverted: frozenset[Behaviour] = frozenset()
    answers: dict[Behaviour, bool] = field(default_factory=dict[Behaviour, bool])

    # Identity, so that two watched runs never share an entry of a cache keyed by version.
    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other

    def follows(self, behaviour: Behaviour) -> bool:
        """The version's answer, or its opposite for an inverted behaviour; records the look-up."""
        holds = super().follows(behaviour) != (behaviour in self.inverted)
        self.answers.pop(behaviour, None)
        self.answers[behaviour] = holds
        return holds


def watched_version(version: Version, *inverted: Behaviour) -> WatchedVersion:
    """`version`, watched, with the answers for some behaviours inverted."""
    return WatchedVersion(version.name, version.sdk, version.released, frozenset(inverted))


def outcomes_by_version(
    program: Program, reference: Version, tell: Callable[[str], None] = lambda _text: None
) -> list[VersionEnd]:
    """The outcome of `program` under each version, the oldest first.

    Args:
        program: it is run once for each version, and again for each cause that is tried.
        reference: the version whose outputs are the expected ones.
        tell: progress callback, which receives a line of text before each run.

    Raises:
        Exception: the program's own, under the reference version.
    """
    expected = _outputs(program, reference)
    return [
        VersionEnd(version, End.same)
        if version is reference
        else _run_and_compare(program, version, reference, expected, tell)
        for version in VERSIONS.values()
    ]


def _run_and_compare(
    program: Program,
    version: Version,
    reference: Version,
    expected: Sequence[Any],
    tell: Callable[[str], None],
) -> VersionEnd:
    """The outcome of a program under a version, compared with its outputs under the reference."""
    tell(f"{version}")
    current = watched_version(version)
    try:
        outputs = _outputs(program, current)
    except EmulatorError as error:
        return VersionEnd(version, End.refused, error, _last_refusal(current, reference))
    except (Exception, SystemExit) as error:  # noqa: BLE001  the program's own, which is reported
        return VersionEnd(version, End.failed, error, tuple(differing_rows(current, reference)))
    if equal_outputs(outputs, expected):
        return VersionEnd(version, End.same)
    causes = _causes(program, reference, expected, differing_rows(current, reference), tell)
    return VersionEnd(version, End.other, causes=causes)


def differing_rows(current: WatchedVersion, reference: Version) -> list[Behaviour]:
    """The rows that a run looked up and that the reference answers differently."""
    return [row for row, holds in current.answers.items() if reference.follows(row) != holds]


def _last_refusal(current: WatchedVersion, reference: Version) -> tuple[Behaviour, ...]:
    """The row that a refused run looked up last, if the reference answers it differently."""
    last_lookup = next(reversed(current.answers.items()), None)
    if last_lookup is None or reference.follows(last_lookup[0]) == last_lookup[1]:
        return ()
    return (last_lookup[0],)


def _causes(
    program: Program,
    reference: Version,
    expected: Sequence[Any],
    rows: Sequence[Behaviour],
    tell: Callable[[str], None],
) -> tuple[Behaviour, ...]:
    """The rows whose inversion alone changes the values under the reference.

    All of `rows` if no row alone does, or if there are more than `_MOST_ROWS`.
    """
    if len(rows) > _MOST_ROWS:
        return tuple(rows)
    causes: list[Behaviour] = []
    for row in rows:
        tell(f"{reference} with {row.name} inverted")
        try:
            outputs = _outputs(program, watched_version(reference, row))
        except Exception:  # noqa: BLE001  a run that fails has other values too
            causes.append(row)
            continue
        if not equal_outputs(outputs, expected):
            causes.append(row)
    return tuple(causes or rows)


def _outputs(program: Program, version: Version) -> Sequence[Any]:
    with pinned(version, "--nki all"):
        return program()


def equal_outputs(left: Any, right: Any) -> bool:
    """True if two results of kernels are equal bit for bit, NaN included."""
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(
            equal_outputs(value, right[key]) for key, value in left.items()
        )
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return len(left) == len(right) and all(map(equal_outputs, left, right))
    left_array, right_array = _array(left), _array(right)
    if _kind(left, left_array) != _kind(right, right_array):
        return False
    if left_array.dtype == object:
        return bool(left == right)
    return left_array.tobytes() == right_array.tobytes()


def _kind(value: Any, array: np.ndarray[Any, Any]) -> tuple[str, tuple[int, ...]]:
    """The dtype and the shape of a result, of which `array` has the bits."""
    return str(getattr(value, "dtype", array.dtype)), tuple(getattr(value, "shape", array.shape))


def _array(value: Any) -> np.ndarray[Any, Any]:
    """A result as a numpy array; a tensor of torch as the bits of its elements in order."""
    if hasattr(value, "detach"):
        tensor = value.detach().cpu().contiguous()
        value = tensor.view(-1).view(_bytes_dtype(tensor)) if tensor.numel() else tensor.float()
    return np.asarray(value)


def _bytes_dtype(tensor: Any) -> Any:
    import torch  # noqa: PLC0415  the result is one of torch's

    return {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[tensor.element_size()]
