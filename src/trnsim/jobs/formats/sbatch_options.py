"""Options of sbatch and srun by their long names. Source: Slurm, sbatch(1) and srun(1), OPTIONS."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import Final

from trnsim.jobs.spec import is_template

NOTES: Final = ("region", "purchase", "model")
"""Fields of a job without an option of sbatch; a written script states them in ``--comment``."""

_NAMES: Final = (
    "A account a array B extra-node-info b begin C constraint c cpus-per-task D chdir d dependency "
    "e error F nodefile G gpus H hold I immediate i input J job-name k no-kill L licenses "
    "M clusters m distribution N nodes n ntasks O overcommit o output p partition Q quiet q qos "
    "S core-spec s oversubscribe t time v verbose W wait w nodelist x exclude Z no-allocate"
)
_LONG: Final = dict(re.findall(r"(\w) (\S+)", _NAMES))
_FLAG_NAMES: Final = (
    "contiguous exclusive get-user-env hold ignore-pbs immediate nice no-allocate no-kill "
    "no-requeue overcommit oversubscribe parsable propagate quiet reboot requeue spread-job "
    "test-only use-min-nodes verbose wait"
)
_FLAGS: Final = frozenset(_FLAG_NAMES.split())
"""Options of sbatch without a value, or with a value only after ``=``."""
_STEP_FLAG_NAMES: Final = (
    "bcast contiguous disable-status exact exclusive external hold immediate interactive "
    "kill-on-bad-exit label multi-prog nice no-allocate no-kill overcommit overlap oversubscribe "
    "preserve-env propagate pty quiet reboot send-libs spread-job test-only unbuffered "
    "use-min-nodes verbose whole container-mount-home no-container-mount-home "
    "container-remap-root no-container-remap-root container-entrypoint no-container-entrypoint "
    "container-writable container-readonly"
)
_STEP_FLAGS: Final = frozenset(_STEP_FLAG_NAMES.split())
"""Options of srun, and of its plugin pyxis, without a value, or with a value only after ``=``."""
_STEP_SHORT_FLAGS: Final = frozenset("EHIKkLlOQsuvXZ")
_TEMPLATE_FIELD: Final = re.compile(r"\{\{.*?\}\}|<[a-z][\w -]*>")
_TIME: Final = re.compile(r"(?:(\d{1,6})-)?(\d{1,9})(?::(\d{1,9}))?(?::(\d{1,9}))?")
_MEMORY: Final = re.compile(r"(\d{1,12})([KMGT]?)B?", re.IGNORECASE)
_UNITS: Final = {"K": 1 << 10, "": 1 << 20, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_DAY_S: Final = 86_400


def words_in(line: str) -> list[str]:
    """The words of a line of options, without comments.

    A field of a template, ``{{ nodes }}`` or ``<job name>``, does not end a word.

    Raises:
        ValueError: a quote is not closed.
    """
    templates: list[str] = []

    def mark(match: re.Match[str]) -> str:
        templates.append(match[0])
        return f"\1{len(templates) - 1}\1"

    words = shlex.split(_TEMPLATE_FIELD.sub(mark, line), comments=True)
    return [re.sub("\1(\\d+)\1", lambda match: templates[int(match[1])], word) for word in words]


def options_in(words: Sequence[str]) -> dict[str, str | bool]:
    """The options of a command by long name, each as last stated; True without a value."""
    options: dict[str, str | bool] = {}
    index = 0
    while index < len(words):
        word = words[index]
        next_word = words[index + 1] if index + 1 < len(words) else None
        index += 1
        if word.startswith("--") and len(word) > len("--"):
            name, equals, value = word.removeprefix("--").partition("=")
        elif word.startswith("-") and len(word) > 1:
            name, value = _LONG.get(word[1], word[1]), word[2:].removeprefix("=")
            equals = value
        else:
            continue
        if equals:
            options[name] = value
        elif name in _FLAGS or next_word is None or next_word.startswith("--"):
            options[name] = True
        else:
            options[name] = next_word
            index += 1
    return options


def resource_count(entries: Sequence[str]) -> tuple[str, str]:
    """The count and the type of a resource from its entries ``[type:]count``, a type, or "".

    Counts of different types are added up; several types are stated as "a:2,b:1". The last count
    of a type stands, an entry without a count is one, and a count that is no number is the answer.
    Source: SchedMD/slurm@b1fd7528 src/interfaces/gres.c, `_get_next_job_gres` and
    `_merge_generic_data`; sbatch(1), --gres.

    Raises:
        ValueError: entries with and without a type, which Slurm refuses.
    """
    counts: dict[str, str] = {}
    for entry in entries:
        type_, colon, count = entry.rpartition(":")
        if not colon and not entry[:1].isdecimal() and not is_template(entry):
            type_, count = entry, "1"
        counts[type_] = count
    counts = {type_: count for type_, count in counts.items() if count != "0"} or {"": "0"}
    if len(counts) == 1:
        return next((count, type_) for type_, count in counts.items())
    if "" in counts:
        raise ValueError("it is stated with and without a type, which Slurm refuses")
    texts = [count for count in counts.values() if not count.isdecimal()]
    total = texts[0] if texts else str(sum(map(int, counts.values())))
    return total, ",".join(f"{type_}:{count}" for type_, count in counts.items())


def program_start(words: Sequence[str], is_option: Sequence[bool]) -> int:
    """Index of the first word of the program that srun starts.

    Args:
        words: words of the command; the first is srun.
        is_option: for each word, whether it stands for a variable that holds options alone.
    """
    index = 1
    while index < len(words):
        word = words[index]
        if is_option[index]:
            index += 1
        elif word.startswith("--"):
            takes_next = "=" not in word and word.removeprefix("--") not in _STEP_FLAGS
            index += 2 if takes_next else 1
        elif word.startswith("-") and len(word) > 1:
            takes_next = len(word) == len("-N") and word[1] not in _STEP_SHORT_FLAGS
            index += 2 if takes_next else 1
        else:
            break
    return min(index, len(words))


def notes_in(comment: str) -> dict[str, str] | None:
    """The `NOTES` that a comment states, by name; None for any other comment."""
    pairs = [part.partition("=") for part in comment.split(",")]
    names = [name for name, _, _ in pairs]
    is_notes = all(value for _, _, value in pairs) and set(names) <= set(NOTES)
    return {name: value for name, _, value in pairs} if is_notes else None


def time_limit_s(text: str) -> float | None:
    """Seconds of a time limit; None for a value that means no limit.

    Formats: minutes, minutes:seconds, hours:minutes:seconds, days-hours, days-hours:minutes and
    days-hours:minutes:seconds; 0, UNLIMITED and INFINITE are no limit. Source: sbatch(1), --time.

    Raises:
        ValueError: the text has none of these forms.
    """
    if text.upper() in ("UNLIMITED", "INFINITE", "-1"):
        return None
    match = _TIME.fullmatch(text)
    if not match:
        raise ValueError(text)
    days, *parts = match.groups()
    first, second, third = (int(part or 0) for part in parts)
    if days is not None:
        seconds = int(days) * _DAY_S + first * 3600 + second * 60 + third
    elif parts[2] is not None:
        seconds = first * 3600 + second * 60 + third
    else:
        seconds = first * 60 + second
    return float(seconds) or None


def memory_bytes(text: str) -> int | None:
    """Bytes of a size; a size without a unit is in MiB. None for 0: all memory of a node.

    Source: sbatch(1), --mem.

    Raises:
        ValueError: the text is no size.
    """
    match = _MEMORY.fullmatch(text)
    if not match:
        raise ValueError(text)
    return int(match[1]) * _UNITS[match[2].upper()] or None
