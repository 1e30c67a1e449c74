"""Claims by id against edited rows, and figures by the words of their bases."""

from trnsim.arch.catalogue import parse
from trnsim.system.claims import claims


def judged(rows, claim_id):
    """The claim called `claim_id`, judged against stored rows."""
    return next(claim for claim in claims(parse(rows)) if claim.id == claim_id)


def values(claim, part=0):
    """Figures of a part, in order."""
    return [basis.value for basis in claim.parts[part].bases]


def value(claim, *words, part=0):
    """The one figure of a part whose basis has all `words`."""
    found = [b.value for b in claim.parts[part].bases if all(word in b.text for word in words)]
    assert len(found) == 1, (words, [b.text for b in claim.parts[part].bases])
    return found[0]


def price(instance, kind, usd_per_hour, as_of="2026-11-20"):
    """A stored row of prices."""
    return {
        "instance": instance,
        "kind": kind,
        "usd_per_hour": usd_per_hour,
        "region": "us-east-1",
        "as_of": as_of,
        "source": ["kiln"],
    }
