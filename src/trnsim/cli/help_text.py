"""Help of a command as text: it fits the terminal, and an example can be copied from it.

    usage, summary and paragraphs, examples, arguments, options, commands by group, epilogue

A line breaks between words. An example that is longer than a line goes on behind a backslash, as
shells read it, and its quoted words stay whole.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from trnsim.cli.terminal import emphasis, width
from trnsim.document.wrapping import wrapped

HIDDEN_NAMES: Final = ("--out", "--instance")
"""Former names of options, accepted but not listed: now --output or --folder, and --on."""
_MOST_HELP_CHARS: Final = 100
"""Columns of a help, however wide the terminal is."""
_INDENT_CHARS: Final = 2
_GAP_CHARS: Final = 2
_MOST_NAME_CHARS: Final = 30
"""Columns for names of options and commands, at most."""
_NAMES_PART: Final = 0.42
"""Part of a line for these names, at most."""
_MOST_LABEL_CHARS: Final = len("  Examples:")
"""Columns of the longest label whose example is on the same line; others are on the next."""
_EXAMPLE_PATTERN: Final = re.compile(r"(?:(?P<label>[^:]+): )?(?P<command>trnsim .+)", re.DOTALL)
_WORD_PATTERN: Final = re.compile(r"""(?:"[^"]*"|'[^']*'|[^\s"'])+""")
_TYPE_PATTERN: Final = re.compile(r" ?<[^>]*>")
_DEFAULT_PATTERN: Final = re.compile(r"\[default: \((.*)\)\]")
"""A default in words, which the parser puts in brackets of its own."""
_RANGE_PATTERN: Final = re.compile(r"; (\d+)<=x<=(\d+)\]")
_REQUIRED_PATTERN: Final = re.compile(r"\[(?:x>=\d+; )?required\]")
_HIDDEN_NAMES_PATTERN: Final = re.compile(rf", (?:{'|'.join(HIDDEN_NAMES)})(?![\w-])")

Row = tuple[str, str]


def help_text(command: Any, context: Any, groups: Mapping[str, Sequence[str]] | None = None) -> str:
    """The help of a command, without a line end; `groups` name its subcommands by heading."""
    columns = min(width(), _MOST_HELP_CHARS)
    parts = [
        usage(command, context, columns),
        _paragraphs(inspect.cleandoc(command.help or ""), columns),
        *_commands(command, context, groups, columns),
        _example_of_group(command, context, columns),
        _paragraphs(inspect.cleandoc(command.epilog or ""), columns),
        *_parameters(command, context, columns),
    ]
    return "\n\n".join(part for part in parts if part)


def example_of(command: Any) -> str:
    """The first example of a command's help, as it is written; empty where there is none."""
    for block in re.split(r"\n\s*\n", inspect.cleandoc(command.help or "")):
        example = _EXAMPLE_PATTERN.fullmatch(" ".join(block.split()))
        if example and (example["label"] or "").startswith("Example"):
            return example["command"]
    return ""


def usage(command: Any, context: Any, columns: int | None = None) -> str:
    """The line that says how a command is called: NAME is required, [NAME] is not."""
    line = f"Usage: {call_form(command, context)}"
    return "\n".join(
        wrapped(line, columns or min(width(), _MOST_HELP_CHARS), hanging=len("Usage: "))
    )


def call_form(command: Any, context: Any) -> str:
    """A command with its options and arguments, as the usage line has it."""
    pieces = ["[OPTIONS]"]
    for parameter in command.get_params(context):
        if parameter.param_type_name == "argument":
            name = _argument_name(parameter)
            pieces.append(name if parameter.required else f"[{name}]")
    pieces += ["COMMAND [ARGS]..."] if hasattr(command, "commands") else []
    return f"{context.command_path} {' '.join(pieces)}"


def _argument_name(parameter: Any) -> str:
    """The name of an argument without brackets; NAME... may be given several times."""
    name = re.sub(r"[\[\]]|\.\.\.", "", parameter.metavar or parameter.name.upper())
    return name if parameter.nargs == 1 else f"{name}..."


def _paragraphs(prose: str, columns: int) -> str:
    blocks = re.split(r"\n\s*\n", prose) if prose else []
    return "\n\n".join("\n".join(_paragraph(block, columns)) for block in blocks)


