"""AWS's simulator (`nki.simulate`, NKI_SIMULATOR): behaviours that differ between its versions."""

from __future__ import annotations

from typing import Final

from trnsim.behaviours.behaviour import Behaviour, Effect

_FIXES = "release notes of NKI 0.6, Bug Fixes, nki.simulate correctness fixes"

PRECISE: Final = Behaviour(
    name="simulator-precise",
    since="0.4",
    rule="the simulator rounds bfloat16 and float8 (NKI_PRECISE_FP=1 is the default)",
    otherwise="the simulator computes bfloat16 and float8 as float32",
    instead="set NKI_PRECISE_FP",
    source="nki/migration/index.rst, CPU simulator precision default",
    effect=Effect.values,
)
CASTS_SATURATE: Final = Behaviour(
    name="simulator-casts-saturate",
    since="0.6",
    rule="the simulator casts float32 to integers to nearest even, saturated",
    otherwise="the simulator casts float32 to integers as numpy does: truncated",
    instead="round and clamp before the cast",
    source=_FIXES,
    effect=Effect.values,
)
FIND_ALL_ONES: Final = Behaviour(
    name="simulator-find-all-ones",
    since="0.6",
    rule="nisa.nc_find_index8 gives all ones where nothing matches, and walks through duplicates",
    otherwise="nisa.nc_find_index8 gives 0 where nothing matches, and the first of duplicates",
    instead="make the searched values distinct and present",
    source=_FIXES,
    effect=Effect.values,
)
REPLACE_FROM_END: Final = Behaviour(
    name="simulator-replace-from-end",
    since="0.6",
    rule="nisa.nc_match_replace8 takes the searched values from the last to the first",
    otherwise="nisa.nc_match_replace8 takes the searched values from the first to the last",
    instead="make the searched values distinct",
    source=_FIXES,
    effect=Effect.values,
)
OVERLAPS_ACCUMULATE: Final = Behaviour(
    name="simulator-overlaps-accumulate",
    since="0.6",
    rule="matmuls into overlapping parts of PSUM accumulate",
    otherwise="each matmul into another part of PSUM is a first write, overlaps included",
    instead="pass accumulate=",
    source=_FIXES,
    effect=Effect.values,
)
REDUCE_RES_MAY_ALIAS: Final = Behaviour(
    name="simulator-reduce-res-may-alias",
    since="0.6",
    rule="reduce_res of nisa.activation may be part of dst, and holds the reduction",
    otherwise="dst overwrites a reduce_res that is part of it",
    instead="give reduce_res a tile of its own",
    source=_FIXES,
    effect=Effect.values,
)
WARNS_OF_UNWRITTEN_PSUM: Final = Behaviour(
    name="simulator-warns-of-unwritten-psum",
    since="0.5",
    rule="the simulator warns of accumulate=True on PSUM that nothing wrote",
    otherwise="the simulator does not warn of accumulate=True on PSUM that nothing wrote",
    instead="use accumulate=False for the first matmul",
    source="release notes of NKI 0.5, nc_matmul with accumulate=True on uninitialized PSUM",
    effect=Effect.warned,
)
