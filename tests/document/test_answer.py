from trnsim.document.answer import Column, Document, Section, columns


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