def _paragraph(block: str, columns: int) -> list[str]:
    """Lines of a paragraph; a paragraph that is an example alone is a command to copy.

    Lines that are indented are a table of commands and their purpose.
    """
    if block.startswith("  ") or "\n  " in block:
        heading, *rows = [line for line in block.splitlines() if line.strip()]
        pairs = [tuple(re.split(r" {2,}", row.strip(), maxsplit=1)) for row in rows]
        return _listing(heading.rstrip(":"), [(row[0], "".join(row[1:])) for row in pairs], columns)
    prose = " ".join(block.split())
    example = _EXAMPLE_PATTERN.fullmatch(prose)
    if example is None:
        return wrapped(prose, columns, _INDENT_CHARS)
    label = f"{' ' * _INDENT_CHARS}{example['label']}:" if example["label"] else ""
    is_beside = len(label) <= _MOST_LABEL_CHARS
    indent = (len(label) if label else 1) + 1 if is_beside else 2 * _INDENT_CHARS
    lines = [" " * indent + line for line in _command_lines(example["command"], columns - indent)]
    return [label + lines[0][len(label) :], *lines[1:]] if is_beside else [label, *lines]


def _command_lines(command: str, columns: int) -> list[str]:
    """A command in lines that a shell reads as one; an option stays beside its value."""
    words: list[str] = []
    for word in _WORD_PATTERN.findall(command):
        is_value = words and re.fullmatch(r"--?[\w-]+", words[-1]) and not word.startswith("-")
        if is_value and len(words[-1]) + len(word) + 1 <= columns - 4:
            words[-1] += f" {word}"
        else:
            words.append(word)
    lines = [""]
    for word in words:
        if lines[-1].strip() and len(lines[-1]) + len(word) + len("  \\") > columns:
            lines[-1] += " \\"
            lines.append("  ")
        lines[-1] += word if not lines[-1].strip() else f" {word}"
    return lines


def _parameters(command: Any, context: Any, columns: int) -> Iterator[str]:
    """Arguments and options, each with its help."""
    rows: dict[str, list[Row]] = {"Arguments": [], "Options": []}
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record is None:
            continue
        if parameter.param_type_name == "argument":
            name = _argument_name(parameter)
            rows["Arguments"].append((name, _REQUIRED_PATTERN.sub("", record[1]).rstrip()))
        else:
            names = _HIDDEN_NAMES_PATTERN.sub("", record[0])
            help_ = _DEFAULT_PATTERN.sub(r"[default: \1]", record[1])
            help_ = _RANGE_PATTERN.sub(r"; \1 to \2]", help_)
            rows["Options"].append(
                (_TYPE_PATTERN.sub("", names), help_.replace("[default: required]", "[required]"))
            )
    for heading, entries in rows.items():
        if entries:
            yield "\n".join(_listing(heading, entries, columns))


def _commands(
    command: Any, context: Any, groups: Mapping[str, Sequence[str]] | None, columns: int
) -> Iterator[str]:
    """Commands of a group with their summaries: one list, or one for each heading of `groups`."""
    subcommands: dict[str, Any] = getattr(command, "commands", {})
    for heading, names in (
        (groups or {"Commands": list(subcommands)}).items() if subcommands else ()
    ):
        rows = [(name, _summary(command.get_command(context, name))) for name in names]
        yield "\n".join(_listing(heading, rows, columns, max(map(len, subcommands))))


def _example_of_group(command: Any, context: Any, columns: int) -> str:
    """The example of the first of a group's commands that has one."""
    for name in getattr(command, "commands", ()):
        if example := example_of(command.get_command(context, name)):
            return _paragraphs(f"Example: {example}", columns)
    return ""


def _summary(command: Any) -> str:
    """The first paragraph of a command's help."""
    return " ".join(inspect.cleandoc(command.help or "").split("\n\n")[0].split())


def _listing(heading: str, rows: Iterable[Row], columns: int, least_chars: int = 0) -> list[str]:
    """Lines of names below a heading, each with its text beside it, or below a long name.

    `columns` is the width of a line, `least_chars` the least width of the names' column.
    """
    rows = list(rows)
    most_chars = min(_MOST_NAME_CHARS, int(columns * _NAMES_PART))
    longest = max((len(name) for name, _ in rows if len(name) <= most_chars), default=most_chars)
    column = _INDENT_CHARS + max(longest, min(least_chars, most_chars)) + _GAP_CHARS
    bold, plain = emphasis()
    lines = [f"{bold}{heading}:{plain}"]
    for name, prose in rows:
        start = " " * _INDENT_CHARS + name
        if len(start) + _GAP_CHARS > column:
            lines += wrapped(name, columns, _INDENT_CHARS, _INDENT_CHARS)
            start = ""
        prose_lines = wrapped(prose, columns - column) if prose else []
        if prose_lines and start:
            lines.append(start.ljust(column) + prose_lines.pop(0))
        elif start:
            lines.append(start)
        lines += [" " * column + line for line in prose_lines]
    return lines
