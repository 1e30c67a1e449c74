import pytest

from trnsim.device.placement import HostCall, place_kernels


def test_a_kernel_starts_after_its_call_and_after_the_one_before_it(made_up):
    one = made_up("x::add", (1e-6,))
    kernels = place_kernels([HostCall(one, 0, at, at) for at in (100, 300, 5000)], "trn2")
    assert [(kernel.start_ns, kernel.end_ns, kernel.launcher) for kernel in kernels] == [
        (100, 1100, 100),
        (1100, 2100, 300),
        (5000, 6000, 5000),
    ]


def test_kernels_of_a_call_follow_each_other_and_cores_do_not_wait(made_up):
    several, one = made_up("x::dot", (2e-6, 3e-6)), made_up("x::add", (1e-6,))
    kernels = place_kernels([HostCall(several, 0, 0, None), HostCall(one, 1, 7, None)], "trn1")
    assert [(k.name, k.core, k.start_ns, k.end_ns) for k in kernels] == [
        ("dot-0", 0, 0, 4000),
        ("dot-1", 0, 4000, 10000),
        ("add-0", 1, 7, 2007),
    ]


@pytest.mark.parametrize(
    ("kernels_s", "missing", "rows"),
    [
        ((2e-6, 3e-6), "", [("graph-0", 5000, "")]),
        ((2e-6,), "svd", [("graph-0", 2000, ""), ("not timed: graph-0", 0, "svd")]),
    ],
)
def test_a_compiled_graph_is_one_row_and_what_is_missing_another(made_up, kernels_s, missing, rows):
    graph = made_up("graph-0", kernels_s, missing, is_one_launch=True)
    kernels = place_kernels([HostCall(graph, 0, 0, None)], "trn2")
    assert [(k.name, k.end_ns - k.start_ns, k.missing) for k in kernels] == rows


def test_a_call_without_a_time_is_named_and_takes_none(made_up):
    (row,) = place_kernels([HostCall(made_up("x::none", ()), 0, 9, None)], "trn2")
    assert (row.name, row.start_ns, row.end_ns) == ("not timed: x::none", 9, 9)
    assert row.missing == "x::none has no time"
