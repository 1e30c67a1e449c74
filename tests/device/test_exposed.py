import pytest

from trnsim.device.call_log import CallSpan
from trnsim.device.exposed import Moment, moments, overlap


def test_moments_lie_between_calls():
    spans = {0: CallSpan(10, 12), 1: CallSpan(11), 2: CallSpan(13, 13), 3: CallSpan(13, 99)}
    assert moments([1.0, 2.0, 4.0, 8.0], spans, first=10) == [
        Moment(0, "begin", 0),
        Moment(1.0, "begin", 1),
        Moment(2.0, "wait", 0),
        Moment(4.0, "begin", 2),
        Moment(0, "begin", 3),
        Moment(0, "wait", 2),
        Moment(8.0, "wait", 3),
        Moment(0, "end"),
    ]
    assert moments([], {}, first=0) == [Moment(0, "end")]


@pytest.mark.parametrize(
    ("step", "total_s", "exposed_s"),
    [
        # hidden whole: three seconds beside four of kernels
        ([Moment(1, "begin", 0), Moment(4, "wait", 0), Moment(1, "end")], 6, 0),
        # a second is left to wait for
        ([Moment(1, "begin", 0), Moment(2, "wait", 0), Moment(1, "end")], 5, 1),
        # awaited at once: exposed whole
        ([Moment(1, "begin", 0), Moment(0, "wait", 0), Moment(1, "end")], 5, 3),
        # two, one after the other on one queue
        ([Moment(0, "begin", 0), Moment(0, "begin", 1), Moment(4, "end")], 6, 2),
        # awaiting the second is awaiting both
        ([Moment(0, "begin", 0), Moment(1, "begin", 1), Moment(1, "wait", 1), Moment(5, "end")],
         11, 4),
        ([Moment(7, "end")], 7, 0),
    ],
)  # fmt: skip
def test_what_kernels_do_not_hide_is_exposed(step, total_s, exposed_s):
    found = overlap(step, {0: 3.0, 1: 3.0})
    begun = sum(one.kind == "begin" for one in step)
    assert found == (total_s, 3.0 * begun, exposed_s)
