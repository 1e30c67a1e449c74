"""Places with made-up speeds, which several test files compare."""

from datetime import date

from trnsim.arch.catalogue import catalogue
from trnsim.decide.candidates import WorkloadPlacements
from trnsim.decide.times.predict import SpeedAnswer
from trnsim.decide.times.speed import Speed

DAY = date(2026, 11, 21)


class Told:
    """A predictor that answers what it is told: units a second, by instance."""

    def __init__(self, speeds, doubts=None, *, is_validated=True, is_met=None, group=1):
        self.speeds = speeds
        self.doubts = doubts or {}
        self.is_validated = is_validated
        self.is_met = is_met
        self.group = group

    def speed(self, _workload, name, _instances=1, *, is_brief=False):  # noqa: ARG002
        if name not in self.speeds:
            return SpeedAnswer(None, "no room")
        return SpeedAnswer(
            Speed(
                self.speeds[name],
                self.group,
                self.doubts.get(name, {}),
                "training",
                is_validated=self.is_validated,
                error={"median": 0.067, "p90": 0.219},
                is_met=self.is_met,
                ms={"compute": 3.0, "tensor": 1.0},
            )
        )


def places(speeds, doubts=None, *, kind="", is_mixed=False, **told):
    """Places whose speeds are told."""
    predictor = Told(speeds, doubts, **told)
    return WorkloadPlacements(predictor, catalogue(), kind=kind, as_of=DAY, is_mixed=is_mixed)
