"""Faults of documents: fields and values that the service's description does not allow."""

from __future__ import annotations

from typing import NamedTuple

from trnsim.jobs.job import KeptField


class FieldFault(NamedTuple):
    """A field of a document that is unknown to the service, missing, or has an illegal value.

    Attributes:
        keys: the names and indexes that lead to the field, which may be missing.
        rule: name of the rule: "misspelled-field", "unknown-field", "ignored-field",
            "missing-field", "field-type", "misspelled-value", "unknown-value" or
            "misspelled-resource"; or a rule of `pod_faults` or `value_limits`.
        reason: the value, and the legal values.
        source: document that describes the field; "" if it is the source of the rule.
        document: "document" for the job's own document, "request" for a SubmitJob request.
    """

    keys: tuple[str | int, ...]
    rule: str
    reason: str
    fix: str
    source: str = ""
    document: str = "document"

    @property
    def path(self) -> str:
        """The path of the field's line in a spec."""
        return f"{self.document}.{self.name}"

    @property
    def name(self) -> str:
        """The name in words: ``spec.containers[0].tty``."""
        return KeptField(self.keys, None).name
