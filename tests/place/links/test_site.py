"""What joins instances."""

from trnsim.facts import Evidence
from trnsim.place.links import CAMPUS


def test_what_nobody_publishes_is_marked_so():
    assert CAMPUS.between_bytes_per_s.provenance.kind is Evidence.ASSUMED
    assert CAMPUS.between_hop_s == 10e-6
