"""Predictor of speeds on today's instance and on candidates, with a cache of its answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from trnsim.arch.catalogue import Catalogue
from trnsim.decide.times import passing, serving, training
from trnsim.decide.times.speed import Speed
from trnsim.errors import EmulatorError
from trnsim.place.machine import machine

if TYPE_CHECKING:
    from trnsim.decide.inventory.workload import Workload


@dataclass(frozen=True)
class SpeedAnswer:
    """Speed of a workload on an instance type, or the reason why it cannot run.

    Attributes:
        speed: predicted speed; None if refused.
        refused: reason for the refusal; None with a speed.
    """

    speed: Speed | None
    refused: str | None = None


class Predictor:
    """Predictor of the speeds of workloads on instance types.

    Args:
        rows: catalogue of instances; the built-in one by default.
        tell: called with "WORKLOAD: INSTANCE" before each new prediction, to show progress.
    """

    def __init__(
        self, rows: Catalogue | None = None, tell: Callable[[str], None] | None = None
    ) -> None:
        self._rows = rows
        self._tell = tell
        self._answers: dict[tuple[object, ...], tuple[str, SpeedAnswer]] = {}

    def speed(
        self, workload: Workload, name: str, instances: int = 1, *, is_brief: bool = False
    ) -> SpeedAnswer:
        """Speed of `workload`, whatever its volume, bill and deadline.

        Args:
            workload: a workload of the inventory.
            name: instance type.
            instances: minimum number of instances of a training job; of no effect on other kinds.
            is_brief: True for a prediction of serving from shorter runs.
        """
        count = instances if workload.kind == "train" else 1
        is_brief = is_brief and workload.kind == "serve" and bool(workload.slo)
        key = (*self._workload_key(workload), *self._hardware_key(name), count, is_brief)
        if key not in self._answers:
            if self._tell is not None:
                self._tell(f"{workload.name}: {name}")
            self._answers[key] = name, self._answer(workload, name, count, is_brief=is_brief)
        predicted_name, answer = self._answers[key]
        return _rename(answer, predicted_name, name)

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
    def _workload_key(workload: Workload) -> tuple[object, ...]:
        """Properties of a workload that decide its speed."""
        model = str(workload.model_path), workload.port_state
        return (workload.kind, *model, workload.shape, workload.slo)

    def _hardware_key(self, name: str) -> tuple[object, ...]:
        """Properties of an instance type that decide a speed; equal types share an answer."""
        fleet = machine(name, rows=self._rows)
        chip, host = fleet.chip, fleet.instance
        return (chip.name, host.count, float(host.memory_bytes), host.efa_bytes_per_s, host.shape)


def _rename(answer: SpeedAnswer, old_name: str, new_name: str) -> SpeedAnswer:
    """The answer of instance type `old_name`, renamed for `new_name`, which has equal hardware."""
    speed = answer.speed
    if speed is None:
        return SpeedAnswer(None, (answer.refused or "").replace(old_name, new_name))
    layout = speed.layout.replace(old_name, new_name)
    notes = tuple(note.replace(old_name, new_name) for note in speed.notes)
    if (layout, notes) == (speed.layout, speed.notes):
        return answer
    return SpeedAnswer(replace(speed, layout=layout, notes=notes))
