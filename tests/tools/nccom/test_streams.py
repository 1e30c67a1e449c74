"""Operations at once."""

import json

import pytest

from trnsim.errors import BadInput
from trnsim.fabric.fabric import fabric
from trnsim.tools.nccom.options import OperationOptions
from trnsim.tools.nccom.streams import blocks, streams_of
from trnsim.tools.nccom.times import planned_operation

BASE = OperationOptions(operation="allg", datatype="bf16")


def test_without_a_file_there_is_one():
    assert streams_of(BASE, None) == [BASE]


def test_a_stream_that_ends_early_repeats_its_last_size(tmp_path):
    """nccom-test.rst, Multistream: (1KB, 1KB), (2KB, 1KB), (4KB, 1KB)."""
    path = tmp_path / "streams.json"
    sizes = {"minbytes": "1KB", "maxbytes": "4KB", "stepfactor": 2}
    small = {"datatype": "fp32", "minbytes": "1KB", "maxbytes": "1KB"}
    path.write_text(json.dumps({"streams": [{"operation": "allr", **sizes}, small]}))
    streams = [planned_operation(each, fabric("trn1.32xlarge")) for each in streams_of(BASE, path)]
    first, second = blocks(streams)
    assert [row.nbytes for row in first] == [1024, 2048, 4096]
    assert [row.nbytes for row in second] == [1024, 1024, 1024]
    assert [rows[0].operation.name for rows in (first, second)] == ["all_reduce", "all_gather"]
    assert [rows[0].dtype for rows in (first, second)] == ["bf16", "fp32"]


def test_a_file_that_is_no_json_is_refused_with_its_line(tmp_path):
    path = tmp_path / "streams.json"
    path.write_text('{"streams": [\n')
    with pytest.raises(BadInput, match=r"streams\.json:2: not JSON") as refusal:
        streams_of(BASE, path)
    assert refusal.value.fix.startswith('write {"streams": [{"operation": "all_reduce"')


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ({"streams": []}, r"streams\.json:1: streams is \[\]: 0 items; legal: a list of from 1"),
        ({"streams": [{}] * 65}, r"65 items"),
        ({"streams": {}}, r"legal: a list"),
        ({}, r"streams is missing"),
        ({"streams": [{"nworkers": 4}]}, r"'streams\[0\].nworkers' is not known; legal: operation"),
        ({"streams": [{"minbytes": 0}]}, r"streams\[0\].minbytes is 0; legal"),
    ],
)
def test_a_file_without_streams_is_refused(tmp_path, content, reason):
    path = tmp_path / "streams.json"
    path.write_text(json.dumps(content))
    with pytest.raises(BadInput, match=reason):
        streams_of(BASE, path)
