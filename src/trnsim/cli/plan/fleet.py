"""``trnsim plan fleet``: who has which chips in each hour, and what that brings."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from trnsim.cli.options import Seed
from trnsim.cli.plan.fleet_document import fleet_document
from trnsim.cli.progress import progress
from trnsim.cli.quantity_options import whole
from trnsim.cli.report_files import answering
from trnsim.document.answer import Document
from trnsim.errors import BadInput
from trnsim.system.fleet.comparison import DRAWS, POLICIES, compare
from trnsim.system.fleet.reading import read
from trnsim.system.fleet.report import values

_MOST_DRAWS: Final = 1000


@answering
def fleet(
    scenario: Annotated[
        Path,
        typer.Argument(
            help="A scenario: demand, jobs and buildings, in YAML.", metavar="SCENARIO.yaml"
        ),
    ],
    policy: Annotated[
        str,
        typer.Option(
            help="separate, threshold or solver, several with commas, or all.", metavar="NAME,..."
        ),
    ] = "all",
    draws: Annotated[
        int, whole("Draws of demand and failures.", minimum=1, maximum=_MOST_DRAWS)
    ] = DRAWS,
    seed: Seed = 0,
) -> Document:
    """Utilisation, SLO misses, trained tokens and USD of sharing a fleet, policy by policy.

    Services have what their demand needs, training jobs what is left: as two separate fleets, by
    thresholds hour by hour, or by a solver that looks a day ahead (extra trnsim[fleet]).

    Example: trnsim plan fleet examples/fleet.yaml
    """
    policies = _policies(policy)
    with progress() as tell:
        fleets = read(scenario, tell)
        results = compare(fleets, policies, draws=draws, seed=seed, tell=tell)
    return fleet_document(values(fleets, results, seed))


def _policies(names: str) -> tuple[str, ...]:
    """The policies that --policy names.

    Raises:
        BadInput: one of them is not known.
    """
    policies = tuple(dict.fromkeys(name.strip() for name in names.split(",")))
    if policies == ("all",):
        return POLICIES
    for name in policies:
        if name not in POLICIES:
            raise BadInput(
                f"--policy is {name!r}; legal: {', '.join(POLICIES)} or all", fix="--policy all"
            )
    return policies
