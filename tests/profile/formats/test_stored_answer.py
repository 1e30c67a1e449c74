"""Answers on disk: the schema in front says what a file is."""

import json

import pytest

from trnsim.errors import BadInput
from trnsim.profile.formats.stored_answer import answer_file, load_answer

RANKS = {"schema": "run-ranks/1", "title": "t", "ranks": [{"total_s": 1.0, "exposed_s": 0.5}]}
KERNEL = '{"format":"trnsim report","version":3}'


def stored(folder, name="ranks.world.json", values=RANKS):
    path = folder / name
    path.write_text(json.dumps(values, indent=1))
    return path


def test_an_answer_is_found_by_its_file_and_by_its_folder(tmp_path):
    path = stored(tmp_path)
    stored(tmp_path, "figures.json", {"schema": "claims/1"})
    (tmp_path / "bytes.json").write_bytes(b"\xff\x00")
    assert answer_file(path) == answer_file(tmp_path) == path
    assert load_answer(path).overviews[0].time_s == 1.0
    assert load_answer(stored(tmp_path, values=[RANKS, RANKS])).kind == "run-ranks"


@pytest.mark.parametrize("name", ["page.html", "step.html", "world.html", "ranks.html"])
def test_its_page_lies_beside_it(name, tmp_path):
    path = stored(tmp_path)
    assert load_answer(path).page is None
    (tmp_path / name).write_text("")
    assert load_answer(path).page == tmp_path / name


def test_what_is_no_such_answer_is_left_to_reports_of_kernels(tmp_path):
    assert answer_file(tmp_path / "gone.json") is None
    assert answer_file(tmp_path) is None
    assert answer_file(stored(tmp_path, values={"schema": "plan-train/99"})) is None
    kernel = tmp_path / "kernel.json"
    kernel.write_text(KERNEL)
    assert answer_file(kernel) is None
    stored(tmp_path)
    assert answer_file(tmp_path) is None


def test_several_answers_of_a_folder_are_named(tmp_path):
    for name in ("a.json", "b.json"):
        stored(tmp_path, name)
    with pytest.raises(BadInput, match=r"a folder with these reports: a\.json, b\.json"):
        answer_file(tmp_path)


@pytest.mark.parametrize(
    "values", [{"schema": "run-ranks/1"}, RANKS | {"ranks": 3}, RANKS | {"ranks": [3]}]
)
def test_an_answer_that_lacks_fields_is_named(values, tmp_path):
    with pytest.raises(BadInput, match=r"it is no whole answer of run-ranks/1"):
        load_answer(stored(tmp_path, values=values))


def test_an_answer_without_ranks_is_named(tmp_path):
    with pytest.raises(BadInput, match="no whole answer"):
        load_answer(stored(tmp_path, values=RANKS | {"ranks": []}))


def test_a_file_that_is_cut_is_named(tmp_path):
    path = stored(tmp_path)
    path.write_text(path.read_text()[:-5])
    with pytest.raises(BadInput, match="JSON"):
        load_answer(path)


def test_a_mark_of_byte_order_in_front_is_no_other_file(tmp_path):
    path = stored(tmp_path)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert load_answer(answer_file(path)).overviews[0].time_s == 1.0


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"schema": "run-ranks/1", "ranks": RANKS["ranks"]}, "no 'title'"),
        (RANKS | {"ranks": [{"total_s": 10**400, "exposed_s": 0.5}]}, "too large"),
        (RANKS | {"ranks": 3}, r"a field has another type \("),
        (RANKS | {"ranks": [{"total_s": 1.0, "exposed_s": None}]}, "another type"),
        (RANKS | {"ranks": [{"total_s": 1.0, "exposed_s": 2.0}]}, "work of parts_s is -1.0"),
    ],
)
def test_the_field_that_is_wrong_is_named(values, words, tmp_path):
    with pytest.raises(BadInput, match=f"no whole answer of run-ranks/1: .*{words}"):
        load_answer(stored(tmp_path, values=values))
