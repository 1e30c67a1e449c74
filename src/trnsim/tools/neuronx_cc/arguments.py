"""The command line of `neuronx-cc compile`: the file of a graph, and flags of `FLAGS`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn

from trnsim.compiler import Flags
from trnsim.compiler.flag_table import FLAGS, SOURCE, CompilerFlag
from trnsim.compiler.flags import flag_settings
from trnsim.errors import BadInput
from trnsim.jax.programs import chip_of

PROGRAM: Final = "neuronx-cc"
DEFAULT_OUTPUT: Final = "file.neff"
DEFAULT_LOG: Final = "log-neuron-cc.txt"
LEVELS: Final = {"debug": 10, "info": 20, "warning": 30, "error": 40, "critical": 50}
"""The number of each level of --verbose, as in Python's `logging`."""
_WARNING: Final = LEVELS["warning"]
_REQUIRED: Final = ("framework", "target")
_COMMAND_FLAGS: Final = frozenset(
    {"framework", "logfile", "output", "target", "verbose", "workdir"}
)
"""Flags of the command itself, which are not passed to the compiler's stages."""
_DASHES: Final = ("\u2014", "\u2013", "\u2212")
"""Dashes that word processors, and an example of AWS's page, write for two hyphens."""


@dataclass(frozen=True)
class CompileArguments:
    """Arguments of `neuronx-cc compile`.

    Attributes:
        model: the file of the graph.
        family: the family of instances, as --target names it.
        flags: flags of the compiler's stages, as words.
        output: path of the file that is written instead of neuronx-cc's NEFF.
        logfile: the file of the report's text.
        workdir: the folder of the whole report; None without one.
        level: least level of the messages that are printed.
        flag_notes: a sentence on each flag without an effect.
    """

    model: Path
    target: str
    family: str
    flags: tuple[str, ...]
    output: Path
    logfile: Path
    workdir: Path | None
    level: int
    flag_notes: tuple[str, ...]

    @classmethod
    def of(cls, words: Sequence[str]) -> CompileArguments:
        """The arguments in the words of a command line.

        Raises:
            BadInput: for a word that is no flag, an illegal value, or a file or flag that is
                missing.
        """
        for word in words:
            if word.startswith(_DASHES):
                _refuse(
                    f"unrecognized arguments: {word} begins with a dash",
                    f"type two hyphens: --{word.lstrip(''.join(_DASHES) + '-')}",
                )
        models: list[str] = []
        values: dict[str, str] = {}
        compiler_words: list[str] = []
        for flag, value in flag_settings(words, PROGRAM, models):
            _check_value(flag, value)
            if flag.name in _COMMAND_FLAGS:
                values[flag.name] = value
            else:
                compiler_words.append(f"--{flag.name}={value}" if value else f"--{flag.name}")
        missing = [f"--{name}" for name in _REQUIRED if name not in values]
        if missing:
            _refuse(
                f"the following arguments are required: {', '.join(missing)}",
                "neuronx-cc compile model.hlo --framework XLA --target trn2",
            )
        if len(models) != 1:
            names = f"{len(models)}: {', '.join(models)}" if models else "none"
            _refuse(f"one file of a graph is compiled; named are {names}", "name one file")
        workdir = values.get("workdir")
        return cls(
            Path(models[0]),
            chip_of(values["target"]),
            values["target"],
            tuple(compiler_words),
            Path(values.get("output", DEFAULT_OUTPUT)),
            Path(values.get("logfile", DEFAULT_LOG)),
            None if workdir is None else Path(workdir),
            _level(values.get("verbose", "")),
            Flags.parse(compiler_words, PROGRAM).notes,
        )


def _check_value(flag: CompilerFlag, value: str) -> None:
    """Check a value of a flag that the program uses itself.

    Raises:
        BadInput: for an illegal value.
    """
    if flag.name in _COMMAND_FLAGS:
        Flags.parse([f"--{flag.name}={value}"], PROGRAM)
    if flag.name == "verbose":
        _level(value)


def _level(text: str) -> int:
    """The level that --verbose names, or its number.

    Raises:
        BadInput: for another word.
    """
    if not text:
        return _WARNING
    if text.isdecimal() and len(text) < len("1000"):
        return int(text)
    level = LEVELS.get(text.lower())
    if level is None:
        _refuse(
            f"argument --verbose: invalid choice: {text!r}; legal: "
            f"{', '.join(LEVELS)}, or a number",
            "--verbose=info",
        )
    return level


def _refuse(reason: str, fix: str) -> NoReturn:
    raise BadInput(f"{PROGRAM}: {reason}", fix=fix, source=SOURCE)


def flag_lines() -> list[tuple[str, str]]:
    """The flags, each with its legal values or the kind of its value."""
    lines: list[tuple[str, str]] = []
    for flag in FLAGS.values():
        values = [value for value in flag.values if value]
        values_text = ", ".join([*values, *([flag.value_text] if flag.value_text else [])])
        lines.append((f"--{flag.name}", values_text))
    return lines
