from trnsim.arch import NEURONCORE_V4
from trnsim.profile import summarize
from trnsim.profile.measures.schema import VERSION
from trnsim.profile.tables import explorer_tables, metadata


def test_metadata_says_that_nothing_was_measured(timeline):
    table = metadata.metadata([timeline], "matmul")
    assert table["is_simulation"] == [True]
    assert table["profile_schema_version"] == [VERSION]
    assert table["profile_name"] == ["matmul"]
    assert (table["num_physical_cores"], table["vnc_enabled"]) == ([1], [False])
    assert table["tensor_engine_clock_freq"] == [2.4]
    assert table["last_hw_timestamp"] == [round(timeline.device_time_s * 1e9)]


def test_an_unpublished_clock_is_null(new_kernel):
    assert metadata.metadata([new_kernel(NEURONCORE_V4).timeline()], "")[
        "neuroncore_clock_freq"
    ] == [None]


def test_what_is_null_has_a_warning(timeline):
    table = explorer_tables([timeline], summarize(timeline), "", ["a race"])["Warning"]
    assert (table["message"][0], table["category"][0]) == ("a race", "Hazard")
    messages = "\n".join(table["message"])
    for words in ("Flow: ", "dependency_type"):
        assert words in messages
