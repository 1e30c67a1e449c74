"""Files and folders of programs: which are read, and what each of them tells."""

import errno
import os
from pathlib import Path

import pytest

from trnsim.decide import scan as room
from trnsim.decide.scan import scan
from trnsim.errors import BadInput

COMPANIES = Path(__file__).parents[1] / "companies"
CUDA = """
// a comment
template <typename T>
__global__ void first(const T *x) {}
__global__
__launch_bounds__(256) void second(int n) {}
"""


def put(root, **files):
    for name, text in files.items():
        path = root / name.replace("__", "/").replace("_dot_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_a_folder_is_read_without_what_is_hidden_or_installed(tmp_path):
    put(
        tmp_path,
        a_dot_py="import apex\n",
        sub__b_dot_py="import apex\n",
        venv__c_dot_py="import apex\n",
        sub__node_modules__d_dot_py="import apex\n",
        notes_dot_md="import apex\n",
    )
    put(tmp_path / ".git", e_dot_py="import apex\n")
    (tmp_path / "link.py").symlink_to(tmp_path / "a.py")
    found = scan([tmp_path], tmp_path)
    assert [place.file for place in found.places] == ["a.py", "sub/b.py"]
    assert (found.files, found.effort) == (2, "S")


def test_a_file_that_is_named_twice_is_read_once(tmp_path):
    put(tmp_path, a_dot_py="import apex\n")
    assert scan([tmp_path, tmp_path / "a.py"], tmp_path).files == 1


def test_every_kernel_of_a_cuda_file_has_its_line(tmp_path):
    put(tmp_path, k_dot_cu=CUDA, none_dot_cuh="int f();\n")
    found = scan([tmp_path], tmp_path)
    assert [(p.file, p.line, p.kind, p.what) for p in found.places] == [
        ("k.cu", 4, "cuda", "__global__ first"),
        ("k.cu", 5, "cuda", "__global__ second"),
        ("none.cuh", 1, "cuda", "CUDA source"),
    ]


@pytest.mark.parametrize(
    "source",
    [
        "__global__ " + "a" * 300_000,
        "__global__ a " * 30_000,
        "__global__" + " " * 300_000,
        "__global__ __launch_bounds__(" * 10_000,
    ],
)
def test_a_cuda_file_without_a_kernel_takes_no_long_time(tmp_path, source):
    """Each took minutes, as the search began anew at each character."""
    (place,) = scan([put(tmp_path, k_dot_cu=source)], tmp_path).places
    assert (place.line, place.kind) == (1, "cuda")


def test_a_folder_that_cannot_be_read_is_refused(tmp_path, monkeypatch):
    (tmp_path / "private").mkdir()

    def scandir(folder, scandir=os.scandir):
        if Path(folder).name == "private":
            raise PermissionError(errno.EACCES, "Permission denied", str(folder))
        return scandir(folder)

    monkeypatch.setattr(os, "scandir", scandir)
    with pytest.raises(BadInput, match=r"cannot scan .*private: Permission denied"):
        scan([tmp_path], tmp_path)


def test_a_path_that_leads_out_is_refused(tmp_path):
    (tmp_path / "in").mkdir()
    put(tmp_path, a_dot_py="")
    with pytest.raises(BadInput, match=r"a\.py leads out of .*in\n  fix: name program files below"):
        scan([tmp_path / "a.py"], tmp_path / "in")


def test_a_path_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(BadInput, match=r"cannot scan .*none: no such file or folder"):
        scan([tmp_path / "none"], tmp_path)


def test_too_many_files_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(room, "_MOST_FILES", 1)
    put(tmp_path, a_dot_py="", b_dot_py="")
    with pytest.raises(BadInput, match="holds more than 1 program files"):
        scan([tmp_path], tmp_path)


def test_a_file_that_is_too_long_or_no_program_is_a_finding(tmp_path, monkeypatch):
    monkeypatch.setattr(room, "_MOST_BYTES", 10)
    put(tmp_path, long_dot_py="x = 1\n" * 9, notes_dot_txt="")
    found = scan([tmp_path / "long.py", tmp_path / "notes.txt"], tmp_path)
    assert [(p.file, p.kind, p.what) for p in found.places] == [
        ("long.py", "unreadable", "54 bytes; read up to 10"),
        ("notes.txt", "unreadable", "no program: legal: .py, .cu, .cuh, .pt2"),
    ]


def test_nothing_to_scan_finds_nothing(tmp_path):
    assert scan([], tmp_path).places == ()


def test_programs_of_the_companies_have_what_was_written_into_them():
    found = scan([COMPANIES / "proteins"], COMPANIES / "proteins")
    assert {place.file: place.kind for place in found.places if place.effort == "L"} == {
        "residue_attention.py": "triton",
        "residue_scan.py": "cuda",
        "scan.cu": "cuda",
    }
    games = scan([COMPANIES / "games"], COMPANIES / "games")
    assert {place.kind for place in games.places} == {"device"}
    assert (games.effort, games.frameworks) == ("S", ("pytorch",))
    assert scan([COMPANIES / "laws"], COMPANIES / "laws").places == ()
