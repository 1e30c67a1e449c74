"""A field of a document that is not as the service describes it."""

from __future__ import annotations

from typing import NamedTuple

from trnsim.jobs.job import KeptField

__all__ = ["FieldFault"]


class FieldFault(NamedTuple):
    """A field of a document that the service's description does not have, or not like this.

    Attributes:
        keys: the names and indexes that lead to it, also to one that is missing.
        rule: name of the rule: "misspelled-field", "unknown-field", "ignored-field",
            "missing-field", "field-type", "misspelled-value", "unknown-value" or
            "misspelled-resource"; or of `pod_faults` and `value_limits`.
        reason: what stands there, and what is legal.
        fix: what to change.
        source: the description; "" for that of the rule.
        document: the document that has it: the job's own, or a request beside it.
    """

    keys: tuple[str | int, ...]
    rule: str
    reason: str
    fix: str
    source: str = ""
    document: str = "document"

    @property
    def path(self) -> str:
        """The path of its line in a spec."""
        return f"{self.document}.{self.name}"

    @property
    def name(self) -> str:
        """The name in words: ``spec.containers[0].tty``."""
        return KeptField(self.keys, None).name
