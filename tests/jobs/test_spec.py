import pytest

from trnsim.errors import BadInput, SourceLine
from trnsim.jobs.job import Job, KeptField, Role
from trnsim.jobs.spec import JobSpec, SpecReader, is_template
from trnsim.reader import load_documents

TEXT = """\
name: a
count: 2
many: ${COUNT}
part: 1.5
on: true
off: maybe
words: [x, 3]
inner:
  list:
  - image: i
    rest: {}
  - image: $IMAGE
nothing:
"""


@pytest.fixture
def reader(tmp_path):
    path = tmp_path / "a.yaml"
    path.write_text(TEXT)
    return SpecReader(load_documents(path)[0].root)


def test_fields_are_taken_with_their_lines(reader):
    assert reader.text("name", field="name") == "a"
    assert reader.whole("count", field="roles.0.replicas") == 2
    assert reader.text("count", field="again") == "2"
    assert reader.number("part", field="part") == 1.5
    assert reader.number("count", field="part") == 2.0
    assert reader.boolean("on", field="on") is True
    assert reader.words("words", field="words") == ("x", "3")
    assert reader.words("name", field="names") == ("a",)
    assert reader.text("inner", "list", 0, "image", field="image") == "i"
    assert reader.length("inner", "list") == 2
    assert reader.names("inner") == ("list",)
    assert {name: line.line for name, line in reader.lines.items()} == {
        "name": 1,
        "roles.0.replicas": 2,
        "again": 2,
        "part": 4,
        "on": 5,
        "words": 7,
        "words.0": 7,
        "words.1": 7,
        "names": 1,
        "image": 10,
    }


def test_a_missing_field_is_nothing(reader):
    assert reader.text("no", field="no") == ""
    assert reader.whole("no", field="no") is None
    assert reader.boolean("inner", "list", 5, "no", field="no") is None
    assert reader.number("no", field="no") is None
    assert reader.words("name", "no", field="no") == ()
    assert reader.text("nothing", field="nothing") == ""
    assert reader.length("name") == 0
    assert reader.names("words") == ()


def test_a_value_of_a_template_is_named_and_unknown(reader):
    assert reader.whole("many", field="roles.0.replicas") is None
    assert reader.text("inner", "list", 1, "image", field="roles.0.image") == "$IMAGE"
    assert [(value.field, value.text, value.place.line) for value in reader.templates] == [
        ("roles.0.replicas", "${COUNT}", 3),
        ("roles.0.image", "$IMAGE", 12),
    ]
    assert KeptField(("many",), "${COUNT}") in reader.kept_fields()
    assert all(kept.value != "$IMAGE" for kept in reader.kept_fields())


@pytest.mark.parametrize(
    ("method", "key", "why"),
    [
        ("whole", "part", "2|4: part is 1.5; legal: a whole number from 0 on"),
        ("whole", "name", "1: name is 'a'; legal: a whole number from 0 on"),
        ("number", "name", "1: name is 'a'; legal: a number such as 0.5"),
        ("boolean", "off", "6: off is 'maybe'; legal: true, false"),
        ("text", "words", "7: words is .*; legal: text"),
        ("text", "inner", "8: inner is .*; legal: text"),
    ],
)
def test_a_value_of_another_type_is_refused_at_its_line(reader, method, key, why):
    with pytest.raises(BadInput, match=why):
        getattr(reader, method)(key, field="x")


def test_a_number_below_the_least_is_refused(reader):
    with pytest.raises(BadInput, match="2: count is 2; legal: a whole number from 3 on"):
        reader.whole("count", field="x", minimum=3)


def test_what_nothing_took_is_kept(reader):
    for key in ("name", "count", "many", "part", "on", "off", "nothing"):
        reader.take(key)
    reader.take("inner", "list", 0, "image")
    assert [(kept.name, kept.value) for kept in reader.kept_fields()] == [
        ("words[0]", "x"),
        ("words[1]", 3),
        ("inner.list[0].rest", {}),
        ("inner.list[1].image", "$IMAGE"),
    ]
    reader.take("inner")
    reader.take("words")
    assert reader.kept_fields() == ()
    reader.give_back("nothing")
    assert [kept.name for kept in reader.kept_fields()] == ["nothing"]


def test_a_template_is_left_where_it_stands_and_a_value_is_not(reader):
    assert not reader.is_templated("name", field="name")
    assert not reader.is_templated("no", field="no")
    assert not reader.is_templated("count", field="count")
    assert reader.templates == []
    assert reader.is_templated("inner", "list", 1, "image", field="roles.0.image")
    assert [(value.field, value.text, value.place.line) for value in reader.templates] == [
        ("roles.0.image", "$IMAGE", 12)
    ]
    assert reader.lines["roles.0.image"].line == 12
    assert ("inner.list[1].image", "$IMAGE") in [
        (kept.name, kept.value) for kept in reader.kept_fields()
    ]


def test_the_error_of_a_missing_value_has_its_name_and_the_line_of_what_lacks_it(reader):
    error = reader.refused(("inner", "other"), "legal: text")
    assert error.reason.endswith("a.yaml:8: inner.other is missing; legal: text")


@pytest.mark.parametrize(
    "text",
    [
        "$A",
        "${A}",
        "a-$(B)",
        "{{ .x }}",
        "<your-role>",
        "<NODES>",
        "PLACEHOLDER_NODES",
        "__NODES__",
    ],
)
def test_templates(text):
    assert is_template(text)


@pytest.mark.parametrize("text", ["", "5 $", "a < b", "{x}", "US$5", "<3"])
def test_plain_text_is_no_template(text):
    assert not is_template(text)


def test_a_line_is_that_of_the_nearest_field():
    start, role = SourceLine("a", 1), SourceLine("a", 5)
    spec = JobSpec("pod", Job(roles=(Role(),)), start, {"roles.0": role})
    assert spec.line_of("roles.0.efa") == role
    assert spec.line_of("region") == start
    assert spec.with_job(name="b").job.name == "b"


def test_a_kept_field_has_a_name():
    assert KeptField(("a", 0, "b.c"), 1).name == "a[0].b.c"
