"""Collectives: results, names, and the limits of all_to_all_v."""

from __future__ import annotations

from typing import Final

from trnsim.behaviours.behaviour import Behaviour, Effect, existence

_V = "nki.collectives.all_to_all_v"

RETURN_INSTRUCTIONS: Final = Behaviour(
    name="collectives-return-instructions",
    since="0.7",
    rule="collectives return an NkiInstruction",
    otherwise="collectives return None",
    instead="order a collective by its tensors: it waits for what writes its sources",
    source="nki.collectives.all_to_all of NKI 0.7, signature",
    effect=Effect.values,
)
ANY_DESTINATION: Final = Behaviour(
    name="all-to-all-v-any-destination",
    until="0.7",
    rule="inside an instance dst of all_to_all_v has any number of elements",
    otherwise="inside an instance dst of all_to_all_v has those of src for each rank of the group",
    instead="allocate dst with ranks * src elements; chunk r then begins at src.elements * r",
    source=f"{_V}; measured on 0.7.0b1: deepep-trn, docs/trn2-constraints",
)
PLACES_BETWEEN_INSTANCES: Final = Behaviour(
    name="all-to-all-v-places-between-instances",
    since="0.7",
    rule="has_rdispls=True is legal between instances, also without switches",
    otherwise="has_rdispls=True is legal on instances with switches alone",
    instead="leave it out: chunk r lands at dst.elements / N * r",
    source=f"{_V}, Current restrictions",
)
PARTITION_OP: Final = existence(
    "0.7",
    "ncc.ReplicaGroup.from_partition_op",
    "list the ranks: ncc.ReplicaGroup([[0, 1], [2, 3]])",
    "nki.collectives.ReplicaGroup of NKI 0.7",
)
NAME_PARAMETERS: Final = {
    call: Behaviour(
        name=f"ncc.{call}(name=)",
        since="0.5",
        form=f"ncc.{call}(name=)",
        rule=f"ncc.{call}(name=) exists",
        otherwise="collectives have no names yet",
        instead="leave it out",
        source="release notes of NKI 0.5, name parameter of collectives",
    )
    for call in (
        "all_reduce",
        "all_gather",
        "reduce_scatter",
        "all_to_all",
        "all_to_all_v",
        "collective_permute",
        "collective_permute_implicit",
        "collective_permute_implicit_reduce",
        "collective_permute_implicit_current_processing_rank_id",
        "rank_id",
    )
}
"""The parameter `name` of each collective that NKI had before that parameter."""
PRIORITIZED: Final = {
    call: Behaviour(
        name=f"ncc.{call}(priority=)",
        since="0.4",
        form=f"ncc.{call}(priority=)",
        rule=f"ncc.{call}(priority=) exists",
        otherwise="its transfers have no priority yet",
        instead="leave it out: values do not depend on it",
        source="the stubs of nki.collectives of v2.29 and v2.30",
    )
    for call in (
        "all_reduce",
        "all_gather",
        "reduce_scatter",
        "all_to_all",
        "collective_permute",
        "collective_permute_implicit",
        "collective_permute_implicit_reduce",
    )
}
"""The parameter `priority` of each collective that NKI had before that parameter."""

ROWS: Final = (*NAME_PARAMETERS.values(), *PRIORITIZED.values())
"""The rows of this family."""
