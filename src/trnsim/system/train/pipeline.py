"""Pipeline schedules: the order of each stage's operations, and their start and end times.

An operation is the forward pass, the backward pass or the weight gradients of one micro batch on
one model chunk. A stage runs its operations in order, each as soon as the stage is free and the
operation's input has arrived. The bubble of a stage, for equal stages and free transfers, is

    1F1B          (p - 1) (F + B)           B contains the weight gradients
    interleaved   (p - 1) (F + B) / v
    ZB-H1         (p - 1) (F + B - W)       B does not contain the weight gradients
    ZB-H2         (p - 1) (F + B - 2 W)

with p stages, v chunks of a stage, and the seconds F, B and W of a stage's forward pass, backward
pass and weight gradients of one micro batch.

Source: Narayanan et al. 2021 (arXiv:2104.04473), section 2.2; Qi et al. 2023 (arXiv:2401.10241),
table 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from trnsim.errors import InternalError

FORWARD, BACKWARD, WEIGHTS = range(3)
KINDS: Final = ("forward", "backward", "weight gradients")

Operation = tuple[int, int, int]
"""An operation: its kind, the number of the model chunk in model order, the number of the micro
batch. Chunk k lies on stage ``k % stages``."""


class StageSpan(NamedTuple):
    """An operation with its start and end, in seconds."""

    operation: Operation
    start_s: float
    end_s: float


@dataclass(frozen=True)
class StageCosts:
    """Seconds of each chunk's operations.

    Attributes:
        forward_s: the forward pass of each chunk.
        backward_s: the backward pass of each chunk; without the gradients of weights if they are in
            `weights_s`.
        weights_s: the gradients of weights of each chunk; zeros if they are in `backward_s`.
        transfer_s: a transfer between stages: of activations forward, or of gradients backward.
    """

    forward_s: Sequence[float]
    backward_s: Sequence[float]
    weights_s: Sequence[float]
    transfer_s: float = 0.0


@dataclass(frozen=True)
class StepSchedule:
    """The timed operations of a step.

    Attributes:
        stages: the spans of each stage, in order.
    """

    stages: list[list[StageSpan]]

    @property
    def time_s(self) -> float:
        """Seconds of a step: the longest time of a stage from its first operation to its last.

        The operations of the next step follow at once: under ZB-H2, where later stages begin and
        end later, steps overlap; under other schedules a step begins and ends on the first stage.
        """
        return max(
            (spans[-1].end_s - spans[0].start_s for spans in self.stages if spans), default=0.0
        )

    @property
    def busy_s(self) -> list[float]:
        """Seconds for which each stage computes."""
        return [sum(span.end_s - span.start_s for span in spans) for spans in self.stages]

    @property
    def bubble_s(self) -> list[float]:
        """Seconds for which each stage waits."""
        return [self.time_s - busy_s for busy_s in self.busy_s]


def orders(schedule: str, stages: int, chunks: int, micro_batches: int) -> list[list[Operation]]:
    """Each stage's operations in their order.

    Args:
        schedule: "1f1b", "zb-h1" or "zb-h2".
        stages: number of stages of the pipeline.
        chunks: number of chunks of each stage; with more than one the schedule is interleaved.
        micro_batches: number of micro batches of a step; a multiple of `stages` if interleaved.
    """
    if chunks > 1:
        return [_interleaved_order(stage, stages, chunks, micro_batches) for stage in range(stages)]
    depth = {"1f1b": 0, "zb-h1": 1, "zb-h2": 2}[schedule]
    return [_alternating_order(stage, stages, micro_batches, depth) for stage in range(stages)]


def _alternating_order(stage: int, stages: int, micro_batches: int, depth: int) -> list[Operation]:
    """Forward passes to fill the pipeline, then one forward and one backward pass in turn.

    Zero-bubble schedules (`depth` 1 for ZB-H1, 2 for ZB-H2) defer weight gradients by ``depth x
    stage`` micro batches; the last of them follow the last backward pass.
    """
    first_forwards = min((stages - stage - 1) * max(depth, 1), micro_batches)
    order = [(FORWARD, stage, micro_batch) for micro_batch in range(first_forwards)]
    deferral = depth * stage
    for micro_batch in range(micro_batches):
        if first_forwards + micro_batch < micro_batches:
            order.append((FORWARD, stage, first_forwards + micro_batch))
        order.append((BACKWARD, stage, micro_batch))
        if depth and micro_batch >= deferral:
            order.append((WEIGHTS, stage, micro_batch - deferral))
    late_weights = range(max(micro_batches - deferral, 0), micro_batches) if depth else ()
    return order + [(WEIGHTS, stage, micro_batch) for micro_batch in late_weights]


def _interleaved_order(stage: int, stages: int, chunks: int, micro_batches: int) -> list[Operation]:
    """Interleaved order: each group of `stages` micro batches passes chunk by chunk."""
    turns = chunks * micro_batches
    first_forwards = min(2 * (stages - stage - 1) + (chunks - 1) * stages, turns)

    def chunk_and_micro_batch(turn: int, *, is_forward: bool) -> tuple[int, int]:
        group, position = divmod(turn, stages * chunks)
        chunk, micro_batch = divmod(position, stages)
        chunk = chunk if is_forward else chunks - 1 - chunk
        return chunk * stages + stage, group * stages + micro_batch

    forwards = [(FORWARD, *chunk_and_micro_batch(turn, is_forward=True)) for turn in range(turns)]
    backwards = [
        (BACKWARD, *chunk_and_micro_batch(turn, is_forward=False)) for turn in range(turns)
    ]
    order = forwards[:first_forwards]
    for turn, backward in enumerate(backwards):
        order += [*forwards[first_forwards + turn : first_forwards + turn + 1], backward]
    return order


def run(stage_orders: Sequence[Sequence[Operation]], costs: StageCosts) -> StepSchedule:
    """The schedule with the start and end of each operation.

    `stage_orders` are the operations of each stage in order, see `orders`.
    """
    run = _Run(stage_orders, costs)
    run.finish()
    return StepSchedule(
        [_spans(order, ends, costs) for order, ends in zip(stage_orders, run.ends, strict=True)]
    )


def _spans(order: Sequence[Operation], ends: list[float], costs: StageCosts) -> list[StageSpan]:
    times = (costs.forward_s, costs.backward_s, costs.weights_s)
    return [
        StageSpan(operation, end_s - times[operation[0]][operation[1]], end_s)
        for operation, end_s in zip(order, ends, strict=True)
    ]


class _Run:
    """Simulation of a schedule.

    Attributes:
        ends: end times of the operations of each stage, in seconds.
    """

    def __init__(self, stage_orders: Sequence[Sequence[Operation]], costs: StageCosts) -> None:
        self._orders = stage_orders
        self._times = (costs.forward_s, costs.backward_s, costs.weights_s)
        self._transfer_s = costs.transfer_s if len(stage_orders) > 1 else 0.0
        self._last = len(costs.forward_s) - 1
        self._end_s_of: dict[Operation, float] = {}
        self._waiting: dict[Operation, int] = {}
        self.ends: list[list[float]] = [[] for _ in stage_orders]

    @property
    def longest_s(self) -> float:
        """Longest time of a stage from its first operation to its last, in seconds."""
        first_operations_s = [self._times[order[0][0]][order[0][1]] for order in self._orders]
        pairs = zip(self.ends, first_operations_s, strict=True)
        return max(ends[-1] - (ends[0] - first_s) for ends, first_s in pairs)

    def finish(self) -> None:
        """Run all stages.

        Raises:
            InternalError: deadlock of stages, which no legal order has.
        """
        ready_stages = list(range(len(self._orders)))
        while ready_stages:
            ready_stages += self._advance(ready_stages.pop())
        if self._waiting:
            raise InternalError(f"stages wait for each other: {next(iter(self._waiting))}")

    def _advance(self, stage: int) -> list[int]:
        """Run a stage until it waits for an input; return the stages that waited for it."""
        ends, order, ends_s, waiting_stages = (
            self.ends[stage],
            self._orders[stage],
            self._end_s_of,
            self._waiting,
        )
        free_s = ends[-1] if ends else 0.0
        woken_stages: list[int] = []
        for operation in order[len(ends) :]:
            predecessor, transfer_s = self._needed_operation(operation)
            if predecessor is not None:
                if predecessor not in ends_s:
                    waiting_stages[predecessor] = stage
                    break
                free_s = max(free_s, ends_s[predecessor] + transfer_s)
            free_s += self._times[operation[0]][operation[1]]
            ends.append(free_s)
            ends_s[operation] = free_s
            if operation in waiting_stages:
                woken_stages.append(waiting_stages.pop(operation))
        return woken_stages

    def _needed_operation(self, operation: Operation) -> tuple[Operation | None, float]:
        """The operation on another stage whose result this one needs, and seconds of the transfer.

        None for weight gradients, whose inputs the same stage has computed before.
        """
        kind, chunk, micro_batch = operation
        if kind == FORWARD and chunk:
            return (FORWARD, chunk - 1, micro_batch), self._transfer_s
        if kind == BACKWARD and chunk < self._last:
            return (BACKWARD, chunk + 1, micro_batch), self._transfer_s
        return None, 0.0


_MOST_OPERATIONS: Final = 1 << 14
"""Maximum number of operations of a schedule that is simulated as a whole."""
_LEAST_AND_MOST_ROUNDS: Final = (2, 8)
"""Minimum and maximum of the rounds, of `stages` micro batches each, until steps are steady."""


def step_s(schedule: str, stages: int, chunks: int, micro_batches: int, costs: StageCosts) -> float:
    """Seconds of a step; long steps are extrapolated from two short ones.

    In a full pipeline every round of `stages` micro batches takes the same time, so that the
    difference of two short steps is the time of their extra rounds. Arguments as for `orders`.
    """

    def simulated_s(count: int) -> float:
        simulation = _Run(orders(schedule, stages, chunks, count), costs)
        simulation.finish()
        return simulation.longest_s

    if stages == 1:
        return micro_batches * sum(map(sum, (costs.forward_s, costs.backward_s, costs.weights_s)))
    least_rounds, most_rounds = _LEAST_AND_MOST_ROUNDS
    rounds = min(max(_MOST_OPERATIONS // (stages * stages * chunks), least_rounds), most_rounds)
    extra_count = rounds * stages
    short_count = extra_count + micro_batches % stages
    is_simulated_whole = 2 * stages * chunks * micro_batches <= _MOST_OPERATIONS
    if is_simulated_whole or micro_batches <= short_count + extra_count:
        return simulated_s(micro_batches)
    short_s, long_s = simulated_s(short_count), simulated_s(short_count + extra_count)
    return short_s + (micro_batches - short_count) / extra_count * (long_s - short_s)
