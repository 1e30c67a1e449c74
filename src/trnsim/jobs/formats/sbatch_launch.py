"""The command that may be the job's in a statement, a condition, a loop or a group of a script.

Nothing is run and no condition is evaluated: a command within a block is read with the words of the
block around it, so that a finding can name the assumption.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

from trnsim.jobs.formats.shell import Branch, ScriptCommand, Statement, Word, is_redirection
from trnsim.jobs.formats.shell_words import Values, expand, expand_text

_LAUNCHERS: Final = frozenset(
    (
        *("srun", "mpirun", "mpiexec", "torchrun", "accelerate", "deepspeed"),
        *("nccom-test", "neuron_parallel_compile"),
    )
)
_PROGRAM: Final = re.compile(r"python[\d.]*|bash|sh|.*\.(sh|py)")
ASSIGNMENT: Final = re.compile(r"([A-Za-z_]\w*)(\+?)=")
_BRACKETS: Final = {"{": "the braces", "(": "the brackets"}
_LOOPS: Final = ("for", "while", "until", "select")
Texts = Mapping[str, Sequence[str]]
"""All texts to which the script sets a variable, by name; they may be options or programs."""


@dataclass
class SbatchLaunch:
    """A command that may be the job's.

    Attributes:
        rank: 2 for a launcher of parallel programs, 1 for Python or a script.
        words: words of the command, with constant variables replaced by their values.
        is_option: for each word, whether it stands for a variable that holds options alone.
        variables: names and values of the variables that are set only for this command.
        before: text of the statement before the command.
        tail: text of the statement after the command; it begins with a newline if it stands on a
            further line.
        branch: the block around the command, in words; "" for none.
    """

    rank: int
    line: int
    words: list[str]
    is_option: list[bool]
    variables: list[tuple[str, str]]
    before: str
    tail: str
    branch: str = ""

    @property
    def preference(self) -> tuple[int, bool]:
        """Sort key of commands: the command with the greatest key is the job's."""
        return self.rank, not self.branch


def launch_in(statement: Statement, values: Values, texts: Texts) -> SbatchLaunch | None:
    """The command of a statement that may be the job's; None if the statement has none.

    In a block it is the first command of the highest rank.

    Args:
        statement: a statement.
        values: values of variables before the statement; None for a variable that the block sets.
        texts: all texts to which the script sets each variable.
    """
    launches = (
        _launch_of(statement, command, values, texts)
        for index, command in enumerate(statement.commands)
        if command.before in ("", "&&") or index == 0
    )
    job_launches = [launch for launch in launches if launch is not None]
    if not statement.is_block:
        return job_launches[0] if job_launches else None
    return max(reversed(job_launches), key=lambda launch: launch.rank, default=None)


def _launch_of(
    statement: Statement, command: ScriptCommand, values: Values, texts: Texts
) -> SbatchLaunch | None:
    words: list[Word] = []
    for word in command.words:
        if is_redirection(word):
            break
        words.append(word)
    variables: list[tuple[str, str]] = []
    while words and (match := ASSIGNMENT.match(words[0].raw)):
        variables.append((match[1], expand_text(words[0], values, len(match[0]))))
        words = words[1:]
    rank = _rank(expand(words, values))
    if not words or not rank:
        return None
    start = statement.start
    head = command.words[0].start - start
    line = statement.line + statement.text.count("\n", 0, head)
    before, tail = statement.text[:head], _tail(statement.text[words[-1].end - start :])
    options = [_is_options(text, texts) for text in expand(words, values)]
    branch = _branch_words(command.branches) if statement.is_block else ""
    before = before.rstrip() if branch else re.sub(r"\s*&&\s*$", "", before)
    return SbatchLaunch(rank, line, expand(words, values), options, variables, before, tail, branch)


def _tail(text: str) -> str:
    """The text after a command; it begins with a newline if it stands on a further line."""
    text_after = re.sub(r"^(\s|\\\n)+", "", text)
    gap = text[: len(text) - len(text_after)].replace("\\\n", "")
    return f"\n{text_after}" if text_after and "\n" in gap else text_after


def _branch_words(branches: Sequence[Branch]) -> str:
    """The innermost block of a command, and the one around it."""
    return " in ".join(map(_block_words, reversed(branches[-2:]))) or "a block"


def _block_words(branch: Branch) -> str:
    opening, part, line = branch
    if opening in _BRACKETS:
        return f"{_BRACKETS[opening]} of line {line}"
    if opening in _LOOPS:
        return f"the loop `{opening}` of line {line}"
    if opening == "case":
        return f"a branch of `case` of line {line}"
    if part == opening:
        return f"the condition of `{opening}` of line {line}"
    return f"the branch `{part}` of `{opening}` of line {line}"


def _is_options(text: str, texts: Texts) -> bool:
    """True if a word is a variable that the script sets only to options."""
    match = re.fullmatch(r"\$\{?(\w+)(\[@\])?\}?", text)
    values = texts.get(match[1], ()) if match else ()
    return bool(values) and all(not value or value.startswith("-") for value in values)


def _rank(words: Sequence[str]) -> int:
    """2 for a launcher of parallel programs, 1 for Python or a script, 0 for any other command."""
    name = PurePosixPath(words[0]).name if words else ""
    if name in _LAUNCHERS:
        return 2
    return 1 if _PROGRAM.fullmatch(name) else 0
