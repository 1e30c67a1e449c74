"""Options of the commands that assess an inventory: which instances, and at which prices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from trnsim.cli.options import AsOf, OwnPrices, day_of
from trnsim.decide.assess import AssessmentOptions
from trnsim.errors import BadInput

if TYPE_CHECKING:
    from trnsim.arch.catalogue import Catalogue


@dataclass(frozen=True, kw_only=True)
class AskedOptions:
    """Which instances to look at, and whose prices."""

    on: Annotated[
        list[str] | None,
        typer.Option(help="Instances or families to look at alone.", metavar="INSTANCE"),
    ] = None
    price: Annotated[
        str,
        typer.Option(
            "--price", help="Purchase kind of both sides; without, today's.", metavar="KIND"
        ),
    ] = ""
    mixed_prices: Annotated[
        bool, typer.Option("--mixed-prices", help="Let another kind stand in, and say so.")
    ] = False
    prices: OwnPrices = None
    as_of: AsOf = None

    def asked(self, rows: Catalogue, seed: int) -> AssessmentOptions:
        """The question, with the day of its prices.

        Raises:
            BadInput: `as_of` is no day, or a later one.
        """
        return AssessmentOptions(
            on=tuple(self.on or ()),
            kind=self.price,
            as_of=day_of(self.as_of, rows),
            seed=seed,
            is_mixed=self.mixed_prices,
        )


def check_seed(seed: int) -> None:
    """Raise `BadInput` for a seed below zero."""
    if seed < 0:
        raise BadInput(f"--seed is {seed}; legal: whole numbers from 0 on")
