"""Documented limits of `nki.collectives`: for each a program that breaks it, and its legal twin.

A row of `LIMITS` has the documented sentence, a legal program, what a wrong one has in its place,
and what is said of it. The two programs differ in nothing else.

What AWS's page says and is not enforced, with the reason, is in docs/limits.md: `all_to_all_v` in
an instance without switches.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import collective_programs
import nki.language as nl
import numpy as np
import pytest
from collective_programs import (
    HBM,
    IMPLICIT,
    ON_ALL,
    PAIRS,
    PRIVATE,
    SBUF,
    VARIABLE,
    Program,
    beyond,
    grouped,
    run,
    switched,
    variable,
)

from trnsim.errors import BadInput, IllegalInstruction, UndefinedBehavior


class Row(NamedTuple):
    """A documented limit."""

    limit: str
    legal: Program
    wrong: dict[str, Any]
    message: str
    error: type[Exception] = IllegalInstruction


GROUPED = (*ON_ALL, "all_to_all", *IMPLICIT)
ALL_KINDS = (*GROUPED, "collective_permute")
EVERYWHERE = [
    *(
        Row(
            f"{kind}: sub-groups should not have any overlap",
            grouped(kind),
            {"groups": [[0, 1], [1, 2], [3]]},
            rf"{kind}: the groups \[0-1\], \[1-2\], \[3\] overlap: rank 1 is in several places",
        )
        for kind in GROUPED
    ),
    *(
        Row(
            f"{kind}: priority 0-3 where lower is higher",
            grouped(kind, run={"target": "trn3"}, given={"priority": 3}),
            {"given": grouped(kind, given={"priority": 4}).given},
            rf"{kind}: priority 4; legal: 0 to 3",
        )
        for kind in ALL_KINDS
    ),
    *(
        Row(
            f"{kind}: priority is for NeuronCore-v4+ only",
            grouped(kind, run={"target": "trn3"}, given={"priority": 0}),
            {"run": {"target": "trn2"}},
            rf"{kind}: priority on NeuronCore-v3; legal from NeuronCore-v4 on",
        )
        for kind in ALL_KINDS
    ),
    *(
        Row(
            f"{kind}: all tensors must be on HBM or all must be on SBUF",
            grouped(kind, memories=(SBUF, SBUF)),
            {"memories": (HBM, SBUF)},
            rf"{kind}: tensors in HBM and SBUF; legal: all in HBM or all in SBUF",
        )
        for kind in ON_ALL
    ),
    *(
        Row(
            f"{kind}: multiple tensors are only supported on HBM",
            grouped(kind, memories=(HBM, HBM), count=2),
            {"memories": (SBUF, SBUF)},
            rf"{kind}: 2 tensors in SBUF; legal: one in SBUF, several in HBM",
        )
        for kind in ON_ALL
    ),
    *(
        Row(
            f"{kind}: SBUF collectives only operate on 2D tensors",
            grouped(kind, memories=(SBUF, SBUF)),
            {"src": (*grouped(kind).src, 1), "dst": (*grouped(kind).dst, 1)},
            rf"{kind}: a tensor is .*; legal in SBUF: two dimensions",
        )
        for kind in ON_ALL
    ),
    *(
        Row(
            f"{kind}: op is nl.add, nl.minimum or nl.maximum",
            grouped(kind, given={"op": nl.maximum}),
            {"given": grouped(kind, given={"op": nl.multiply}).given},
            rf"{kind}: op is multiply; legal: nl.add, nl.minimum or nl.maximum",
        )
        for kind in ("all_reduce", "reduce_scatter", IMPLICIT[1])
    ),
    *(
        Row(
            f"{kind}: tensors of the kernel's arguments are no operands",
            grouped(kind),
            {"argument": True},
            rf"{kind}: .* is an argument of the kernel; legal: tensors that the kernel allocates",
        )
        for kind in ALL_KINDS
    ),
]
DIMENSIONS = [
    *(
        Row(
            f"{kind}: only collective_dim 0 is supported for HBM tensors",
            grouped(kind),
            {"given": grouped(kind, given={"collective_dim": 1}).given},
            rf"{kind}: collective_dim=1 of tensors in HBM; legal there: 0",
        )
        for kind in ("all_gather", "reduce_scatter", "all_to_all")
    ),
    Row(
        "all_gather: for SBUF tensors, 0 or 1 is supported",
        replace(
            grouped("all_gather", memories=(SBUF, SBUF), given={"collective_dim": 1}), dst=(4, 8)
        ),
        {"given": {"collective_dim": 2}},
        "all_gather: collective_dim=2 of tensors in SBUF; legal there: 0 or 1",
    ),
    Row(
        "reduce_scatter: only 0 is supported for both HBM and SBUF tensors",
        grouped("reduce_scatter", memories=(SBUF, SBUF)),
        {"given": grouped("reduce_scatter", given={"collective_dim": 1}).given},
        "reduce_scatter: collective_dim=1 of tensors in SBUF; legal there: 0",
    ),
    Row(
        "all_gather: output tensors are concatenated along collective_dim",
        grouped("all_gather"),
        {"dst": (7, 4)},
        "all_gather: a source is .*; legal: a destination 2 times as large as the source",
    ),
    Row(
        "reduce_scatter: input tensors are split along collective_dim",
        grouped("reduce_scatter"),
        {"src": (7, 4)},
        "reduce_scatter: a source is .*; legal: a destination 1/2 as large as the source",
    ),
    Row(
        "all_to_all: input tensors are split along collective_dim",
        grouped("all_to_all"),
        {"src": (3, 3), "dst": (3, 3)},
        "all_to_all: a source is .* for a group of 2 ranks; legal: as many equal parts as ranks",
    ),
    *(
        Row(
            f"{kind}: SBUF is not currently supported",
            grouped(kind),
            {"memories": (SBUF, SBUF)},
            rf"{kind}: `srcs` is .*SBUF.*; legal: HBM",
        )
        for kind in ("all_to_all", "collective_permute")
    ),
]
PERMUTES = [
    Row(
        "collective_permute: each list parameter must contain exactly one tensor",
        grouped("collective_permute"),
        {"count": 2},
        "collective_permute: `srcs` has 2 tensors; legal: one",
    ),
    *(
        Row(
            f"{kind}: each inner list must contain exactly one tensor",
            grouped(kind),
            {"count": 2},
            rf"{kind}: `srcs0?_by_channel` has 2 tensors for a channel; legal: a list of one",
        )
        for kind in IMPLICIT
    ),
    *(
        Row(
            f"{kind}: must be consecutive integers starting from 0",
            grouped(kind, given={"channel_ids": [0, 1]}),
            {"given": grouped(kind, given={"channel_ids": [1, 0]}).given},
            rf"{kind}: channel_ids=\[1, 0\]; legal: consecutive numbers from 0 on",
        )
        for kind in IMPLICIT
    ),
    *(
        Row(
            f"{kind}: the maximum number of channels is 2 for other replica groups",
            grouped(kind, given={"channel_ids": [0, 1]}),
            {"given": grouped(kind, given={"channel_ids": [0, 1, 2]}).given},
            rf"{kind}: channel 0, 1, 2 of a group of 2 ranks, which has 2 channels; legal: 0 to 1",
        )
        for kind in IMPLICIT
    ),
    *(
        Row(
            f"{kind}: 4 channels for groups containing all devices inside a node",
            grouped(
                kind,
                groups=[list(range(64))],
                lnc=2,
                run={"ranks": 64},
                given={"channel_ids": [0, 1, 2, 3]},
            ),
            {"given": grouped(kind, given={"channel_ids": [0, 1, 2, 3, 4]}).given},
            rf"{kind}: channel 0, 1, 2, 3, 4 of a group of 64 ranks, which has 4 channels",
        )
        for kind in IMPLICIT
    ),
    Row(
        "current_processing_rank_id: channel ID (0 to num_channels-1)",
        Program(f"{IMPLICIT[0]}_current_processing_rank_id", given={"channel_id": 1}),
        {"given": {"channel_id": 2}},
        ".*_current_processing_rank_id: channel 2 of a group of 2 ranks, which has 2 channels",
    ),
    *(
        Row(
            f"Permute: source-target pairs must form a valid ring: {what}",
            grouped("collective_permute", given={"source_target_pairs": [(0, 1), (1, 2), (2, 0)]}),
            {"given": {"source_target_pairs": pairs}},
            "collective_permute: source_target_pairs=.* make no ring; legal: each rank that sends",
        )
        for what, pairs in {
            "open": [(0, 1), (1, 2)],
            "two targets": [(0, 1), (1, 2), (2, 0), (0, 2)],
            "two sources": [(0, 1), (1, 0), (2, 0)],
            "to itself": [(0, 0), (1, 2), (2, 1)],
        }.items()
    ),
    Row(
        "Permute: with direct physical connectivity between adjacent ranks",
        grouped(
            "collective_permute",
            lnc=2,
            run={"ranks": 16, "instance": "trn2.48xlarge"},
            given={"source_target_pairs": [(0, 4), (4, 0)]},
        ),
        {"given": {"source_target_pairs": [(0, 8), (8, 0)]}},
        "collective_permute: ranks 0 and 8 are on chips without a connection; legal: neighbours",
    ),
]
COUNTS = variable("all_to_all_v").counts
CHUNKS = [
    *(
        Row(
            f"{kind}: currently supports exactly one tensor",
            variable(kind),
            {"count": 2},
            rf"{kind}: `srcs` has 2 tensors; legal: one",
        )
        for kind in VARIABLE
    ),
    *(
        Row(
            f"{kind}: must be HBM-backed",
            variable(kind, src=(1, 16), dst=(1, 16)),
            {"memories": (SBUF, SBUF)},
            rf"{kind}: `srcs` is .*SBUF.*; legal: HBM",
        )
        for kind in VARIABLE
    ),
    *(
        Row(
            f"{kind}: uint32 tensor",
            variable(kind),
            {"metadata": {"dtype": np.int32}},
            rf"{kind}: `metadata_tensor` is .* int32; legal dtypes: uint32",
        )
        for kind in VARIABLE
    ),
    *(
        Row(
            f"{kind}: metadata that are not a number",
            variable(kind),
            {
                "metadata": {"dtype": np.float32},
                "counts": np.full(variable(kind).counts.shape, np.nan),
            },
            rf"{kind}: `metadata_tensor` is .* float32; legal dtypes: uint32",
        )
        for kind in VARIABLE
    ),
    *(
        Row(
            f"{kind}: HBM: (rows, rank_list_size), where rows is 3",
            variable(kind),
            {"counts": variable(kind).counts[:2]},
            rf"{kind}: `metadata_tensor` is .*; legal for . ranks: \[3, .\]",
        )
        for kind in VARIABLE
    ),
    *(
        Row(
            f"{kind}: SBUF: (1, rows, rank_list_size), on a single partition",
            variable(kind, metadata={"memory": SBUF}),
            {"metadata": {"memory": SBUF, "shape": variable(kind).counts.shape}},
            rf"{kind}: `metadata_tensor` is .*; legal for . ranks: \[1, 3, .\]",
        )
        for kind in VARIABLE
    ),
    *(
        Row(
            f"{kind}: laid out contiguously in memory",
            variable(kind),
            {"metadata": {"gaps": True}},
            rf"{kind}: `metadata_tensor` is a view of .* with gaps; legal: laid out contiguously",
        )
        for kind in VARIABLE
    ),
    Row(
        "all_to_all_v: row 3 when has_rdispls=True",
        switched(given={"has_rdispls": True}),
        {"counts": switched().counts},
        r"all_to_all_v: `metadata_tensor` is .*; legal for 8 ranks: \[4, 8\]",
    ),
    Row(
        "all_to_all_v: sizes are validated against the metadata: source",
        variable("all_to_all_v", counts=beyond(1, 1, 15, COUNTS)),
        {"counts": beyond(1, 1, 16, COUNTS)},
        "all_to_all_v: rank 0 sends elements 16 to 17 to rank 1, and its source has 16",
    ),
    Row(
        "all_to_all_v: sizes are validated against the metadata: destination",
        variable("all_to_all_v", counts=beyond(0, 0, 8, COUNTS)),
        {"counts": beyond(0, 0, 9, COUNTS)},
        "all_to_all_v: rank 0 sends 9 elements to place 0 to rank 0, and the destination has room",
    ),
    Row(
        "all_to_all_v: sizes are validated against the metadata: bits that are no number",
        variable("all_to_all_v"),
        {"counts": beyond(0, 0, int(np.float32(np.nan).view(np.uint32)), COUNTS)},
        "all_to_all_v: rank 0 sends elements 0 to 2143289344 to rank 0, and its source has 16",
    ),
    Row(
        "all_gather_v: sizes are validated against the metadata",
        variable("all_gather_v", counts=beyond(0, 0, 4, variable("all_gather_v").counts)),
        {"counts": beyond(0, 0, 5, variable("all_gather_v").counts)},
        "all_gather_v: rank 0 sends 5 elements to place 0 to rank 0, and the destination has room",
    ),
    Row(
        "all_to_all_v: the chunk from r is written at dst[recv_displs[r] :]: apart from others",
        switched(given={"has_rdispls": True}),
        {"counts": beyond(3, 1, 0, switched(given={"has_rdispls": True}).counts)},
        "all_to_all_v: what rank . receives from ranks 0 and 1 overlaps at element 0",
        UndefinedBehavior,
    ),
    Row(
        "all_to_all_v: has_rdispls is only supported on NeuronSwitch-based instances",
        switched(given={"has_rdispls": True}),
        {"run": {"target": "trn2", "ranks": 16}},
        r"all_to_all_v: has_rdispls=True on trn2\.48xlarge .*: on instances with switches",
    ),
    Row(
        "all_to_all_v: NeuronSwitch: requires LNC=2",
        switched(),
        {"lnc": 1},
        "all_to_all_v: LNC=1 on Trn3 .*; legal: LNC=2",
    ),
    Row(
        "all_to_all_v: NeuronSwitch: more than one participating device",
        switched(),
        {
            "groups": [list(range(at, at + 4)) for at in range(0, 16, 4)],
            "counts": variable("all_gather_v").counts,
        },
        r"all_to_all_v: the group \[0-3\] has 4 ranks on 1 devices; legal: more than one device",
    ),
    Row(
        "all_to_all_v: NeuronSwitch: every device must have all of its ranks included",
        switched(),
        {"groups": [list(range(2, 10)), [0, 1, *range(10, 16)]]},
        r"all_to_all_v: the group \[2-9\] has 8 ranks on 3 devices; legal: .* all 4 ranks of each",
    ),
    Row(
        "all_to_all_v: NeuronSwitch: each rank-list is a set of sequential ranks",
        switched(),
        {"groups": [[*range(4), *range(8, 12)], [*range(4, 8), *range(12, 16)]]},
        r"all_to_all_v: the group \[0-3, 8-11\] on Trn3 .*; legal: sequential ranks",
    ),
    Row(
        "all_gather_v: has_rdispls=True is not supported",
        variable("all_gather_v", given={"has_rdispls": False}),
        {"given": {"has_rdispls": True}, "counts": np.zeros((4, 4), int)},
        "all_gather_v: has_rdispls=True; legal: False",
    ),
    Row(
        "all_gather_v: only LNC=2 is supported",
        variable("all_gather_v"),
        {"lnc": 1},
        "all_gather_v: LNC=1; legal: LNC=2",
    ),
    Row(
        "all_gather_v: each rank-list must have exactly 4 ranks",
        variable("all_gather_v"),
        {"groups": PAIRS, "counts": COUNTS},
        r"all_gather_v: the group \[0-1\] has 2 ranks on 1 chips; legal: 4 ranks of one chip",
    ),
    Row(
        "all_gather_v: 4 ranks, intra-chip",
        variable("all_gather_v", groups=[[3, 2, 1, 0], [4, 5, 6, 7]], run={"ranks": 8}),
        {"groups": [[0, 1, 2, 4], [3, 5, 6, 7]]},
        r"all_gather_v: the group \[0-2, 4\] has 4 ranks on 2 chips; legal: 4 ranks of one chip",
    ),
]
RUNTIME = [
    Row(
        "numbers of ranks: 1, 2, 4, 8, 16 and multiples of 32",
        grouped("all_reduce", groups=[list(range(16))], run={"ranks": 16}),
        {"run": {"ranks": 3}},
        "3 ranks; legal: 1, 2, 4, 8, 16 and multiples of 32",
        BadInput,
    ),
    Row(
        "numbers of ranks: a multiple of 32 is legal, 48 is none",
        grouped("all_reduce", groups=[list(range(96))], run={"ranks": 96}),
        {"run": {"ranks": 48}},
        "48 ranks; legal: 1, 2, 4, 8, 16 and multiples of 32",
        BadInput,
    ),
    Row(
        "trn2.3xlarge: one chip of 8 cores",
        grouped("all_reduce", run={"ranks": 4, "instance": "trn2.3xlarge"}, lnc=2),
        {"run": {"ranks": 8, "instance": "trn2.3xlarge"}},
        r"8 ranks on trn2\.3xlarge, which has 4 logical cores with LNC=2",
        BadInput,
    ),
    Row(
        "a rank of no group",
        grouped("all_reduce"),
        {"groups": [[0, 1], [2]]},
        r"all_reduce: the groups \[0-1\], \[2\] leave out rank 3; legal: each of the ranks 0 to 3",
    ),
    Row(
        "a group with a rank that is not there",
        grouped("all_reduce"),
        {"groups": [[0, 1], [2, 3, 4]]},
        "all_reduce: the groups .* name rank 4, of 4 ranks; legal: each of the ranks 0 to 3",
    ),
    Row(
        "with two cores a rank: tensors all shared or all private",
        grouped("all_reduce", lnc=2),
        {"memories": (HBM, PRIVATE)},
        "all_reduce: some tensors are in shared and some in private HBM; legal: all in one",
    ),
]
LIMITS = [*EVERYWHERE, *DIMENSIONS, *PERMUTES, *CHUNKS, *RUNTIME]
TABLE = {row.limit: row for row in LIMITS}


def test_each_limit_is_there_once():
    assert len(TABLE) == len(LIMITS)


def marked_lines():
    """The lines at which a collective is called."""
    lines = Path(collective_programs.__file__).read_text(encoding="utf-8").splitlines()
    return [number for number, line in enumerate(lines, 1) if line.endswith("# here")]


@pytest.mark.slow_but_every(3)
@pytest.mark.parametrize("limit", TABLE)
def test_a_documented_limit_is_refused_and_its_twin_runs(limit):
    row = TABLE[limit]
    run(row.legal)
    with pytest.raises(row.error, match=f"^{row.message}") as caught:
        run(replace(row.legal, **row.wrong))
    error = caught.value
    assert error.fix
    if row.error is not BadInput:
        assert error.source
        assert error.line.file == collective_programs.__file__
        assert error.line.line in marked_lines()
