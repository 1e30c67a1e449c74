import pytest

from trnsim.jobs.formats.cloudformation import resources
from trnsim.jobs.spec import is_template
from trnsim.reader import FileContent, load_documents

TEXT = """\
Resources:
  First:
    Type: A::B::C
    Properties:
      OneName: !Sub "${A}-b"
      EFSVolume:
        FSxId: !GetAtt [Volume, Id]
      Options:
        Awslogs-Group: x
      Many:
        - {Name: a}
        - !Ref B
  Second:
    Type: A::B::C
    Properties: {JobName: given}
  Third:
    Type: A::B::D
    Properties: {}
  Fourth: text
  Fifth:
    Type: A::B::C
    Properties: !Ref All
"""


@pytest.fixture
def first(tmp_path):
    path = tmp_path / "stack.yaml"
    path.write_text(TEXT)
    (document,) = load_documents(path)
    places = list(resources(document.root, "A::B::C", "jobName"))
    assert [place.value["jobName"] for place in places] == ["First", "given"]
    return places[0]


def test_names_are_those_of_the_api(first):
    assert first.value == {
        "oneName": "${A}-b",
        "efsVolume": {"fSxId": "${Volume.Id}"},
        "options": {"Awslogs-Group": "x"},
        "many": [{"name": "a"}, "${B}"],
        "jobName": "First",
    }


def test_lines_are_those_of_the_template(first):
    assert first.line.line == 2
    assert first.inner("jobName").line.line == 2
    assert first.inner("oneName").line.line == 5
    assert first.inner("efsVolume").inner("fSxId").line.line == 7
    assert first.inner("options").inner("Awslogs-Group").line.line == 9
    assert first.inner("many").inner(0).inner("name").line.line == 11
    assert first.inner("many").inner(1).line.line == 12
    assert first.inner("missing").line.line == 2


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"Ref": "A"}, "${A}"),
        ({"!Ref": "AWS::Region"}, "${AWS::Region}"),
        ({"Fn::GetAtt": "A.B"}, "${A.B}"),
        ({"Fn::GetAtt": ["A", "B"]}, "${A.B}"),
        ({"Fn::Sub": "a"}, "a"),
        ({"Fn::Sub": ["${A}", {"A": "b"}]}, "${A}"),
        ({"Fn::Join": ["-", ["a", {"Ref": "B"}, 3, None]]}, "a-${B}-3-"),
        ({"Fn::If": ["C", 1, 2]}, '${If ["C", 1, 2]}'),
        ({"!Join": []}, "${Join []}"),
        ({"Fn::Sub": {}}, "${Sub {}}"),
        ({"Ref": ["A"]}, '${Ref ["A"]}'),
        ({"Fn::Join": ["-", "a"]}, '${Join ["-", "a"]}'),
    ],
)
def test_functions_are_text_of_substitutions(value, text):
    rows = {"A": {"Type": "T", "Properties": {"X": value}}}
    root = FileContent.of({"Resources": rows}, "a.json").root
    (place,) = resources(root, "T", "Name")
    assert place.value["X"] == text
    assert is_template(text) is (text != "a")


@pytest.mark.parametrize(
    "content",
    [None, 1, "text", [], {}, {"Resources": None}, {"Resources": [1]}, {"Resources": {"A": 1}}],
)
def test_other_documents_have_no_resources(content):
    assert list(resources(FileContent.of(content, "a").root, "T", "name")) == []
