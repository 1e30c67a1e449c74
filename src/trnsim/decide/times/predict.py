"""Predictor for today's instance and for candidates; equal questions are answered once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trnsim.arch.catalogue import Catalogue
from trnsim.decide.times import passing, serving, training
from trnsim.decide.times.speed import Speed
from trnsim.errors import EmulatorError
from trnsim.place.machine import machine

if TYPE_CHECKING:
    from trnsim.decide.inventory.workload import Workload

__all__ = ["Predictor", "SpeedAnswer"]


@dataclass(frozen=True)
class SpeedAnswer:
    """Speed of a workload on an instance, or the reason for its lack."""

    speed: Speed | None
    refused: str | None = None


class Predictor:
    """Speeds of workloads on instances.

    Args:
        rows: catalogue of instances.
        tell: called with each new question.
    """

    def __init__(
        self, rows: Catalogue | None = None, tell: Callable[[str], None] | None = None
    ) -> None:
        self._rows = rows
        self._tell = tell
        self._answers: dict[tuple[object, ...], SpeedAnswer] = {}

    def speed(
        self, workload: Workload, name: str, instances: int = 1, *, is_brief: bool = False
    ) -> SpeedAnswer:
        """The speed of `workload` on the type `name`, with at least `instances` of it.

        Volume, bill and deadline have no influence on it. A brief answer about serving is from
        shorter runs.
        """
        count = instances if workload.kind == "train" else 1
        is_brief = is_brief and workload.kind == "serve" and has_promise(workload)
        key = (*self._question(workload), *self._hardware(name), count, is_brief)
        if key not in self._answers:
            if self._tell is not None:
                self._tell(f"{workload.name}: {name}")
            self._answers[key] = self._answer(workload, name, count, is_brief=is_brief)
        return self._answers[key]

    def _answer(
        self, workload: Workload, name: str, instances: int, *, is_brief: bool
    ) -> SpeedAnswer:
        try:
            if workload.kind == "train":
                return SpeedAnswer(training.speed(workload, name, instances, self._rows))
            if workload.kind == "serve":
                return SpeedAnswer(serving.speed(workload, name, self._rows, is_brief=is_brief))
            return SpeedAnswer(passing.speed(workload, name, self._rows))
        except EmulatorError as error:
            return SpeedAnswer(None, error.reason)

    @staticmethod
    def _question(workload: Workload) -> tuple[object, ...]:
        return (workload.kind, str(workload.model_path), workload.shape, workload.slo)

    def _hardware(self, name: str) -> tuple[object, ...]:
        """Properties of a type that decide a time: types of equal hardware share an answer."""
        fleet = machine(name, rows=self._rows)
        chip, host = fleet.chip, fleet.instance
        return (chip.name, host.count, float(host.memory_bytes), host.efa_bytes_per_s, host.shape)


def has_promise(workload: Workload) -> bool:
    """True if some latency of a workload is limited."""
    slo = workload.slo
    return any(limit is not None for limit in (slo.ttft_s, slo.tpot_s, slo.latency_s))
