"""Reading the keys of a ``config.json``, with errors that name the key and what is legal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trnsim.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Mapping


class Keys:
    """A configuration, and the file that errors name.

    Attributes:
        config: what the file holds.
        file: its name.
    """

    def __init__(self, config: Mapping[str, Any], file: str) -> None:
        self.config = config
        self.file = file

    def whole(self, *names: str, default: int | None = None, least: int = 1) -> int:
        """The whole number under the first of `names` that is there.

        Raises:
            BadInput: none is there and there is no default; it is no whole number of `least`.
        """
        name = self._first(names)
        if name is None:
            if default is not None:
                return default
            found = ", ".join(sorted(self.config)) or "none"
            raise BadInput(
                f"{self.file}: key {names[0]!r} is missing; keys found: {found}",
                fix=f'add "{names[0]}": <whole number> to {self.file}',
            )
        value = self.config[name]
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            legal = "a positive whole number" if least == 1 else f"a whole number from {least} on"
            raise BadInput(
                f"{self.file}: {name} is {value!r}, it must be {legal}",
                fix=f'write "{name}": <whole number> in {self.file}',
            )
        return value

    def flag(self, name: str, *, default: bool = False) -> bool:
        """Whether the key `name` is true."""
        value = self.config.get(name)
        return default if value is None else bool(value)

    def text(self, name: str, default: str = "") -> str:
        """The text under `name`."""
        value = self.config.get(name)
        return default if value is None else str(value)

    def refuse(self, name: str, given: object, legal: str, why: str) -> BadInput:
        """The error for a key whose value cannot be."""
        return BadInput(
            f"{self.file}: {name} is {given!r}; legal: {legal}: {why}",
            fix=f"correct {name} in {self.file}",
        )

    def _first(self, names: tuple[str, ...]) -> str | None:
        return next((name for name in names if self.config.get(name) is not None), None)
