"""Ways to do an exchange."""

from trnsim.place.links.lines import Line, combined_lines, fastest

QUICK = Line("quick", 1.0, 2.0)
WIDE = Line("wide", 5.0, 0.5)


def test_a_line_is_straight():
    assert [WIDE.time_s(nbytes) for nbytes in (0, 1, 4)] == [5.0, 5.5, 7.0]


def test_the_fastest_depends_on_the_bytes():
    assert fastest([QUICK, WIDE], 1) is QUICK
    assert fastest([QUICK, WIDE], 10) is WIDE


def test_a_stage_takes_its_share_of_the_bytes():
    both = WIDE.then(QUICK, 0.25)
    assert both == Line("wide, then quick", 6.0, 1.0)
    assert WIDE.then(WIDE).name == "wide"


def test_stages_are_combined_in_every_way():
    found = combined_lines([((QUICK, WIDE), 1.0), ((WIDE,), 0.5)])
    assert found == (Line("quick, then wide", 6.0, 2.25), Line("wide", 10.0, 0.75))
