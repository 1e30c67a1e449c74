"""all_to_all_v and all_gather_v in two steps: a preparation, and its trigger.

A core has one slot for a prepared exchange: each preparation has its trigger before the next.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any
from weakref import WeakKeyDictionary

from trnsim.dtypes import UINT32
from trnsim.errors import IllegalInstruction, SourceLine, user_line
from trnsim.isa import (
    AllGatherVPrepare,
    AllGatherVTrigger,
    AllToAllVPrepare,
    AllToAllVTrigger,
    Instruction,
)
from trnsim.isa.collectives.prepared import SLOT_ROWS, Preparation, PreparedBy, Trigger
from trnsim.nki.collectives.issuing import Tensors, as_tensors, instruction_of, issue_instruction
from trnsim.nki.collectives.replica_group import ReplicaGroup, groups_of
from trnsim.nki.indexing import MemoryRegion
from trnsim.nki.instruction import NkiInstruction
from trnsim.nki.language.creation import ndarray
from trnsim.program import current_core
from trnsim.program.context import CoreContext


@dataclass
class _PreparedExchange:
    """A prepared exchange.

    Attributes:
        handle: the handle that the preparation returned to the user.
        instruction: the preparation.
        line: the user's line of the call that prepared it.
        trigger_line: the user's line of the trigger; None before the trigger.
        is_triggered: whether the trigger was called.
    """

    handle: NkiInstruction
    instruction: Preparation
    line: SourceLine | None
    trigger_line: SourceLine | None = None
    is_triggered: bool = False


_slots: WeakKeyDictionary[CoreContext, _PreparedExchange] = WeakKeyDictionary()
"""The last prepared exchange of each core."""


def all_to_all_v_prepare(
    srcs: Tensors,
    dsts: Tensors,
    replica_group: ReplicaGroup,
    metadata_tensor: Any,
    recv_counts_known: bool = False,
    has_rdispls: bool = False,
    priority: int | None = None,
    name: str | None = None,
) -> NkiInstruction:
    """The preparation of an `all_to_all_v`, which `all_to_all_v_trigger` carries out.

    It reads the metadata, and neither reads `srcs` nor writes `dsts`: they may be filled later.
    The arguments are those of `all_to_all_v`.

    Raises:
        IllegalInstruction: while another preparation waits for its trigger; on instances with
            NeuronSwitches; for arguments that `all_to_all_v` refuses.

    Source: nki.collectives.all_to_all_v_prepare.
    """
    flags = {"recv_counts_known": recv_counts_known, "has_rdispls": has_rdispls}
    return _prepare(
        AllToAllVPrepare, srcs, dsts, replica_group, metadata_tensor, flags, priority, name
    )


def all_gather_v_prepare(
    srcs: Tensors,
    dsts: Tensors,
    replica_group: ReplicaGroup,
    metadata_tensor: Any,
    recv_counts_known: bool = False,
    has_rdispls: bool = False,
    priority: int | None = None,
    name: str | None = None,
) -> NkiInstruction:
    """The preparation of an `all_gather_v`, which `all_gather_v_trigger` carries out.

    As `all_to_all_v_prepare`; the arguments are those of `all_gather_v`.

    Source: nki.collectives.all_gather_v_prepare.
    """
    flags = {"recv_counts_known": recv_counts_known, "has_rdispls": has_rdispls}
    return _prepare(
        AllGatherVPrepare, srcs, dsts, replica_group, metadata_tensor, flags, priority, name
    )


def all_to_all_v_trigger(prepare_instr: NkiInstruction, name: str | None = None) -> NkiInstruction:
    """The `all_to_all_v` that `prepare_instr` prepared: it reads srcs and writes dsts.

    Raises:
        IllegalInstruction: unless `prepare_instr` is the result of the core's last
            `all_to_all_v_prepare`, which no other trigger has carried out.

    Source: nki.collectives.all_to_all_v_trigger.
    """
    return _trigger(AllToAllVTrigger, prepare_instr, name)


def all_gather_v_trigger(prepare_instr: NkiInstruction, name: str | None = None) -> NkiInstruction:
    """The `all_gather_v` that `prepare_instr` prepared; as `all_to_all_v_trigger`.

    Source: nki.collectives.all_gather_v_trigger.
    """
    return _trigger(AllGatherVTrigger, prepare_instr, name)


def check_triggered() -> None:
    """Refuse a kernel that ends, on the current core, before its last preparation is triggered.

    Raises:
        IllegalInstruction: at the line of the preparation.
    """
    exchange = _slots.get(current_core())
    if exchange is None or exchange.is_triggered:
        return
    opcode = exchange.instruction.opcode
    raise IllegalInstruction(
        f"{opcode} has no trigger before the end of the kernel; legal: one for each preparation",
        fix=f"keep the result, and call ncc.{_trigger_of(opcode)}(result) when srcs are filled",
        source=exchange.instruction.source,
        line=exchange.line,
    )


def _prepare(
    kind: type[Preparation],
    srcs: Tensors,
    dsts: Tensors,
    replica_group: ReplicaGroup,
    metadata_tensor: Any,
    flags: dict[str, bool],
    priority: int | None,
    name: str | None,
) -> NkiInstruction:
    """Issue the preparation `kind` with a new slot tensor, and note it as the core's last one."""
    context = current_core()
    context.world(kind.opcode)
    _check_free(kind, _slots.get(context))
    groups = groups_of(kind.opcode, replica_group)
    group_size = max(map(len, groups), default=1) or 1
    instruction = instruction_of(
        kind,
        srcs=as_tensors(srcs),
        dsts=as_tensors(dsts),
        replica_group=groups,
        metadata_tensor=metadata_tensor,
        **flags,
        priority=priority,
        slot=ndarray((SLOT_ROWS, group_size), UINT32, MemoryRegion.private_hbm, name=kind.opcode),
    )
    handle = issue_instruction(instruction, name)
    _slots[context] = _PreparedExchange(handle, instruction, user_line())
    return handle


