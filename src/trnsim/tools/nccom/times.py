"""The times of an operation, size by size, from the fabric.

An operation over groups is timed as any collective is. Chunks of stated sizes, and messages between
pairs, are timed as transfers that start together. Coalesced parts are timed as one message, and so
share its fixed cost.

Source: aws-neuron-sdk tools/neuron-sys-tools/nccom-test.rst, Output description: bandwidths are in
units of 2**30 bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from trnsim.arch import Target
from trnsim.arch.catalogue import catalogue
from trnsim.errors import BadInput
from trnsim.fabric.collective_time import CollectiveTime, time_on, transfers_time
from trnsim.fabric.exchange import check_ranks
from trnsim.fabric.fabric import Fabric
from trnsim.fabric.floors import Floor
from trnsim.fabric.published import CollectiveEvidence, evidence
from trnsim.fabric.transfers import Transfer
from trnsim.facts import Interval
from trnsim.formatting import counted
from trnsim.site import current
from trnsim.tools.nccom.metadata import Metadata, metadata_of
from trnsim.tools.nccom.operations import NccomOperation, item_bytes, operation
from trnsim.tools.nccom.options import OperationOptions
from trnsim.tools.nccom.ranks import Groups, groups_of, pairs_of
from trnsim.tools.nccom.shapes import check_sbuf
from trnsim.tools.nccom.sizes import sizes

UNIT_BYTES: Final = 2**30
"""Bytes of a GB of the table."""
US: Final = 1e-6
_ALGORITHMS: Final = {"hierarchical": "hier", "single-step mesh": "mesh"}
"""The tool's names of algorithms, where they are not the fabric's."""


class SizeTime(NamedTuple):
    """A size with its time.

    Attributes:
        dtype: data type of its elements.
        factor: correction of the fabric's time by the user's measurements; 1 without any.
        interval: P10, P50 and P90 of the corrected seconds.
        measurements_text: these measurements in words; "" without any.
        evidence: the published rows that the time rests on.
    """

    nbytes: int
    dtype: str
    ranks: int
    operation: NccomOperation
    time: CollectiveTime
    factor: float
    interval: Interval
    measurements_text: str
    evidence: CollectiveEvidence

    @property
    def elements(self) -> int:
        """Elements of the message."""
        return self.nbytes // item_bytes(self.dtype)

    @property
    def buffers(self) -> tuple[int, int]:
        """Bytes of a rank's input and output."""
        return self.operation.buffers(self.nbytes, item_bytes(self.dtype), self.ranks)

    @property
    def time_s(self) -> float:
        """The time in seconds, with the user's factor."""
        return self.time.time_s * self.factor

    @property
    def algorithm_gib_per_s(self) -> float:
        """Algorithm bandwidth, GiB/s: bytes of the message over its time."""
        return self.nbytes / self.time_s / UNIT_BYTES

    @property
    def bus_gib_per_s(self) -> float:
        """Bus bandwidth, GiB/s: bytes that cross each rank's links over the time."""
        return self.operation.bus_factor(self.ranks) * self.algorithm_gib_per_s

    @property
    def algorithm(self) -> str:
        """The algorithm in the tool's words."""
        return _ALGORITHMS.get(self.time.algorithm, self.time.algorithm)


