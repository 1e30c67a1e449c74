"""docs/generated/user-files.md: the declared fields of each file that a user writes."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Final

from trnsim.calibrate.logs.questions import QuestionRow
from trnsim.calibrate.logs.tables import RequestRow, StepRow
from trnsim.decide.guard.realised import BillLine
from trnsim.decide.inventory.fields import BilledRow
from trnsim.estimate import measured
from trnsim.price.own import OwnPrice
from trnsim.reader import field_table
from trnsim.system.fleet import demand_file, fields
from trnsim.system.serve import trace
from trnsim.tools.monitor import config
from trnsim.tools.nccom import metadata, options, ranks, streams

if TYPE_CHECKING:
    from collections.abc import Iterator

_HEAD: Final = """\
# Files that a user writes

A table is CSV (names of fields in the first line), YAML or JSON (a list), JSON lines, or TOML (an
array of tables). Other files are YAML, JSON or TOML. Fields with a * are required. An illegal value
is refused with its line, the field, the value, the legal values and a near miss. Numbers are
written without separators, with or without a unit: 8000, 8e3 or 8k; 0.03 or 30ms where the unit is
s. A number without a unit has the unit in brackets.
"""
_FILES: Final[tuple[tuple[str, str, tuple[type[Any], ...]], ...]] = (
    ("Own prices", "`--prices FILE`: a row is a price, a discount or a credit.", (OwnPrice,)),
    (
        "Inventories",
        "`trnsim assess FILE`: see [inventories](../inventories.md). `BILL.models.yaml` adds:",
        (BilledRow,),
    ),
    ("Bills by months", "`trnsim guard bill DECISION FILE`.", (BillLine,)),
    (
        "Logs of a run in CSV",
        "`trnsim pilot read`, `trnsim calibrate`, `trnsim why`.",
        (StepRow, RequestRow),
    ),
    ("Measured answers", "`trnsim calibrate FILE`.", (QuestionRow,)),
    ("Measured times of layers", "`--measured FILE`.", (measured.MeasuredRow,)),
    ("Traces of requests", "`trnsim plan serve --trace FILE`.", (trace.TraceRow,)),
    (
        "Scenarios of a fleet",
        "`trnsim plan fleet FILE`.",
        (
            *(fields.ScenarioFields, fields.FleetFields, fields.WattsFields, fields.PlanningFields),
            *(fields.ServiceFields, fields.ShapeFields, fields.JobFields),
        ),
    ),
    ("Demand of a service", "Beside a scenario, named by its `demand`.", (demand_file.DemandRow,)),
    (
        "Configurations of neuron-monitor",
        "`neuron-monitor -c FILE`.",
        (
            *(config.ConfigFields, config.ProgramFields),
            *(config.RuntimeGroupFields, config.SystemGroupFields),
        ),
    ),
    (
        "Ranks and streams of nccom-test",
        "AWS's JSON files, named by options: see [nccom-test](../how-to-nccom-test.md).",
        (
            *(ranks.ReplicaGroupsFile, ranks.PairsFile, metadata.MetadataFile),
            *(metadata.MetadataEntry, streams.StreamsFile, options.StreamFields),
        ),
    ),
)


def page() -> str:
    """The text of the page."""
    return "\n".join([_HEAD, *_sections()]) + "\n"


def _sections() -> Iterator[str]:
    for title, use, kinds in _FILES:
        yield f"## {title}\n\n{use}\n"
        for kind in kinds:
            yield f"{inspect.cleandoc(kind.__doc__ or '').partition(chr(10))[0]}\n"
            own = BilledRow.__annotations__ if kind is BilledRow else None
            yield field_table(kind, own) + "\n"
