"""all_to_all_v and all_gather_v in two steps: a preparation and its trigger.

The preparation reads the metadata, and the trigger the data, so a kernel may prepare an exchange
while it still fills the sources. The preparation stores the metadata in the slot of its core, in
trnsim a hidden tensor in HBM, from which the trigger reads them. So the values are those of the
one-step collective.

AWS publishes no times. Assumed: the preparation takes the start-up time of the collective
(`fabric.constants.start_s`) and the trigger the rest, so that both together take as long as the
one-step collective.

Source: nki.collectives.all_to_all_v_prepare; nki.collectives.all_to_all_v_trigger.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final

import numpy as np

from trnsim.arch import NeuronCore
from trnsim.dtypes import UINT32, Array
from trnsim.fabric.topology import Racks
from trnsim.isa.collectives.setting import HIDDEN, Setting
from trnsim.isa.collectives.variable import AllGatherV, AllToAllV, VariableCollective
from trnsim.isa.language.declaration import (
    Operand,
    mentions_many,
    reads,
    reads_many,
    updates,
    writes_many,
)
from trnsim.isa.language.instruction import HBM, SBUF, Cost, Dims, Instruction
from trnsim.isa.language.machine import Machine
from trnsim.isa.language.modes import Engine
from trnsim.memory import Tile

SLOT_ROWS: Final = 4
"""Rows of a slot: send counts, send displacements, receive counts (zeros), receive displacements.
"""


def _hidden(operand_field: Any) -> dict[str, Any]:
    """Dataclass metadata of an operand that the run sets, not the kernel."""
    return {**operand_field.metadata, **HIDDEN}


def _slot(access: str) -> dict[str, Any]:
    """Dataclass metadata of the slot, a [4, N] uint32 tensor; `access` is that of an `Operand`."""
    return {"operand": Operand(access, (), (HBM,), (UINT32,)), **HIDDEN}


@dataclass(frozen=True)
class PreparedBy:
    """The preparation that a trigger names.

    Attributes:
        opcode: the preparation's opcode.
    """

    opcode: str

    def __repr__(self) -> str:
        return f"{self.opcode}(...)"


class Preparation(Instruction, engines=()):
    """Common base of all_to_all_v_prepare and all_gather_v_prepare.

    Attributes:
        one_step: class of the one-step collective, for its checks and cost.
        slot: the tensor that carries the metadata to the trigger; the run sets it.
    """

    one_step: ClassVar[type[VariableCollective]]
    srcs: tuple[Tile, ...] = mentions_many(HBM)
    dsts: tuple[Tile, ...] = mentions_many(HBM)
    replica_group: tuple[tuple[int, ...], ...]
    metadata_tensor: Tile = reads("", HBM, SBUF, dtypes=(UINT32,))
    recv_counts_known: bool = False
    has_rdispls: bool = False
    priority: int | None = field(default=None, kw_only=True)
    slot: Tile = field(kw_only=True, metadata=_slot("write"))
    setting: Setting = field(kw_only=True, metadata=HIDDEN)

    def check(self, core: NeuronCore, n: Dims) -> None:
        """As for the one-step collective; not on instances with NeuronSwitches."""
        fabric = self.setting.fabric
        if isinstance(fabric.topology, Racks):
            one_step = self.opcode.removesuffix("_prepare")
            self.refuse(
                f"{fabric.instance.name} has NeuronSwitches; legal: instances without them, such "
                "as those of trn2",
                f"call ncc.{one_step}, which exchanges in one step",
            )
        self._exchange().check(core, n)

    def accesses(self) -> tuple[list[Tile], list[Tile]]:
        """The rows of the metadata that are inputs are read; the slot is written."""
        return self._exchange().input_rows(), [self.slot]

    def execute(self, machine: Machine) -> None:
        """Store the metadata in the slot; refuse chunks to send that are not within the source."""
        exchange = self._exchange()
        exchange.check_internal()
        metadata = exchange.metadata()
        exchange.check_sent(metadata, machine.world(self.opcode).rank)
        self.slot.put(metadata.astype(np.uint32))

    def cost(self, core: NeuronCore, n: Dims) -> Cost:
        """The start-up time of the collective; 0 in groups of one rank."""
        exchange = self._exchange()
        is_in_hbm = self.metadata_tensor.memory is HBM
        return Cost(
            setup_s(exchange, exchange.cost(core, n)),
            0.0,
            hbm_bytes=self.metadata_tensor.nbytes if is_in_hbm else 0,
        )

    def _exchange(self) -> VariableCollective:
        """The one-step collective with these operands, under the preparation's opcode."""
        return self.one_step(
            self.srcs,
            self.dsts,
            self.replica_group,
            self.metadata_tensor,
            self.recv_counts_known,
            self.has_rdispls,
            priority=self.priority,
            setting=self.setting,
        )


