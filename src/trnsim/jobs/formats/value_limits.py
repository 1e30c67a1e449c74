"""Values of AWS's requests that are of the legal type, but beyond a limit of the service."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from typing import Any, Final

from trnsim.errors import SourceLine
from trnsim.jobs.field_fault import FieldFault
from trnsim.reader import SourcePlace

_MOST_ATTEMPTS: Final = 10
_RETRIES: Final = "AWS Batch API reference, RetryStrategy"
_NODES: Final = "AWS Batch API reference, NodeProperties, mainNode"
_WAIT: Final = "Amazon SageMaker API reference, StoppingCondition, MaxWaitTimeInSeconds"


def value_limits(name: str, place: SourcePlace) -> Iterator[tuple[FieldFault, SourceLine]]:
    """The faults of a document of the format called `name`, with their lines."""
    checks = {
        "batch": (_retries, _main_node),
        "batch-eks": (_retries, _main_node),
        "sagemaker-training": (_spot_wait,),
    }.get(name, ())
    for check in checks:
        for fault in check(place.value):
            yield fault, reduce(SourcePlace.inner, fault.keys, place).line


def _whole(value: Any, *keys: str) -> int | None:
    """The whole number under keys; None if there is none."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _retries(value: dict[str, Any]) -> Iterator[FieldFault]:
    strategy = value.get("retryStrategy")
    attempts = _whole(strategy, "attempts")
    if attempts is not None and not 1 <= attempts <= _MOST_ATTEMPTS:
        yield FieldFault(
            ("retryStrategy", "attempts"),
            "value-limit",
            f"{attempts} attempts; legal: 1 to {_MOST_ATTEMPTS}",
            f"write {min(max(attempts, 1), _MOST_ATTEMPTS)}",
            _RETRIES,
        )
    if isinstance(strategy, dict) and "evaluateOnExit" in strategy and "attempts" not in strategy:
        yield FieldFault(
            ("retryStrategy", "evaluateOnExit"),
            "value-limit",
            "evaluateOnExit without attempts, which are then required",
            f"add attempts: 1 to {_MOST_ATTEMPTS}",
            _RETRIES,
        )


def _main_node(value: dict[str, Any]) -> Iterator[FieldFault]:
    main, nodes = (_whole(value, "nodeProperties", name) for name in ("mainNode", "numNodes"))
    if main is not None and nodes is not None and not 0 <= main < nodes:
        yield FieldFault(
            ("nodeProperties", "mainNode"),
            "value-limit",
            f"the main node is {main} of {nodes} nodes, which are counted from 0",
            "write 0",
            _NODES,
        )


def _spot_wait(value: dict[str, Any]) -> Iterator[FieldFault]:
    condition = "StoppingCondition"
    wait, run = (
        _whole(value, condition, f"Max{name}InSeconds") for name in ("WaitTime", "Runtime")
    )
    limits = value.get(condition)
    is_spot = value.get("EnableManagedSpotTraining") is True
    has_wait = isinstance(limits, dict) and "MaxWaitTimeInSeconds" in limits
    if is_spot and isinstance(limits, dict) and not has_wait:
        yield FieldFault(
            (condition, "MaxWaitTimeInSeconds"),
            "value-limit",
            "spot training without MaxWaitTimeInSeconds, the time for capacity and the run",
            "add MaxWaitTimeInSeconds, of MaxRuntimeInSeconds or more",
            _WAIT,
        )
    if wait is not None and run is not None and wait < run:
        yield FieldFault(
            (condition, "MaxWaitTimeInSeconds"),
            "value-limit",
            f"MaxWaitTimeInSeconds is {wait}, less than the {run} of MaxRuntimeInSeconds",
            f"write {run} or more",
            _WAIT,
        )
