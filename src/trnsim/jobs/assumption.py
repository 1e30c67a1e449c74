"""Answers of a user for what a spec does not state."""

from __future__ import annotations

from dataclasses import dataclass

from trnsim.arch.catalogue import Catalogue

__all__ = ["Assumption"]


@dataclass(frozen=True, kw_only=True)
class Assumption:
    """Answers for what a spec does not state.

    Attributes:
        instance: instance type of roles that state none.
        model: name of a model, or path of a config.json; before the spec's own.
        tokens: tokens of the run.
        steps: optimizer steps of the run.
        purchase: kind of purchase; before the spec's own.
        rows: catalogue of prices; the built-in one if None.
    """

    instance: str = ""
    model: str = ""
    tokens: float | None = None
    steps: int | None = None
    purchase: str = ""
    rows: Catalogue | None = None
