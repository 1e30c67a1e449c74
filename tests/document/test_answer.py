from trnsim.document.answer import Column, Document, Figure, Section, columns, records


def test_columns_are_named_in_a_line_and_the_first_holds_names():
    assert columns("platform | copies | USD") == (
        Column("platform"),
        Column("copies", is_number=True),
        Column("USD", is_number=True),
    )
    assert [one.is_number for one in columns("a | b | c", numbers_from=2)] == [False, False, True]
    assert [one.name for one in columns(" | share")] == ["", "share"]


def test_a_document_may_have_its_values_alone():
    assert Document("prices", [], [Section("", ())]).rows is None


def test_records_are_rows_of_values():
    table = records([{"a": 1, "b": None}, {"a": 2, "b": "x"}], ["a", "b"])
    assert [one.name for one in table.columns] == ["a", "b"]
    assert table.rows[0] == [Figure(1, "1"), Figure(None, "")]
    assert records([{"b": 2, "c": 3, "a": 1}], ["a", "b"]).rows == [
        [Figure(1, "1"), Figure(2, "2")]
    ]
    assert records([], ["a"]).columns == [Column("a")]
