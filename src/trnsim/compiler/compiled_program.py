"""The program of a graph: its time, its work by modules, and its physical bound."""

from __future__ import annotations

from dataclasses import dataclass, replace

from trnsim import arch
from trnsim.arch.peaks import peak_flop_per_s
from trnsim.compiler.flags import Flags
from trnsim.isa import Engine
from trnsim.lower import Bound, Cost, GraphExchange
from trnsim.profile.analysis.model_estimate import ModelEstimate, Share
from trnsim.profile.measures.parts import PartCost


@dataclass(frozen=True, slots=True)
class CompiledProgram:
    """A graph as a program.

    Attributes:
        lnc: number of physical cores of a logical core.
        flags: the flags of neuronx-cc with which it was compiled.
        device_time_s: time from the first instruction to the last result.
        launch_s: time to start the program.
        programs: number of programs into which branches, loops and kernels split it.
        layers: number of equal layers of which a few were compiled; 0 if all operations were.
        compiled_layers: number of those layers that were compiled.
        shares: work of the operations by modules of the model, in its order.
        bound: the time below which no program can be.
        notes: sentences on the parts that run as separate kernels, and on those that only one core
            computes.
        exchanges: exchanges between ranks that are not in the program; the caller adds their time.
        crowding: a sentence on results that do not fit in SBUF; "" if their moves take little.
    """

    target: str
    lnc: int
    flags: Flags
    device_time_s: float
    launch_s: float
    instructions: int
    programs: int
    layers: int
    compiled_layers: int
    shares: tuple[Share, ...]
    bound: Bound
    notes: tuple[str, ...] = ()
    exchanges: tuple[GraphExchange, ...] = ()
    crowding: str = ""

    @property
    def exchanged_s(self) -> float:
        """Time of the exchanges in the program, hidden or not."""
        name = Engine.collective.name
        return sum(share.part.busy_s.get(name, 0.0) for share in self.shares)

    @property
    def exposed_s(self) -> float:
        """Time of exchanges on the critical path: the rest is hidden beside other instructions."""
        name = Engine.collective.name
        return sum(share.part.critical_s.get(name, 0.0) for share in self.shares)

    def costs(self) -> tuple[Cost, ...]:
        """Costs of the program's operations, the dearest first, each with the program's launch.

        An operation's time is its part of the critical path, so that the times add up to the
        program's; its flop are a share in proportion to its time on the Tensor Engine.
        """
        work: dict[str, PartCost] = {}
        for share in self.shares:
            work[share.operation] = work.get(share.operation, PartCost()).plus(share.part)
        tensor_s = {name: part.busy_s.get(Engine.tensor.name, 0.0) for name, part in work.items()}
        total_tensor_s = sum(tensor_s.values()) or 1.0
        return tuple(
            Cost(
                name,
                part.time_s,
                self.launch_s,
                round(part.instructions),
                self.bound.flop * tensor_s[name] / total_tensor_s,
                round(sum(part.hbm_bytes.values())),
                dict(part.busy_s),
            )
            for name, part in sorted(work.items(), key=lambda item: -item[1].time_s)
        )

    @property
    def bound_ratio(self) -> float:
        """The program's time divided by the physical bound."""
        return self.device_time_s / self.bound.seconds if self.bound.seconds else float("inf")

    @property
    def mfu(self) -> float:
        """``bound.flop / (peak * device_time_s)``: model flop utilization.

        The peak is that of bfloat16 on the physical cores, by the Tensor Engine's clock.
        """
        peak = self.lnc * peak_flop_per_s(arch.target(self.target).core)
        return self.bound.flop / (peak * self.device_time_s) if self.device_time_s else 0.0

    @property
    def mbu(self) -> float:
        """``bound.hbm_s / device_time_s``: weights, inputs and outputs once over HBM."""
        return self.bound.hbm_s / self.device_time_s if self.device_time_s else 0.0

    def step_estimate(self, links_s: float = 0.0, exchanges_s: float = 0.0) -> ModelEstimate:
        """The estimate of a step.

        Args:
            links_s: seconds that the links need at least for the data of a step's exchanges.
            exchanges_s: seconds of the exchanges that are not part of the program.
        """
        limit = replace(self.bound, links_s=links_s)
        return ModelEstimate(
            self.launch_s,
            self.device_time_s,
            exchanges_s,
            limit.seconds,
            limit.binds,
            limit.flop,
            limit.hbm_bytes,
            self.mfu,
            self.mbu,
            self.programs,
            self.layers,
            self.compiled_layers,
            self.shares,
            (*self.notes, *([self.crowding] if self.crowding else [])),
        )
