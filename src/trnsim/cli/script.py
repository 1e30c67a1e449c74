"""The user's script: its arguments, how it runs on a chip, and the runs of its kernels."""

from __future__ import annotations

import os
import re
import runpy
import sys
import traceback
import warnings
from collections.abc import Generator, Iterable
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import dataclass
from pathlib import Path
from types import CodeType
from typing import Final

from trnsim import arch, files
from trnsim.arch.environment import TARGET_VARIABLE
from trnsim.cli import array_files
from trnsim.demo import examples
from trnsim.errors import BadInput, SourceLine, is_of_trnsim
from trnsim.gate.kernel_file import kernel_named, module_of
from trnsim.runner import run_of_call
from trnsim.runs import Run, collecting

_RECORD_VARIABLE: Final = "TRNSIM_RECORD"  # what trnsim.device.call_log reads when it is loaded
_OTHER_MAIN: Final = "__mp_main__"
"""The module under which `multiprocessing` keeps `__main__`, as at its first import."""
_INPUT_OPTION: Final = "--input"
_OPTIONS_WITH_VALUE: Final = (
    "--on",
    "--report",
    "--order",
    "--ranks",
    "--instance",
    "--nki",
    "--kernel",
    "--output",
)
_CALL_OPTIONS: Final = ("--kernel", "--output", "--json", "--verbose", "-v")
"""Options of a kernel's call; without --input, those behind the script's path are the script's."""
_HELP_OPTIONS: Final = ("-h", "--help")


@dataclass(frozen=True)
class Ending:
    """The end of a script on one chip, and the runs of its kernels.

    Attributes:
        runs: the runs of its kernels.
        error: the exception that ended it, SystemExit included, or None.
    """

    runs: list[Run]
    error: BaseException | None = None

    @property
    def has_succeeded(self) -> bool:
        """True if the script reached its end, or exited with status 0."""
        error = self.error
        return error is None or (isinstance(error, SystemExit) and not error.code)


@dataclass(frozen=True)
class ScriptProgram:
    """A script that runs as a program with arguments, or of which one kernel runs on arrays.

    Attributes:
        inputs: files of arrays, one for each argument of the kernel; () to run the program.
        kernel: name of the kernel; None where the script has only one.
    """

    path: Path
    arguments: tuple[str, ...] = ()
    inputs: tuple[Path, ...] = ()
    kernel: str | None = None

    def check(self) -> None:
        """Check the script and its arguments before anything runs.

        Raises:
            BadInput: there is no such file, it is no Python, or --input has arguments beside it.
        """
        checked_script(self.path)
        if self.inputs and self.arguments:
            raise BadInput(
                f"with --input a kernel is called, which takes no other arguments: "
                f"{list(self.arguments)}",
                fix="leave them out, or --input",
            )

    def run(self, chip: arch.Target) -> Ending:
        """Run the script on a chip."""
        if self.inputs:
            return call(self.path, self.kernel, list(self.inputs), chip)
        return execute(self.path, list(self.arguments), chip)


# Separating the script's arguments from the command's


def parser_arguments(arguments: Iterable[str]) -> list[str]:
    """The command line in the parser's order: trnsim's options, script, ``--``, script's arguments.

    Behind the script's path, an option that the script's source names is the script's; without
    --input so are options that programs often have, such as --output and -v. Behind ``--`` all
    options are the script's; its path may be the first word there. ``--input a b`` becomes
    ``--input a --input b``.
    """
    words = list(arguments)
    command_words: list[str] = []
    script: list[str] = []
    script_words: list[str] = []
    source = ""
    while words:
        argument = words.pop(0)
        name = argument.partition("=")[0]
        if argument == "--":
            if not script:
                script, words = words[:1], words[1:]
            script_words += words
            break
        if script and not _is_commands_option(name, source, [*command_words, *words]):
            script_words.append(argument)
        elif argument == _INPUT_OPTION:
            while words and not _ends_list(words[0], is_first=not script):
                command_words += [_INPUT_OPTION, words.pop(0)]
        elif argument.startswith("-"):
            takes_next = argument in _OPTIONS_WITH_VALUE and bool(words)
            command_words += [argument, *([words.pop(0)] if takes_next else [])]
        else:
            script = [argument]
            source = _source_text(Path(argument))
    return [*command_words, *script, "--", *script_words] if script else command_words


