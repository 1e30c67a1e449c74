"""Slurm's lists: of hosts ("trn2-[1-4,07]"), of counts ("2(x3),1"), of numbers ("0-3,7").

`scontrol show hostnames` expands a list of hosts; where Slurm is not installed, `expand` does.

Source: scontrol(1), show hostnames; sbatch(1), Output Environment Variables.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from itertools import product
from math import prod
from typing import Final

from trnsim.errors import BadInput

_MOST_HOSTS: Final = 1 << 16
"""Maximum number of hosts of a list; Slurm's own limit is 64,000 (MAX_SLURM_NODES)."""
_SCONTROL_TIMEOUT_S: Final = 30.0
_PART: Final = re.compile(r"((?:[^,\[\]]|\[[^\[\]]*\])+)(?:,|$)")
_PIECE: Final = re.compile(r"\[([^\[\]]*)\]|([^\[\]]+)")
_RANGE: Final = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?", re.ASCII)
_COUNT: Final = re.compile(r"(\d{1,6})(?:\(x(\d{1,6})\))?", re.ASCII)
_HOSTS_LEGAL: Final = "legal: names with ranges, as n1,trn2-[1-4,07]"


def hosts(text: str, variable: str) -> tuple[str, ...]:
    """The hosts of a list, in order.

    Args:
        text: the list.
        variable: the variable that holds it, for messages.

    Raises:
        BadInput: it is no list of hosts.
    """
    scontrol = shutil.which("scontrol")
    if scontrol is None or not text or text.startswith("-"):
        return expand(text, variable)
    try:
        answer = subprocess.run(  # noqa: S603  Slurm's own program, on a Slurm variable
            [scontrol, "show", "hostnames", text],
            capture_output=True, encoding="utf-8", errors="replace",
            timeout=_SCONTROL_TIMEOUT_S, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return expand(text, variable)
    names = tuple(answer.stdout.split())
    if answer.returncode or not names:
        raise _no_hosts(text, variable, "scontrol refuses it")
    return names


def expand(text: str, variable: str) -> tuple[str, ...]:
    """The hosts of a list, without scontrol.

    Raises:
        BadInput: `text` is no list of hosts, or a list of more than 65,536.
    """
    names: list[str] = []
    end = 0
    for part in _PART.finditer(text):
        if part.start() != end:
            break
        end = part.end()
        choices = [_choices(piece, text, variable) for piece in _PIECE.finditer(part[1])]
        if len(names) + prod(map(len, choices)) > _MOST_HOSTS:
            raise _no_hosts(text, variable, f"it has more than {_MOST_HOSTS} hosts")
        names += ["".join(pieces) for pieces in product(*choices)]
    if not names or end != len(text) or text.endswith(","):
        raise _no_hosts(text, variable)
    return tuple(names)


def _choices(piece: re.Match[str], text: str, variable: str) -> list[str]:
    """The texts that a piece of a host's name represents; numbers keep their leading zeros."""
    ranges, plain_text = piece.groups()
    if ranges is None:
        return [plain_text]
    choices: list[str] = []
    for part in ranges.split(","):
        limits = _RANGE.fullmatch(part)
        if limits is None:
            raise _no_hosts(text, variable, f"[{ranges}] has no ranges of numbers")
        first, last = limits[1], limits[2] or limits[1]
        if not 0 <= int(last) - int(first) < _MOST_HOSTS:
            raise _no_hosts(text, variable, f"the range {part}")
        choices += [f"{number:0{len(first)}d}" for number in range(int(first), int(last) + 1)]
    return choices


def _no_hosts(text: str, variable: str, reason: str = "") -> BadInput:
    why = f" ({reason})" if reason else ""
    return BadInput(
        f"{variable}={text!r} is no list of hosts{why}; {_HOSTS_LEGAL}",
        fix="leave it as srun sets it",
        source="scontrol(1), show hostnames",
    )


def counts(text: str, variable: str) -> tuple[int, ...]:
    """The numbers of "2(x3),1": 2, 2, 2, 1.

    Raises:
        BadInput: it is no such list.
    """
    counts: list[int] = []
    for part in text.split(","):
        count = _COUNT.fullmatch(part)
        if count is None or not int(count[1]) or count[2] == "0":
            raise BadInput(
                f"{variable}={text!r} is no list of tasks a node; legal: numbers, as 2(x3),1",
                fix="leave it as srun sets it",
                source="sbatch(1), SLURM_TASKS_PER_NODE",
            )
        counts += [int(count[1])] * int(count[2] or 1)
    return tuple(counts)


def numbers(text: str) -> tuple[int, ...]:
    """The numbers of "0-3,7", ascending.

    Raises:
        ValueError: it is no such list.
    """
    numbers: set[int] = set()
    for part in text.split(","):
        limits = _RANGE.fullmatch(part)
        first, last = (int(limits[1]), int(limits[2] or limits[1])) if limits else (1, 0)
        if not 0 <= last - first < _MOST_HOSTS:
            raise ValueError(text)
        numbers.update(range(first, last + 1))
    return tuple(sorted(numbers))
