from dataclasses import dataclass

from trnsim.reader import FileRecord, declared, field_table, read_rows, row_template


@dataclass(frozen=True, kw_only=True)
class Kind(FileRecord):
    name: str = declared(help="its name", example="a")
    days: int = declared(7, help="days of it", unit="days", minimum=1, alias=("d",))


def test_a_template_says_what_is_legal_and_is_legal(written):
    text = row_template(Kind)
    assert text == (
        "  # name*: its name; legal: text\n"
        "- name: a\n"
        "  # days: days of it; legal: a whole number from 1 on [days]\n"
        "  # days:\n"
    )
    assert read_rows(Kind, written(text)) == [Kind(name="a")]


def test_a_table_of_fields_has_names_limits_and_defaults():
    assert field_table(Kind).splitlines() == [
        "| field         | meaning    | legal                           | default |",
        "| ------------- | ---------- | ------------------------------- | ------- |",
        "| `name` *      | its name   | text                            |         |",
        "| `days` or `d` | days of it | a whole number from 1 on [days] | 7       |",
    ]
