from trnsim.calibrate.logs.numbers import with_numbers
from trnsim.reader import parse


def test_a_number_of_a_program_has_no_separators_of_thousands():
    document = parse(b"seconds,model\n1.066,1.066\n2ms,a\nnan,b\n1_000,c\n", "a.csv", is_table=True)
    content = with_numbers(document, ("seconds",)).parsed.content
    assert [row["seconds"] for row in content] == [1.066, "2ms", "nan", "1_000"]
    assert content[0]["model"] == "1.066"


def test_what_is_no_table_stays():
    document = parse(b'{"a": "1.066"}', "a.json")
    assert with_numbers(document, ("a",)) is document
