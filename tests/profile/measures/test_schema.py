import json
from pathlib import Path

import pytest

from trnsim.profile.measures import schema

DOCUMENTED = Path(__file__).parents[4] / "shared" / "data" / "explorer_schema.json"
SPELLED = {
    "int64": "integer (int64)",
    "int32": "integer (int32)",
    "float32": "number (float)",
    "string": "string",
    "bool": "boolean",
}


def test_the_summary_table_has_101_names():
    names = schema.summary_names()
    assert len(names) == len(set(names)) == 101
    assert {"total_time", "mfu_estimated_percent", "total_active_time_percent"} <= set(names)


def test_every_table_of_a_report_is_there():
    wanted = {"Summary", "Instruction", "DmaPacket", "DmaPacketAggregated", "DmaQueuesInfo", "Flow"}
    wanted |= {"SemaphoreUpdate", "ActiveTime", "HbmUsage", "DmaUsage", "SbufUsage", "PsumUsage"}
    wanted |= {"SbufAllocation", "OpcodeSummary", "TensorInfo", "Throttle", "Metadata", "Warning"}
    assert wanted <= schema.tables().keys()
    assert schema.tables()["Metadata"]["is_simulation"] == "bool"


def test_columns_and_types_are_the_documented_ones():
    if not DOCUMENTED.is_file():
        pytest.skip("the documented schema lies beside the repository only where it is developed")
    documented = json.loads(DOCUMENTED.read_text(encoding="utf-8"))
    for table, columns in schema.tables().items():
        expected = {row["field"]: row["type"] for row in documented[table]}
        assert {name: SPELLED[kind] for name, kind in columns.items()} == expected, table
