"""CcOp, CcStream: the collectives of a core, and the stream on which they run.

A core's collectives run one after another, on its single stream. A collective of two cores on
tensors that they share is a row only of the first core. AWS's compiler decides which engine
triggers a collective.

Source: aws-neuron-sdk tools/neuron-explorer/profile-schema-reference.rst, the tables of that name.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from trnsim.isa import Collective
from trnsim.profile.measures.collectives import algorithm_of, timed_collectives
from trnsim.profile.measures.core import Core, ns
from trnsim.profile.measures.schema import Table

_CC_CORES: Final = 2
"""CC-Cores of a NeuronCore, all of its single stream here.

Source: aws-neuron-sdk neuron-runtime/explore/compute-comm-overlap.rst, Multi-stream CC.
"""
_GROUP_COLUMN: Final = "replica_group"
_ALGORITHM_NAMES: Final = {"kangaring": "KangaRing", "rdh": "RDH"}
"""Names of algorithms that AWS writes with further capitals."""
_BUS_PASSES: Final = {"all_reduce": 2.0, "permute": 0.0}
"""Passes in ``bus factor = passes * (ranks - 1) / ranks``; else 1. With 0 the factor is 1.

Source: aws-neuron-sdk nccom-test.rst, Bus Bandwidth Calculation.
"""


def operations(core: Core) -> Table:
    """One row per collective, with its bytes and its wait for other ranks."""
    (exchanges,) = timed_collectives([core.timeline])
    rows = [
        exchange
        for exchange in exchanges
        if core.rank == 0 or not exchange.instruction.setting.is_joint
    ]
    start_s, end_s, waited_s = (
        np.array([getattr(exchange, name) for exchange in rows], np.float64)
        for name in ("start_s", "end_s", "waited_s")
    )
    start, end = ns(start_s), ns(end_s)
    facts = [_facts(exchange.instruction) for exchange in rows]
    groups = {
        text: number for number, text in enumerate(dict.fromkeys(f[_GROUP_COLUMN] for f in facts))
    }
    sizes = np.array(
        [max(fact_row["input_size"], fact_row["output_size"]) for fact_row in facts], np.float64
    )
    rate = np.divide(sizes, end_s - start_s, out=np.zeros(len(rows)), where=end_s > start_s)
    return {
        "start_ts": start,
        "end_ts": end,
        "duration_ns": end - start,
        "op_id": core.ids(np.array([exchange.index for exchange in rows], np.int64)),
        "stream_id": core.rank_column(len(rows)),
        "stream_index": core.rank_column(len(rows)),
        "algorithm_bandwidth": rate,
        "bus_bandwidth": rate * [_bus_factor(exchange.instruction) for exchange in rows],
        "trigger_start_ts": ns(start_s - waited_s),
        "cc_trigger_start_delay": ns(waited_s),
        "replica_group_id": [groups[fact_row[_GROUP_COLUMN]] for fact_row in facts],
        **{name: [fact_row[name] for fact_row in facts] for name in (facts[0] if facts else {})},
    }


def streams(core: Core) -> Table:
    """One row if the core has collectives: its stream, with the numbers of its CC-Cores."""
    rows = core.rank_column(int(len(operations(core)["op_id"]) > 0))
    first_core = _CC_CORES * core.rank
    cores = str([*range(first_core, first_core + _CC_CORES)]).replace(" ", "")
    return {"stream_id": rows, "stream_index": rows, "cc_core_ids": [cores] * len(rows)}


def _facts(instruction: Collective) -> dict[str, Any]:
    """The columns that are the same for equal collectives."""
    sent_views, received_views = instruction.all_sources(), instruction.targets()
    input_bytes, output_bytes = (
        sum(tile.nbytes for tile in tiles) for tiles in (sent_views, received_views)
    )
    larger = max(sent_views, received_views, key=lambda tiles: sum(tile.nbytes for tile in tiles))
    algorithm = algorithm_of(instruction)
    return {
        "operation": "".join(word.capitalize() for word in instruction.opcode.split("_")),
        "algorithm": _ALGORITHM_NAMES.get(algorithm, algorithm[:1].upper() + algorithm[1:]),
        "num_elements": sum(tile.pattern.elements for tile in larger),
        "dtype": str(larger[0].dtype),
        "input_size": input_bytes,
        "output_size": output_bytes,
        _GROUP_COLUMN: str([list(group) for group in instruction.groups()]),
    }


def _bus_factor(instruction: Collective) -> float:
    passes, ranks = _BUS_PASSES.get(instruction.kind, 1.0), len(instruction.groups()[0])
    return passes * (ranks - 1) / ranks if passes else 1.0
