from trnsim.facts import Evidence
from trnsim.place.machine import machine
from trnsim.system.serve import constants


def test_the_host_is_assumed_and_said_to_be():
    for on, least in (("trn2", 0.0), ("p5en", 1e-4)):
        fact = constants.host_s(machine(on))
        assert fact >= least
        assert fact.provenance.kind is Evidence.ASSUMED
    assert constants.LOAD_BYTES_PER_S.provenance.kind is Evidence.DERIVED
