"""A configuration of Hydra, such as NeMo's, whose fields may refer to others of the same file.

``${a.b}`` is the value under a.b, ``${.b}`` a value beside the reference, ``${..b}`` a value one
level above. Source:
OmegaConf 2.4, Usage, Variable interpolation. Resolvers (``${oc.env:HOME}``, ``${multiply:2,3}``)
are values that are not known. OmegaConf itself has no lines of values, and would read variables of
the environment.
"""

from __future__ import annotations

import re
from typing import Any, Final

from trnsim.jobs.formats.writing import in_order
from trnsim.jobs.job import KeptField
from trnsim.jobs.spec import SpecReader

Keys = tuple[str, ...]
"""Names that lead to a value."""

_INTERPOLATION: Final = re.compile(r"\$\{(\.*)([A-Za-z_]\w*(?:\.\w+)*)\}", re.ASCII)
_MOST_STEPS: Final = 8
"""Longest chain of references that is followed."""


class ConfigReader(SpecReader):
    """A configuration whose references are followed; the text of a reference is kept unchanged."""

    def target_keys(self, keys: Keys) -> Keys:
        """Keys of the value to which a reference under `keys` leads; `keys` itself without one."""
        target = keys
        for _ in range(_MOST_STEPS):
            value = self.value(*target)
            match = _INTERPOLATION.fullmatch(value) if isinstance(value, str) else None
            if match is None:
                return target
            dots = len(match[1])
            scope = target[: len(target) - dots] if 0 < dots <= len(target) else ()
            target = (*scope, *match[2].split("."))
            if self.place(*target) is None:
                return keys
        return keys

    def read_count(self, keys: Keys, field: str) -> int | None:
        """A whole number from 1 on; None without a value, and for a smaller number, which is kept.

        Raises:
            BadInput: the value is no whole number.
        """
        target = self._resolved_keys(keys, field)
        value = self.value(*target)
        if isinstance(value, int) and not isinstance(value, bool) and value < 1:
            return None
        was_taken = target in self._read_keys
        number = self.whole(*target, field=field, minimum=1)
        if target != keys and not was_taken:
            self.give_back(*target)
        return number

    def choice(self, keys: Keys, field: str, names: dict[Any, Any]) -> Any:
        """The value in `names` of the name under `keys`; None for any other name.

        The field is also kept if an earlier name in `names` has the same value, as a writer would
        write the earlier name.
        """
        place = self.place(*keys)
        if place is None:
            return None
        value = self.value(*self._resolved_keys(keys, field))
        if isinstance(value, (list, dict)) or value not in names:
            return None
        meaning = names[value]
        if place.value == next(name for name, other in names.items() if other == meaning):
            self.take(*keys, field=field)
        return meaning

    def sorted_kept_fields(self) -> tuple[KeptField, ...]:
        """The kept fields, in the order of their keys."""
        return in_order(self.kept_fields())

    def _resolved_keys(self, keys: Keys, field: str) -> Keys:
        """Keys of the value of a field; its line is the line of the field itself."""
        target, place = self.target_keys(keys), self.place(*keys)
        if target != keys and place is not None:
            self.lines.setdefault(field, place.line)
        return target
