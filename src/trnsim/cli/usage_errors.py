"""Usage errors: what is wrong with a command line, and how it is to be written.

The parser's own texts name the fault alone. Here each kind of fault has a fix: an example of the
command, a legal value of the option, or the nearest name.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from difflib import SequenceMatcher, get_close_matches
from typing import Any, Final

from trnsim.cli.help_text import HIDDEN_NAMES, call_form, example_of

_PROGRAM: Final = "trnsim"
_PYDANTIC_PREFIX: Final = "Value error, "
_NO_COMMAND_PATTERN: Final = re.compile(r"No such command '(?P<name>.*?)'\.", re.DOTALL)
_EXTRA_PATTERN: Final = re.compile(r"Got unexpected extra arguments?(?:\(s\))? \((?P<words>.*)\)")
_MOST_NAMES: Final = 12
"""Commands of a group that an error lists; the help lists more."""
_LIKENESS_MARGIN: Final = 0.1
"""Largest difference of the similarity (`difflib`) of a suggested name from the nearest one's."""
_NUMBER: Final = "NUMBER"
_PLAIN_NUMBER: Final = "1"
"""The value in an example of a NUMBER option whose help shows none."""

_NAMES_OF_ONE_OPTION: Final = (
    ("--tp", "--tensor-parallel-size"),
    ("--pp", "--pipeline-parallel-size"),
    ("--dp", "--data-parallel-size"),
    ("--ep", "--expert-parallel-size"),
    ("--price", "--kind"),
)
"""Names of an option in different commands: those of vLLM in serving, the short ones elsewhere."""

Refusal = tuple[str, str]


def usage_text(error: Any) -> str:
    """A usage error as text: its reason, and below it the fix."""
    reason, fix = refusal(error)
    return f"{reason}\n  fix: {fix}" if fix else reason


def refusal(error: Any) -> Refusal:
    """(reason, fix) of a usage error; the fix is empty where no command is known."""
    reason = error.format_message().replace(_PYDANTIC_PREFIX, "").rstrip(".")
    if error.ctx is None:
        return reason, ""
    return _BY_KIND.get(type(error).__name__, _other_refusal)(error, reason, error.ctx)


def _missing_parameter(error: Any, reason: str, context: Any) -> Refusal:
    """The refusal for a missing argument or option, with an example of the command."""
    parameter = error.param
    if purpose := _purpose(parameter):
        reason += f": {purpose}"
    example = example_of(context.command)
    is_shown = parameter.param_type_name == "argument" or any(
        name in example.split() for name in parameter.opts
    )
    return reason, f"for example {example}" if example and is_shown else _help_command(context)


def _value_error(error: Any, reason: str, context: Any) -> Refusal:
    """The refusal for an option that lacks its value, or that takes none and has one."""
    name = error.option_name
    options = context.command.get_params(context)
    option = next((o for o in options if name in (*o.opts, *o.secondary_opts)), None)
    if option is None:
        return reason, _help_command(context)
    if getattr(option, "is_flag", False):
        return reason, f"write {name} alone"
    purpose = _purpose(option)
    return reason + (f": {purpose}" if purpose else ""), _legal_example(option, context, name)


def _unknown_option(error: Any, _: str, context: Any) -> Refusal:
    """The refusal for an unknown option, with the options of similar names."""
    name = error.option_name
    synonyms = next((names for names in _NAMES_OF_ONE_OPTION if name in names), ())
    options = (opt for param in context.command.get_params(context) for opt in param.opts)
    similar_names = [option for option in options if option in synonyms]
    if not similar_names:
        names = [name for name in error.possibilities or () if name not in HIDDEN_NAMES]
        similar_names = _similar_names(name, names)
    fix = f"{_suggestion(similar_names)}{_help_command(context)} lists all options"
    return error.message.rstrip("."), fix


def _illegal_value(error: Any, reason: str, context: Any) -> Refusal:
    """The refusal for a value that is not legal, with a legal one."""
    return reason, _help_command(context) if error.param is None else _legal_example(
        error.param, context
    )