def _trigger(kind: type[Trigger], prepare_instr: Any, name: str | None) -> NkiInstruction:
    """Issue the trigger `kind` with the operands of its preparation."""
    context = current_core()
    context.world(kind.opcode)
    exchange = _checked_preparation(kind, prepare_instr, _slots.get(context))
    preparation = exchange.instruction
    operands = {field.name: getattr(preparation, field.name) for field in fields(preparation)}
    handle = issue_instruction(kind(**operands, prepare_instr=PreparedBy(preparation.opcode)), name)
    exchange.is_triggered, exchange.trigger_line = True, user_line()
    return handle


def _check_free(kind: type[Instruction], exchange: _PreparedExchange | None) -> None:
    """Refuse to prepare an exchange while another waits for its trigger."""
    if exchange is None or exchange.is_triggered:
        return
    opcode = exchange.instruction.opcode
    raise IllegalInstruction(
        f"{kind.opcode} while the exchange of {opcode} at {exchange.line} waits for its trigger; "
        "legal: one prepared exchange of any kind at a time",
        fix=f"call ncc.{_trigger_of(opcode)} for it before",
        source=kind.source,
    )


def _checked_preparation(
    kind: type[Instruction], handle: Any, last_exchange: _PreparedExchange | None
) -> _PreparedExchange:
    """`last_exchange`, checked to be the exchange of `handle` and not triggered yet.

    Args:
        kind: class of the trigger.
        handle: the user's `prepare_instr`.
        last_exchange: the core's last prepared exchange.

    Raises:
        IllegalInstruction: for any other `handle`.
    """
    prepare_opcode = kind.opcode.replace("_trigger", "_prepare")
    if (
        last_exchange is not None
        and handle is last_exchange.handle
        and not last_exchange.is_triggered
    ):
        _check_same(kind, last_exchange.instruction.opcode)
        return last_exchange
    fix = f"call it with the result of ncc.{prepare_opcode}, once for each"
    if not isinstance(handle, NkiInstruction):
        state = f"is {type(handle).__name__}"
    elif last_exchange is not None and handle is last_exchange.handle:
        state = f"was triggered at {last_exchange.trigger_line}"
    else:
        state = f"is {handle!r}"
    raise IllegalInstruction(
        f"{kind.opcode}: `prepare_instr` {state}; legal: the last preparation of this core, before "
        "its trigger",
        fix=fix,
        source=kind.source,
    )


def _check_same(kind: type[Instruction], opcode: str) -> None:
    """Refuse to trigger an all_to_all_v with a preparation of an all_gather_v, or the reverse."""
    prepare_opcode = kind.opcode.replace("_trigger", "_prepare")
    if opcode != prepare_opcode:
        raise IllegalInstruction(
            f"{kind.opcode}: `prepare_instr` is the result of {opcode}; legal: that of "
            f"{prepare_opcode}",
            fix=f"call ncc.{_trigger_of(opcode)} for it",
            source=kind.source,
        )


def _trigger_of(opcode: str) -> str:
    """The opcode of the trigger of a preparation."""
    return opcode.replace("_prepare", "_trigger")
