"""Decisions that tests of pages share, and each dollar computed again from a page's inputs."""

from dataclasses import replace
from datetime import date
from pathlib import Path

from trnsim.decide.assess import AssessmentOptions, assess

COMPANIES = Path(__file__).parents[1] / "companies"
NAMES = ("laws", "parcels", "bank", "thumbs")
ON = ("inf2.xlarge", "trn1.32xlarge", "trn2.48xlarge")


def assessed():
    """Four companies as one decision: go, go, no-go, stay; trn2 has no price on demand."""
    found = [
        assess(
            COMPANIES / name / "inventory.csv", AssessmentOptions(on=ON, as_of=date(2026, 11, 21))
        )
        for name in NAMES
    ]
    return replace(found[0], workloads=tuple(one for each in found for one in each.workloads))


def repeated(found, count):
    """The same workloads, by other names, until there are `count`."""
    several = found.workloads * (count // len(found.workloads) + 1)
    named = (replace(one, name=f"{one.name}-{at}") for at, one in enumerate(several[:count]))
    return replace(found, workloads=tuple(named))


def stack(candidate):
    """The stack of a candidate's programs."""
    return candidate["is_neuron"], candidate["instance"].startswith("inf1.")


def dollars(values):
    """Every dollar of figures.json that is not an input, by its place, from inputs alone."""
    assumed = {one["name"]: one["value"] for one in values["assumptions"]}
    limit, week = assumed["payback limit"], assumed["an engineer-week"]
    found, bills, after, once = {}, 0.0, 0.0, 0.0
    for at, one in enumerate(values["workloads"]):
        bill = one["today"]["usd_per_month"]
        place = f"/workloads/{at}"
        found[f"{place}/migration/usd"] = one["migration"]["weeks"] * week
        here = next(
            (c for c in one["candidates"] if c["instance"] == one["today"]["instance"]), None
        )
        for n, there in enumerate(one["candidates"]):
            weeks = "engineer-weeks between GPUs, Inf1 and AWS's later chips"
            if here is not None and stack(here) == stack(there):
                weeks = "engineer-weeks within any of these"
            cost = 0.0 if there is here else assumed[weeks] * week
            own = candidate_dollars(one["today"], there, cost, limit)
            found |= {f"{place}/candidates/{n}{name}": usd for name, usd in own.items()}
            if one["verdict"] == "go" and there["instance"] == one["best"]:
                after += own["/usd_per_month/p50"] - bill
                once += cost
        bills += bill
        after += bill
    sums = {"today_usd_per_month": bills, "after_usd_per_month": after, "migration_usd": once}
    return found | {f"/totals/{name}": usd for name, usd in sums.items()}


def candidate_dollars(today, there, cost, limit):
    """Dollars of one candidate: hours x price there over hours x price here, times the bill."""
    found, bill = {"/migration_usd": cost}, today["usd_per_month"]
    if there["paid_hours"] is None or today["paid_hours"] is None or today["price"] is None:
        return found
    here = today["paid_hours"] * today["price"]["usd_per_hour"]
    kept = 1 - cost / (limit * bill)
    if kept > 0:
        found["/break_even_usd_per_hour"] = kept * here / there["paid_hours"]
    if there["price"] is None:
        return found
    usd = bill * there["paid_hours"] * there["price"]["usd_per_hour"] / here
    found["/usd_per_month/p50"] = usd
    found["/usd_per_month/p10"] = bill * (1 - there["saving"]["p90"])
    found["/usd_per_month/p90"] = bill * (1 - there["saving"]["p10"])
    whole = sum(there["ms"].values())
    return found | {f"/usd/{cause}": usd * ms / whole for cause, ms in there["ms"].items()}


def is_input(place):
    """Whether a dollar is one of the user's or of a price table."""
    return place.endswith(("/today/usd_per_month", "/price/usd_per_hour", "/usd_per_week"))
