import pytest
from hypothesis import given
from hypothesis import strategies as st
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as published

from trnsim.profile.formats import protobuf


@pytest.mark.parametrize(
    ("value", "expected"),
    # 150 is the example of protobuf.dev, Encoding, A Simple Message.
    [(0, b"\x00"), (1, b"\x01"), (127, b"\x7f"), (128, b"\x80\x01"), (150, b"\x96\x01")],
)
def test_varints_are_groups_of_seven_bits(value, expected):
    assert protobuf.varint(value) == expected


def test_a_negative_number_takes_ten_bytes():
    assert protobuf.varint(-1) == b"\xff" * 9 + b"\x01"


@pytest.mark.slow
@given(st.integers(-(2**63), 2**63 - 1), st.text(), st.floats(allow_nan=False))
def test_every_kind_of_field_reads_back(whole, words, real):
    event = published.TrackEvent.FromString(
        protobuf.number(30, whole)
        + protobuf.text(23, words)
        + protobuf.double(44, real)
        + protobuf.fixed64(47, whole % 2**64)
        + protobuf.length_delimited(33, protobuf.text(2, words))
    )
    # A counter has one value: of the two, the later stands.
    assert event.double_counter_value == real
    assert (event.name, event.source_location.file_name) == (words, words)
    assert list(event.flow_ids) == [whole % 2**64]
    assert published.TrackEvent.FromString(protobuf.number(30, whole)).counter_value == whole


def test_a_name_that_is_no_utf_8_is_spelled_out():
    assert protobuf.text(1, "a\udcff.py") == protobuf.length_delimited(1, rb"a\udcff.py")