def _ends_list(argument: str, *, is_first: bool) -> bool:
    """True if an argument ends a list of arrays: it is an option, or the script's path."""
    return argument.startswith("-") or (is_first and argument.endswith(".py"))


def _is_commands_option(name: str, source: str, other_words: list[str]) -> bool:
    """True if an option after a script with this source is the command's."""
    if name in _HELP_OPTIONS:
        return "__main__" not in source
    if name not in (_INPUT_OPTION, *_OPTIONS_WITH_VALUE, *_CALL_OPTIONS) or _mentions(source, name):
        return False
    is_call = any(
        other.partition("=")[0] == _INPUT_OPTION for other in other_words
    ) and not _mentions(source, _INPUT_OPTION)
    return is_call or name not in _CALL_OPTIONS


def _mentions(source: str, option: str) -> bool:
    """True if a program's source has an option's name in quotes, and so reads it itself."""
    return re.search(rf"""["']{option}(?![\w-])""", source) is not None


def _source_text(script: Path) -> str:
    with suppress(BadInput):
        return files.read_bytes(script).decode("utf-8", "replace")
    return ""  # running it reports the error


# Running


def checked_script(script: Path) -> CodeType:
    """The script's compiled code.

    Raises:
        BadInput: it cannot be read, or is no Python.
    """
    fix = f"name a Python file, for example {examples.short_path(examples.path('attention.py'))}"
    source = files.read_bytes(script, fix)
    try:
        with warnings.catch_warnings(action="ignore"):  # running it warns again
            return compile(source, str(script), "exec", dont_inherit=True)
    except SyntaxError as error:
        line = SourceLine(str(script), error.lineno) if error.lineno else None
        raise BadInput(
            f"{script} is not valid Python: {error.msg}", fix="correct the line", line=line
        ) from error
    except (ValueError, RecursionError, MemoryError) as error:
        raise BadInput(f"{script} is not valid Python: {error}", fix=fix) from error


def execute(script: Path, arguments: list[str], chip: arch.Target) -> Ending:
    """Run the script as a program, and collect the runs of its kernels."""
    old_argv, old_folder, old_target = sys.argv, sys.path[0], os.environ.get(TARGET_VARIABLE)
    sys.argv, sys.path[0] = [str(script), *arguments], str(script.parent)
    os.environ[TARGET_VARIABLE] = chip.name
    os.environ[_RECORD_VARIABLE] = "1"
    with collecting() as runs:
        try:
            runpy.run_path(str(script), run_name="__main__")
        except BaseException as error:  # noqa: BLE001  whoever reports the runs hands it on
            return Ending(runs, error)
        finally:
            sys.argv, sys.path[0] = old_argv, old_folder
            if _OTHER_MAIN in sys.modules:  # it would keep the tensors of the script alive
                sys.modules[_OTHER_MAIN] = sys.modules["__main__"]
            os.environ.pop(_RECORD_VARIABLE, None)
            if old_target is None:
                os.environ.pop(TARGET_VARIABLE, None)
            else:
                os.environ[TARGET_VARIABLE] = old_target
    return Ending(runs)


def call(script: Path, name: str | None, inputs: list[Path], chip: arch.Target) -> Ending:
    """Run one kernel of the script on the user's arrays."""
    arrays = [array_files.load(path) for path in inputs]
    try:
        launchable = kernel_named(script, module_of(script), name)
        return Ending([run_of_call(launchable, arrays, target=chip.name)])
    except AssertionError as error:
        return Ending([], _refusal(script, error))
    except BaseException as error:  # noqa: BLE001  whoever reports the runs hands it on
        return Ending([], error)


def _refusal(script: Path, error: AssertionError) -> BaseException:
    """The error for a failed assertion: a refusal at its line; itself if trnsim's code failed."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    if is_of_trnsim(frame.filename):
        return error
    return BadInput(
        f"{script.name} refused its arguments: {error or frame.line}",
        fix="give arguments that satisfy the assertion",
        line=SourceLine(frame.filename, frame.lineno or 0),
    )


@contextmanager
def program_output(*, is_apart: bool) -> Generator[None]:
    """A context in which the program's output goes to stderr if `is_apart`, else to stdout."""
    if not is_apart:
        yield
        return
    sys.stdout.flush()
    stdout = os.dup(1)
    os.dup2(2, 1)  # of the program's own processes as well
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        os.dup2(stdout, 1)
        os.close(stdout)
