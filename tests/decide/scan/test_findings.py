"""What a scan tells of a program as a whole."""

from trnsim.decide.scan.findings import EFFORTS, KINDS, ScanFinding, ScanFindings


def place(kind="device", effort="S", line=1):
    return ScanFinding("a.py", line, kind, "what", effort, "advice")


def test_nothing_in_the_way_takes_no_effort():
    assert ScanFindings().effort is None


def test_effort_is_the_largest_of_all_places():
    for count, effort in enumerate(EFFORTS, start=1):
        places = tuple(place(effort=one) for one in EFFORTS[:count])
        assert ScanFindings(places).effort == effort


def test_a_file_that_cannot_be_read_says_nothing_about_effort():
    assert ScanFindings((place("unreadable"),)).effort is None


def test_places_are_told_by_kind():
    for kind in KINDS:
        found = ScanFindings((place(kind),))
        assert found.of_kind(kind) == found.places
        assert found.of_kind("device" if kind != "device" else "cuda") == ()


def test_a_place_reads_as_a_line_of_a_compiler():
    assert str(place(line=7)) == "a.py:7: what (S): advice"