def _other_refusal(error: Any, reason: str, context: Any) -> Refusal:
    """The refusal of an unknown command, or of more arguments than the command takes."""
    if match := _NO_COMMAND_PATTERN.match(error.format_message()):
        return _unknown_command(match["name"], context)
    if match := _EXTRA_PATTERN.match(reason):
        return _extra_arguments(match["words"], context)
    return reason, _help_command(context)


def _unknown_command(name: str, context: Any) -> Refusal:
    """The refusal for an unknown command, with similar names, and all commands if they are few."""
    names = list(context.command.commands)
    legal = f"; legal: {', '.join(names)}" if len(names) <= _MOST_NAMES else ""
    similar_names = [f"{context.command_path} {command}" for command in _similar_names(name, names)]
    fix = f"{_suggestion(similar_names)}{_help_command(context)} lists all commands"
    return f"No such command {name!r}{legal}", fix


def _suggestion(similar_names: list[str]) -> str:
    """Names that were perhaps meant, for the beginning of a fix."""
    from trnsim.formatting import enumerated  # noqa: PLC0415  for an error alone

    return f"perhaps {enumerated(similar_names, 'or')}; " if similar_names else ""


def _extra_arguments(words: str, context: Any) -> Refusal:
    """The refusal of more arguments than the command takes."""
    usage = call_form(context.command, context)
    return f"Got unexpected extra arguments: {words}", f"leave them out; usage: {usage}"


def _similar_names(name: str, names: Iterable[str]) -> list[str]:
    """The names that are spelled most alike, the nearest first; none if none is near."""
    similar_names = get_close_matches(name, list(names))
    ratios = [SequenceMatcher(None, candidate, name).ratio() for candidate in similar_names]
    return [
        candidate
        for candidate, ratio in zip(similar_names, ratios, strict=True)
        if ratio >= ratios[0] - _LIKENESS_MARGIN
    ]


def _legal_example(parameter: Any, context: Any, name: str = "") -> str:
    """For an option, the option with a legal value; for an argument, an example of the command."""
    example = example_of(context.command)
    if parameter.param_type_name == "argument":
        return f"for example {example}" if example else _help_command(context)
    name = name or max(parameter.opts, key=len)
    words = example.split()
    if name in words[:-1]:
        return f"for example {name} {words[words.index(name) + 1]}"
    metavar = parameter.metavar or parameter.name.upper()
    example_value = metavar.partition("|")[2]  # 8k of TOKENS|8k; DIR|FILE.html has none
    value = "" if re.match(r"[A-Z]{3}", example_value) else example_value
    if not value and isinstance(parameter.default, str | int | float):
        value = str(parameter.default)
    if not value and metavar == _NUMBER:
        value = _PLAIN_NUMBER
    return f"for example {name} {value}" if value else f"write {name} {metavar}"


def _purpose(parameter: Any) -> str:
    """The first sentence of a parameter's help, as the end of a sentence."""
    purpose = inspect.cleandoc(getattr(parameter, "help", None) or "")
    purpose = re.split(r"(?<=[^.])\.(?:\s|$)", purpose, maxsplit=1)[0]
    begins_with_name = re.match(r"Python\b|\w*[A-Z]\w*[A-Z0-9]", purpose)
    return purpose if begins_with_name else f"{purpose[:1].lower()}{purpose[1:]}"


def _help_command(context: Any) -> str:
    """The command that prints the help of a command: trnsim plan train --help."""
    path: str = context.command_path
    return f"{path} --help" if path.startswith(_PROGRAM) else f"{_PROGRAM} {path} --help"


_BY_KIND: Final[Mapping[str, Callable[[Any, str, Any], Refusal]]] = {
    "MissingParameter": _missing_parameter,
    "NoSuchOption": _unknown_option,
    "BadOptionUsage": _value_error,
    "BadParameter": _illegal_value,
}
"""The function for each class of the parser's errors, by the class's name."""
