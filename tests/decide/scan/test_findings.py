"""What a scan tells of a program as a whole."""

from trnsim.decide.scan.findings import EFFORTS, KINDS, Finding, Findings


def place(kind="device", effort="S", line=1):
    return Finding("a.py", line, kind, "what", effort, "advice")


def test_nothing_in_the_way_takes_no_effort():
    assert Findings().effort is None
    assert Findings().coverage is None
    assert not Findings().has_own_kernels


def test_effort_is_the_largest_of_all_places():
    for count, effort in enumerate(EFFORTS, start=1):
        places = tuple(place(effort=one) for one in EFFORTS[:count])
        assert Findings(places).effort == effort


def test_a_file_that_cannot_be_read_says_nothing_about_effort():
    assert Findings((place("unreadable"),)).effort is None


def test_coverage_is_of_calls_of_known_operators():
    assert Findings(lowered=3, unlowered=1).coverage == 0.75
    assert Findings(unlowered=1, unknown=("torch.other",)).coverage == 0


def test_kernels_are_cuda_and_triton():
    for kind in KINDS:
        found = Findings((place(kind),))
        assert found.has_own_kernels == (kind in {"cuda", "triton"})
        assert found.of(kind) == found.places
        assert found.of("device" if kind != "device" else "cuda") == ()


def test_a_place_reads_as_a_line_of_a_compiler():
    assert str(place(line=7)) == "a.py:7: what (S): advice"
