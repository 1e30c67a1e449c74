"""Factory of replicas: compiled or dynamic, by the engine."""

from __future__ import annotations

from trnsim.system.serve.compiled import CompiledReplica
from trnsim.system.serve.dynamic import DynamicReplica
from trnsim.system.serve.engine import Engine, StepCosts
from trnsim.system.serve.replica import Replica


def replica_of(engine: Engine, costs: StepCosts) -> Replica:
    """A new replica with an empty queue."""
    kind = CompiledReplica if engine.is_compiled else DynamicReplica
    return kind(engine, costs)
