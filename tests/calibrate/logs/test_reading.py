import pytest

from trnsim.calibrate.logs import FORMATS, of_json, read
from trnsim.errors import BadInput
from trnsim.reader import FileContent


def test_every_format_is_named_where_none_is_recognised(tmp_path):
    (tmp_path / "a.txt").write_text("nothing")
    with pytest.raises(BadInput, match=", ".join(FORMATS)):
        read(tmp_path / "a.txt")


@pytest.mark.parametrize(("name", "content"), [("a.json", b"{"), ("a.log", b"\xff\xfe\x00")])
def test_a_file_that_is_no_text_or_json_is_refused(name, content, tmp_path):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(BadInput, match=name):
        read(tmp_path / name)


def test_a_file_that_is_not_there_is_refused():
    with pytest.raises(BadInput, match=r"cannot read none\.log"):
        read("none.log")


def test_json_of_a_load_test_is_known_without_a_file():
    assert of_json(FileContent.of({"platform": "trn2"}, "-").root) is None
    with pytest.raises(BadInput, match="-: benchmarks: 0 benchmarks; legal: one"):
        of_json(FileContent.of({"benchmarks": []}, "-").root)
