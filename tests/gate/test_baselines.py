import re
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from trnsim.errors import BadInput
from trnsim.gate.baselines import Baselines, Key, read_baselines
from trnsim.gate.kernel_time import DrawnConstant, KernelLineTime, KernelTime

KEY = Key("tests/test_k.py::test_a[x on y]", "softmax", "trn2")
TIME = KernelTime(
    chip="trn2",
    model="0.1.0+abc",
    constants={"launch_s": DrawnConstant(1.3e-05, 0.7), "dma_bytes_per_s": DrawnConstant(3e11, 0)},
    source="0123",
    inputs="float32[4]",
    time_us=59.9,
    draws_us=tuple(50 + n / 7 for n in range(25)),
    lines=(
        KernelLineTime("k.py", 9, 'copy("\\t", "ä\x7f")  # "', 30.5, 31.5),
        KernelLineTime("k.py", 3, "load()", 1.5, 2.5),
    ),
)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "trn-baselines.toml"
    Baselines(path, {KEY: TIME}).write()
    return path


def test_a_file_holds_what_was_written(file):
    assert read_baselines(file).times == {KEY: TIME}


def test_a_file_is_text_sorted_by_kernel(file):
    later, earlier = Key("tests/b.py::t", "k", "trn2"), Key("tests/a.py::t", "k", "trn3")
    baselines = Baselines(file, {later: TIME, KEY: TIME, earlier: replace(TIME, chip="trn3")})
    text = baselines.text()
    assert list(tomllib.loads(text)["kernels"]) == [str(earlier), str(later), str(KEY)]
    assert text.count("launch_s") == 1
    assert baselines.text() == Baselines(file, dict(reversed(baselines.times.items()))).text()
    lines = text.splitlines()
    assert max(len(line) for line in lines if "draws" in line or line.startswith("  5")) < 200


def test_absent_and_empty_files(tmp_path):
    path = tmp_path / "new" / "trn-baselines.toml"
    assert read_baselines(path).times == {}
    Baselines(path).write()
    assert read_baselines(path).times == {}


def test_a_key_is_text_and_back():
    assert str(KEY) == "tests/test_k.py::test_a[x on y] softmax on trn2"
    assert Key.of(str(KEY)) == KEY
    for text in ("softmax", "softmax on trn2", "a b on "):
        with pytest.raises(ValueError, match="is not OWNER KERNEL on CHIP"):
            Key.of(text)


def test_other_chips_of_a_kernel(file):
    baselines = read_baselines(file)
    assert baselines.other_chips(KEY._replace(chip="trn3")) == ["trn2"]
    assert baselines.other_chips(KEY) == []
    assert baselines.other_chips(KEY._replace(owner="x", chip="trn3")) == []
    assert baselines.other_chips(KEY._replace(kernel="x", chip="trn3")) == []


@pytest.mark.parametrize("mark", ["<<<<<<< HEAD", "=======", ">>>>>>> main", "||||||| 1234"])
def test_a_merge_conflict_is_named(file, mark):
    lines = file.read_text().splitlines()
    file.write_text("\n".join([*lines[:6], mark, *lines[6:]]))
    with pytest.raises(BadInput, match=r"toml:7: a merge conflict is left in the baselines"):
        read_baselines(file)


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("version = 1", "version = 2", "toml:3: version 2 of the format of baselines; this trnsim"),
        ("version = 1", "", "version is missing"),
        ("time_us = 59.9", "", "time_us is missing"),
        ("time_us = 59.9", "time_us = -1", "time_us is -1; legal: a number above 0"),
        ("softmax on trn2", "softmax", "is not OWNER KERNEL on CHIP"),
        ("launch_s = [1.3e-05", "launch_s = [1.4e-05", "not the digest of the constants under"),
        ("launch_s = [1.3e-05, 0.7]", "launch_s = [1.3e-05]", "launch_s is [1.3e-05]; legal"),
        ("source = ", "sauce = ", ".sauce' is not known; legal: trnsim, constants"),
        ("critical_us = 1.5", "critical_us = 'a'", "critical_us is 'a'"),
        ("draws_us = [", "draws_us = [[", "not TOML"),
    ],
)
def test_an_illegal_file_is_refused(file, before, after, message):
    text = file.read_text()
    assert before in text
    file.write_text(text.replace(before, after))
    with pytest.raises(BadInput, match=re.escape(message)) as refused:
        read_baselines(file)
    assert "fix: " in str(refused.value)


def test_constants_that_the_file_lacks_are_refused(file):
    text = file.read_text()
    (digest,) = re.findall(r'^constants = "(\w+)"', text, re.MULTILINE)
    file.write_text(text.replace(f'constants = "{digest}"', 'constants = "0"'))
    with pytest.raises(BadInput, match="not among the constants of the file"):
        read_baselines(file)


def test_two_branches_that_change_different_kernels_merge_by_lines(file):
    """Tables of two kernels share no line, and constants that nobody uses leave the file."""
    other = Key("tests/z.py::t", "k", "trn2")
    base = Baselines(file, {KEY: TIME, other: TIME})
    ours = Baselines(file, {**base.times, KEY: replace(TIME, time_us=61.0)}).text().splitlines()
    theirs = Baselines(file, {**base.times, other: replace(TIME, time_us=62.0)}).text().splitlines()
    changed = [
        {
            at
            for at, pair in enumerate(zip(base.text().splitlines(), side, strict=True))
            if pair[0] != pair[1]
        }
        for side in (ours, theirs)
    ]
    assert not changed[0] & changed[1]
    assert min(abs(a - b) for a in changed[0] for b in changed[1]) > 3


def test_a_baseline_of_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput):
        Baselines(Path(tmp_path / "file" / "b.toml")).write()
