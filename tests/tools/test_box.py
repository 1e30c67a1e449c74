from trnsim.tools.box import box


def test_titles_stand_in_the_middle_and_cells_to_the_left():
    assert box(("A\nLONG", "B"), [[("1", "second")], [("22", "")]]).splitlines() == [
        "+------+--------+",
        "|  A   |   B    |",
        "| LONG |        |",
        "+------+--------+",
        "| 1    | second |",
        "| 22   |        |",
        "+------+--------+",
    ]


def test_of_an_odd_rest_the_larger_half_stands_behind_the_title():
    assert "|  AB   |" in box(("AB",), [[("12345",)]])
    assert "|  PID   |" in box(("PID",), [[("268911",)]])


def test_groups_are_parted_by_a_line_where_it_is_asked_for():
    groups = [[("1",), ("2",)], [("3",)]]
    assert box(("A",), groups, is_ruled=True).count("+---+") == 4
    assert box(("A",), groups).count("+---+") == 3


def test_a_table_without_rows_has_its_titles():
    assert box(("A",), []).splitlines() == ["+---+", "| A |", "+---+", "+---+"]
