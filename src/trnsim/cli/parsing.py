"""The parser of the command line: commands whose help and errors are of one form."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Final, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup

from trnsim.cli.help_text import help_text, usage
from trnsim.cli.terminal import complain
from trnsim.cli.usage_errors import usage_text

HELP_OPTIONS: Final = {"help_option_names": ["-h", "--help"]}
ENDS_AT_PROGRAM: Final = {"allow_interspersed_args": False}
"""Settings of a command that starts a program, whose words begin at the first non-option."""
USAGE_ERROR: Final[Any] = typer.BadParameter.__mro__[1]
"""click's UsageError; recent releases of typer carry click inside them."""
_NO_ARGUMENTS: Final = "NoArgsIsHelpError"
_PATH: Final = "path"
"""click's name of the type of files and folders."""


class _PlainTextMixin:
    """Help and usage errors in plain text, for a command or a group of commands.

    Attributes:
        groups: names of commands by their heading in the help; if empty, all have one heading.
    """

    groups: ClassVar[Mapping[str, Sequence[str]]] = {}

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help."""
        formatter.write(f"{help_text(self, ctx, self.groups)}\n")

    def format_usage(self, ctx: Any, formatter: Any) -> None:
        """Write the line of the usage."""
        formatter.write(f"{usage(self, ctx)}\n")

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the command line; a usage error gets the context of its command, for its fix.

        An empty path is a usage error: as a `Path` it would be the current folder.
        """
        parent: Any = super()
        words = tuple(args)
        try:
            remaining_words: list[str] = parent.parse_args(ctx, args)
            _check_paths(ctx, words)
        except USAGE_ERROR as error:
            error.ctx = error.ctx or ctx
            raise
        return remaining_words

    def main(self, *args: Any, standalone_mode: bool = True, **settings: Any) -> Any:
        """Run the command that the arguments name; a usage error ends with status 2."""
        parent: Any = super()
        try:
            status = parent.main(*args, standalone_mode=False, **settings)
        except USAGE_ERROR as error:
            if not standalone_mode:
                raise
            if type(error).__name__ == _NO_ARGUMENTS:
                error.show()  # the help
            else:
                complain(usage_text(error))
            raise SystemExit(error.exit_code) from None
        if standalone_mode:
            raise SystemExit(status if isinstance(status, int) else 0)
        return status


def _check_paths(ctx: Any, words: Sequence[str]) -> None:
    """Refuse an empty text where a command takes a file or a folder.

    Args:
        ctx: the context of the command, with the parsed values.
        words: its command line.

    Raises:
        BadParameter: names the option or the argument.
    """
    if not any(word == "" or word.endswith("=") for word in words):
        return
    texts = ctx.command.make_parser(ctx).parse_args(list(words))[0]
    for parameter in ctx.command.get_params(ctx):
        text, value = texts.get(parameter.name), ctx.params.get(parameter.name)
        values = value if isinstance(value, list | tuple) else [value]
        # Older releases of typer convert to a `Path` later, and have click's types.
        is_path = getattr(getattr(parameter, "type", None), "name", "") == _PATH or any(
            isinstance(each, Path) for each in values
        )
        if is_path and "" in (text if isinstance(text, list | tuple) else [text]):
            raise typer.BadParameter("'' names no file and no folder", ctx, parameter)


class Command(_PlainTextMixin, TyperCommand):
    """A command whose help and usage errors are plain text."""


class CommandGroup(_PlainTextMixin, TyperGroup):
    """A group of commands whose help and usage errors are plain text."""


_Callback = TypeVar("_Callback", bound=Callable[..., Any])


class Parser(typer.Typer):
    """A Typer application whose commands print plain text, and which passes errors on."""

    def __init__(self, **settings: Any) -> None:
        defaults: dict[str, Any] = {
            "cls": CommandGroup,
            "add_completion": False,
            "rich_markup_mode": None,
            "pretty_exceptions_enable": False,
        }
        super().__init__(**defaults | settings)

    def command(
        self, name: str | None = None, *, cls: type[TyperCommand] | None = None, **settings: Any
    ) -> Callable[[_Callback], _Callback]:
        """A decorator that makes a function a command."""
        return super().command(name, cls=cls or Command, **settings)


class CommandsOfFiles(CommandGroup):
    """A group of commands, each a function in the module of the same name.

    A module is imported when its command is called, or its help is printed.
    """

    room: ClassVar[str]
    names: ClassVar[Sequence[str]]

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        for name in self.names:
            self.add_command(TyperCommand(name))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command `cmd_name`, from its module; None for a name that is not in `names`."""
        del ctx
        if cmd_name not in self.names:
            return None
        application = Parser()
        application.command(cmd_name)(getattr(import_module(f"{self.room}.{cmd_name}"), cmd_name))
        return typer.main.get_command(application)
