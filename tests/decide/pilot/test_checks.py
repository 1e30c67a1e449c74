"""Thresholds that failed, and those that nobody measured, are told apart."""

from decision_cases import decision

from trnsim.decide.pilot.checks import Check, PilotResult, RateMeasurement

SIDE = RateMeasurement("today", "p5.48xlarge", 1e5, 1e5, 1.0, 0.01, 0.3, 0.02)


def check(name, is_met):
    return Check(name, "", 1.0, is_least=True, figure=None, is_met=is_met)


def test_what_failed_and_what_is_open():
    checks = (check("a", is_met=True), check("b", is_met=False), check("c", is_met=None))
    found = PilotResult((), SIDE, SIDE, checks, decision().workloads[0])
    assert [one.name for one in found.failed] == ["b"]
    assert [one.name for one in found.unmeasured] == ["c"]