class Trigger(VariableCollective, engines=()):
    """Common base of all_to_all_v_trigger and all_gather_v_trigger: metadata from the slot."""

    srcs: tuple[Tile, ...] = field(metadata=_hidden(reads_many(HBM)))
    dsts: tuple[Tile, ...] = field(metadata=_hidden(writes_many(HBM)))
    replica_group: tuple[tuple[int, ...], ...] = field(metadata=HIDDEN)
    metadata_tensor: Tile = field(metadata=_hidden(updates("", HBM, SBUF, dtypes=(UINT32,))))
    recv_counts_known: bool = field(default=False, metadata=HIDDEN)
    has_rdispls: bool = field(default=False, metadata=HIDDEN)
    priority: int | None = field(default=None, kw_only=True, metadata=HIDDEN)
    slot: Tile = field(kw_only=True, metadata=_slot("read"))
    prepare_instr: PreparedBy = field(kw_only=True)

    def input_rows(self) -> list[Tile]:
        """The slot, in place of rows of the metadata."""
        return [self.slot]

    def metadata(self) -> Array:
        """The metadata, [4, N], as they were when the exchange was prepared."""
        return self.slot.bits().reshape(SLOT_ROWS, -1).astype(np.int64)

    def cost(self, core: NeuronCore, n: Dims) -> Cost:
        """The cost of the one-step collective less its start-up time."""
        full_cost = super().cost(core, n)
        interval_s = full_cost.interval_s - setup_s(self, full_cost)
        busy_s = full_cost.engine_share * full_cost.interval_s
        share = busy_s / interval_s if interval_s else 0.0
        return replace(full_cost, interval_s=interval_s, engine_share=share)


def setup_s(exchange: VariableCollective, full_cost: Cost) -> float:
    """Start-up time of an exchange; at most the interval of `full_cost`, its cost in one step."""
    return min(exchange.setting.fabric.start_s, full_cost.interval_s)


class _PreparedAllToAllV(
    AllToAllV,
    engines=(),
    opcode="all_to_all_v_prepare",
    source="nki.collectives.all_to_all_v_prepare",
):
    """An all_to_all_v, under the name of its preparation."""


class _PreparedAllGatherV(
    AllGatherV,
    engines=(),
    opcode="all_gather_v_prepare",
    source="nki.collectives.all_gather_v_prepare",
):
    """An all_gather_v, under the name of its preparation."""


class AllToAllVPrepare(
    Preparation,
    engines=(Engine.collective,),
    opcode="all_to_all_v_prepare",
    source="nki.collectives.all_to_all_v_prepare",
    is_in_nki_isa=False,
):
    """``slot = metadata of an all_to_all_v``, which `all_to_all_v_trigger` carries out.

    Note:
        AWS publishes no time; the start-up time of the collective is assumed.
    """

    one_step = _PreparedAllToAllV


class AllGatherVPrepare(
    Preparation,
    engines=(Engine.collective,),
    opcode="all_gather_v_prepare",
    source="nki.collectives.all_gather_v_prepare",
    is_in_nki_isa=False,
):
    """``slot = metadata of an all_gather_v``, which `all_gather_v_trigger` carries out.

    Note:
        AWS publishes no time; the start-up time of the collective is assumed.
    """

    one_step = _PreparedAllGatherV


class AllToAllVTrigger(
    Trigger,
    AllToAllV,
    engines=(Engine.collective,),
    opcode="all_to_all_v_trigger",
    source="nki.collectives.all_to_all_v_trigger",
    is_in_nki_isa=False,
):
    """The `all_to_all_v` that `all_to_all_v_prepare` has prepared.

    Note:
        AWS publishes no time; the time of the one-step collective less its start-up is assumed.
    """


class AllGatherVTrigger(
    Trigger,
    AllGatherV,
    engines=(Engine.collective,),
    opcode="all_gather_v_trigger",
    source="nki.collectives.all_gather_v_trigger",
    is_in_nki_isa=False,
):
    """The `all_gather_v` that `all_gather_v_prepare` has prepared.

    Note:
        AWS publishes no time; the time of the one-step collective less its start-up is assumed.
    """
