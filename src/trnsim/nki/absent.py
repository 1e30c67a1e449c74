"""Names of NKI that only some of its versions have.

If the user has chosen a version (`behaviours.chosen`), a name that it lacks is absent
(`trnsim.absence`). Without a choice the name exists, and a call of it is refused inside a kernel
whose version lacks it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from types import FunctionType
from typing import Any

from trnsim.absence import Absence, AbsentNames
from trnsim.behaviours.chosen import asked_version
from trnsim.behaviours.names import BY_FORM
from trnsim.nki.dialect import require


class VersionedNames(AbsentNames):
    """The absent names of a module of NKI, and its names that only some versions have.

    Attributes:
        prefix: prefix of the module's names in the table of behaviours, such as "nl".
    """

    def __init__(
        self,
        module: str,
        public: str,
        explain: Callable[[str], Absence | None],
        prefix: str,
    ) -> None:
        """Absent names; `explain` gives the absence of a name that no version has."""
        super().__init__(module, public, explain)
        self.prefix = prefix
        self._versioned_names: dict[str, object] = {}

    def withdraw(self, namespace: dict[str, Any]) -> None:
        """Take the names that only some versions have out of a module's namespace."""
        for name in list(namespace):
            if f"{self.prefix}.{name}" in BY_FORM:
                self._versioned_names[name] = _versioned_value(
                    f"{self.prefix}.{name}", namespace.pop(name)
                )

    def names(self, namespace: dict[str, Any]) -> list[str]:
        """The module's `__dir__`: the names of the chosen version."""
        return [*namespace, *(name for name in self._versioned_names if self.explain(name) is None)]

    def explain(self, name: str) -> Absence | None:
        """The absence of a name; None for one that exists, or that AWS's module never had."""
        if name not in self._versioned_names:
            return super().explain(name)
        choice, row = asked_version(), BY_FORM[f"{self.prefix}.{name}"]
        if choice is None or choice.version.follows(row):
            return None
        reason = f"{row.form} exists {row.span}, and {choice.reason} asks for {choice.version}"
        return Absence(reason, fix=row.instead, source=row.source)

    def serve(self, name: str) -> Any:
        """The module's `__getattr__`: a name of the chosen version.

        Raises:
            AttributeError: for any other name; an AbsentAttribute for a name that AWS's module has,
                or that another version has.
        """
        if name in self._versioned_names and self.explain(name) is None:
            return self._versioned_names[name]
        return super().serve(name)


def _versioned_value(form: str, value: Any) -> Any:
    """`value`; a function is wrapped, to refuse calls where the kernel's version lacks it.

    Args:
        form: the name in the table of behaviours, such as "nl.load".
        value: the object of that name.
    """
    row = BY_FORM[form]
    if not isinstance(value, FunctionType):
        return value

    @wraps(value)
    def call(*args: Any, **kwargs: Any) -> Any:
        require(row, form)
        return value(*args, **kwargs)

    return call
