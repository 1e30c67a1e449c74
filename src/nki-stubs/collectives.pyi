# Made by docs/makers/stubs.py from trnsim's own modules.
from trnsim.nki.collectives.replica_group import ReplicaGroup as ReplicaGroup
from trnsim.nki.collectives.replica_group import rg_partition_op as rg_partition_op
from typing import Any

def all_gather(srcs: Any, dsts: Any, replica_group: Any, collective_dim: Any, priority: Any = None, name: Any = None) -> Any:
    """The sources of the ranks of a group, concatenated along `collective_dim`, on each rank."""
    ...
def all_gather_v(srcs: Any, dsts: Any, replica_group: Any, metadata_tensor: Any, recv_counts_known: Any = False, has_rdispls: Any = False, priority: Any = None, name: Any = None) -> Any:
    """A chunk of the size in `metadata_tensor`, from each rank of a group to all."""
    ...
def all_gather_v_prepare(srcs: Any, dsts: Any, replica_group: Any, metadata_tensor: Any, recv_counts_known: Any = False, has_rdispls: Any = False, priority: Any = None, name: Any = None) -> Any:
    """The preparation of an `all_gather_v`, which `all_gather_v_trigger` carries out.

    As `all_to_all_v_prepare`; the arguments are those of `all_gather_v`.

    Source: nki.collectives.all_gather_v_prepare.
    """
    ...
def all_gather_v_trigger(prepare_instr: Any, name: Any = None) -> Any:
    """The `all_gather_v` that `prepare_instr` prepared; as `all_to_all_v_trigger`.

    Source: nki.collectives.all_gather_v_trigger.
    """
    ...
def all_reduce(srcs: Any, dsts: Any, replica_group: Any, op: Any, priority: Any = None, name: Any = None) -> Any:
    """The reduction of each source over the ranks of a group, on each of its ranks."""
    ...
def all_to_all(srcs: Any, dsts: Any, replica_group: Any, collective_dim: Any, priority: Any = None, name: Any = None) -> Any:
    """Part r of the source of each rank of a group, concatenated, on the group's r-th rank.

    Sources are divided, and parts concatenated, along `collective_dim`.
    """
    ...
def all_to_all_v(srcs: Any, dsts: Any, replica_group: Any, metadata_tensor: Any, recv_counts_known: Any = False, has_rdispls: Any = False, priority: Any = None, name: Any = None) -> Any:
    """Chunks of the sizes in `metadata_tensor`, from each rank of a group to every rank."""
    ...
def all_to_all_v_prepare(srcs: Any, dsts: Any, replica_group: Any, metadata_tensor: Any, recv_counts_known: Any = False, has_rdispls: Any = False, priority: Any = None, name: Any = None) -> Any:
    """The preparation of an `all_to_all_v`, which `all_to_all_v_trigger` carries out.

    It reads the metadata, and neither reads `srcs` nor writes `dsts`: they may be filled later.
    The arguments are those of `all_to_all_v`.

    Raises:
        IllegalInstruction: while another preparation waits for its trigger; on instances with
            NeuronSwitches; for arguments that `all_to_all_v` refuses.

    Source: nki.collectives.all_to_all_v_prepare.
    """
    ...
def all_to_all_v_trigger(prepare_instr: Any, name: Any = None) -> Any:
    """The `all_to_all_v` that `prepare_instr` prepared: it reads srcs and writes dsts.

    Raises:
        IllegalInstruction: unless `prepare_instr` is the result of the core's last
            `all_to_all_v_prepare`, which no other trigger has carried out.

    Source: nki.collectives.all_to_all_v_trigger.
    """
    ...
def collective_permute(srcs: Any, dsts: Any, source_target_pairs: Any, priority: Any = None, name: Any = None) -> Any:
    """For each pair (source rank, target rank), the source's `srcs` copied to the target's `dsts`.

    On a rank that is in no pair nothing is issued, and the result is None.
    """
    ...
def collective_permute_implicit(srcs_by_channel: Any, dsts_by_channel: Any, replica_group: Any, channel_ids: Any = ..., priority: Any = None, name: Any = None) -> Any:
    """For each channel, a copy of the source tensor of the ring's previous rank to this rank."""
    ...
def collective_permute_implicit_current_processing_rank_id(iteration_id: Any, replica_group: Any, channel_id: Any = 0, name: Any = None) -> Any:
    """A register with the rank whose data arrives after `iteration_id` implicit permutes."""
    ...
def collective_permute_implicit_reduce(srcs0_by_channel: Any, srcs1_by_channel: Any, dsts_by_channel: Any, replica_group: Any, op: Any, channel_ids: Any = ..., priority: Any = None, name: Any = None) -> Any:
    """``op(src0, src1)`` of the previous rank in the ring, for each channel."""
    ...
def rank_id(name: Any = None) -> Any:
    """A register with the number of this rank."""
    ...
def reduce_scatter(srcs: Any, dsts: Any, replica_group: Any, collective_dim: Any, op: Any, priority: Any = None, name: Any = None) -> Any:
    """The reduction of each source over a group, divided among its ranks along `collective_dim`."""
    ...
def reduce_scatter_v(*args: Any, **kwargs: Any) -> Any:
    """The reduction of chunks whose sizes are data, divided among ranks: not emulated.

    AWS's page is not public here: neither signature nor metadata rows nor operators.

    Raises:
        NotModelled: always, with the limits that are known.
    """
    ...