@dataclass(frozen=True, kw_only=True)
class PlannedOperation:
    """An operation with its sizes, groups, pairs and counts, which are legal for its ranks.

    Attributes:
        fabric: the fabric of all ranks.
        pairs: source and target of each message of sendrecv and permute.
        metadata: the counts of variable operations.
    """

    options: OperationOptions
    operation: NccomOperation
    fabric: Fabric
    sizes: tuple[int, ...]
    groups: Groups
    pairs: Groups
    metadata: Metadata | None

    @property
    def ranks(self) -> int:
        """Ranks of a group."""
        return len(self.groups[0])

    def time(self, nbytes: int) -> SizeTime:
        """The time of a message of `nbytes`, its interval, and the measurements behind it."""
        kind, floor = self.operation.kind, Floor.HOST
        if self.pairs or self.metadata is not None:
            transfers = self._transfers(nbytes)
            time = transfers_time(self.fabric, kind, nbytes, self.groups, transfers, floor)
        else:
            time = time_on(self.fabric, kind, nbytes, self.groups, floor)
        rows = evidence(self.fabric, kind, self.ranks, nbytes, floor)
        fabric_interval = time.interval
        interval, measurements_text = self._site_interval(time, fabric_interval)
        return SizeTime(
            nbytes,
            self.options.datatype,
            self.ranks,
            self.operation,
            time,
            interval.p50 / fabric_interval.p50,
            interval,
            measurements_text,
            rows,
        )

    def _site_interval(
        self, time: CollectiveTime, fabric_interval: Interval
    ) -> tuple[Interval, str]:
        """P10, P50 and P90 by what the user measured, and these measurements in words."""
        if current() is None:
            return fabric_interval, ""
        # This import takes longer than all others of nccom-test: it needs graphs of models.
        from trnsim.estimate.site import collective_cause, site_collective  # noqa: PLC0415

        cause = collective_cause(time.floors.paid(time.floor))
        return site_collective(self.fabric.chip, fabric_interval, cause)

    def _transfers(self, nbytes: int) -> Iterator[Transfer]:
        if self.metadata is not None:
            return self.metadata.transfers(self.groups, item_bytes(self.options.datatype))
        return (Transfer(source, target, float(nbytes)) for source, target in self.pairs)


def fabric_of(instance: str, lnc: int, nodes: int, ranks: int) -> Fabric:
    """The fabric of `ranks` on `nodes` instances, the same number on each.

    Raises:
        BadInput: for ranks that the instances do not have or cannot share evenly, and several
            instances without EFA.
    """
    if ranks < 2 or nodes < 1 or ranks % nodes:  # noqa: PLR2004  as the message says
        raise BadInput(
            f"{counted(ranks, 'rank')} on {counted(nodes, 'instance')}; legal: from 2 on, as "
            "many on each instance",
            fix="for example -r 32, or -r 64 -N 2",
        )
    instance_row = catalogue().instance(instance)
    if nodes > 1 and not instance_row.efa_bytes_per_s:
        raise BadInput(
            f"{nodes} x {instance}, which has no EFA; legal: --nnodes 1",
            fix="name an instance with EFA, such as trn1.32xlarge or trn2.48xlarge",
            source="nccom-test.rst, Overview: Inf2 on one instance, Trn1, Trn2 and Trn3 on several",
        )
    cores = catalogue().accelerator(instance_row.accelerator).cores // lnc * instance_row.count
    fabric = Fabric(instance_row, nodes, lnc, min(ranks // nodes, cores))
    check_ranks(fabric, ranks)
    return fabric


def planned_operation(
    options: OperationOptions, fabric: Fabric, target: Target | None = None
) -> PlannedOperation:
    """An operation with its sizes and ranks.

    Args:
        options: the options.
        fabric: the fabric of all ranks.
        target: the chip, which checks of ``--sb2sb`` need.

    Raises:
        BadInput: an option is not legal, or not for this operation, chip or size.
    """
    operation_row = operation(options.operation)
    options.check_legal()
    groups = groups_of(options, fabric.ranks)
    message_sizes = sizes(
        options.minbytes,
        options.maxbytes,
        options.stepbytes,
        options.stepfactor,
        options.datatype,
        sum(options.ratio()) * (len(groups[0]) if operation_row.name == "alltoall" else 1),
    )
    metadata = metadata_of(options, operation_row, fabric, groups)
    element_bytes = item_bytes(options.datatype)
    for nbytes in message_sizes:
        options.parts(nbytes, element_bytes)
        check_sbuf(options, operation_row, target, fabric.lnc, len(groups[0]), nbytes)
        if operation_row.name == "alltoall" and nbytes % (len(groups[0]) * element_bytes):
            multiple = len(groups[0]) * element_bytes
            raise BadInput(
                f"alltoall of {nbytes:,} bytes over {len(groups[0])} ranks; legal: multiples of "
                f"{multiple:,}, a whole element of {options.datatype} for each rank",
                fix=f"-b {-(-nbytes // multiple) * multiple}",
                source="release notes of 2.26: sizes of all-to-all are checked",
            )
    if metadata is not None:
        metadata.check_fits(groups, message_sizes[0], element_bytes)  # the smallest
    return PlannedOperation(
        options=options,
        operation=operation_row,
        fabric=fabric,
        sizes=message_sizes,
        groups=groups,
        pairs=pairs_of(options, operation_row, fabric, groups),
        metadata=metadata,
    )
