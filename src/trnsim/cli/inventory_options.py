"""Options of the commands that assess an inventory: candidates, and their prices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from trnsim.arch.catalogue import Catalogue
from trnsim.cli.on import on_option
from trnsim.cli.options import AsOf, MixedPrices, OwnPrices, day_of, price_option
from trnsim.decide.assess import AssessmentOptions
from trnsim.place.platform import listed_names


@dataclass(frozen=True, kw_only=True)
class InventoryOptions:
    """Options that name the candidates of a decision, and the prices."""

    on: Annotated[list[str] | None, on_option("all of AWS's chips, and GPUs")] = None
    price: Annotated[str, price_option("today's of each workload")] = ""
    mixed_prices: MixedPrices = False
    prices: OwnPrices = None
    as_of: AsOf = None

    def assessment(self, rows: Catalogue, seed: int) -> AssessmentOptions:
        """The options of the assessment, with the day of its prices.

        Raises:
            BadInput: `as_of` is no day, or one after today.
        """
        return AssessmentOptions(
            on=tuple(listed_names(self.on)),
            kind=self.price,
            as_of=day_of(self.as_of, rows),
            seed=seed,
            is_mixed=self.mixed_prices,
        )
