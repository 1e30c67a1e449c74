import json
import os
import signal
import sys
import threading
import time
from dataclasses import replace
from html import escape

import pytest

from trnsim.api import bounds as module
from trnsim.api.bounds import Bounds, answer, end
from trnsim.errors import BadInput

LOOP = "print('began', flush=True)\nwhile True:\n    pass\n"


@pytest.fixture
def bounds(tmp_path):
    (tmp_path / "in" / "deep").mkdir(parents=True)
    (tmp_path / "out.py").write_text("x = 1\n")
    (tmp_path / "in" / "k.py").write_text("x = 1\n")
    return Bounds(folder=tmp_path / "in", time_s=60)


@pytest.mark.parametrize(
    ("file", "shown"),
    [("k.py", "k.py"), ("deep/../k.py", "k.py"), ("new/a.py", "new/a.py"), (".", ".")],
)
def test_a_path_below_the_folder_is_relative_to_it(bounds, file, shown):
    assert bounds.path(file) == shown
    assert bounds.path(bounds.folder / file) == shown


@pytest.mark.parametrize("file", ["..", "../out.py", "/", "deep/../../out.py", "/etc/passwd"])
def test_a_path_out_of_the_folder_is_refused(bounds, file):
    with pytest.raises(BadInput, match=r"leads to .*, outside of .*/in"):
        bounds.path(file)


def test_a_link_is_followed(bounds):
    (bounds.folder / "inner").symlink_to("k.py")
    (bounds.folder / "outer").symlink_to("../out.py")
    (bounds.folder / "up").symlink_to("..")
    (bounds.folder / "nowhere").symlink_to("missing")
    (bounds.folder / "loop").symlink_to("loop")
    assert bounds.path("inner") == "k.py"
    assert bounds.path("nowhere") == "missing"
    for name in ("outer", "up/out.py"):
        with pytest.raises(BadInput, match="outside of"):
            bounds.path(name)
    with pytest.raises(BadInput, match="loop"):
        bounds.path("loop")


def test_a_name_that_looks_like_an_option_is_a_whole_path(bounds):
    (bounds.folder / "link").symlink_to("--json")
    for name in ("--json", "./--json", "deep/../--json", bounds.folder / "--json", "link"):
        assert bounds.path(name) == str(bounds.folder / "--json")
    with pytest.raises(BadInput, match="NUL"):
        bounds.path("a\0b")


@pytest.mark.parametrize("name", ["time_s", "memory_bytes", "answer_bytes"])
@pytest.mark.parametrize("value", [0, -1, float("nan"), "60", None])
def test_bounds_are_above_zero(tmp_path, name, value):
    with pytest.raises(BadInput, match=f"{name} is {value!r}; legal: a number above 0"):
        Bounds(folder=tmp_path, **{name: value})


@pytest.mark.parametrize("name", ["memory_bytes", "answer_bytes"])
def test_bounds_of_memory_are_whole_bytes(tmp_path, name):
    for value in (0.5, float("inf")):
        with pytest.raises(BadInput, match=f"{name} is {value}; legal: a whole number of bytes"):
            Bounds(folder=tmp_path, **{name: value})


def test_a_folder_may_be_text_and_a_limit_of_memory_a_whole_float(tmp_path):
    for memory_bytes in (4e9, 10**30):
        bounds = Bounds(folder=str(tmp_path), memory_bytes=memory_bytes)
        assert answer(["chips", "--json"], bounds).status == 0


def test_a_folder_exists(tmp_path):
    for folder in (tmp_path / "no", str(tmp_path / "no"), 5, None):
        with pytest.raises(BadInput, match="is no folder"):
            Bounds(folder=folder)


def test_an_answer_is_the_json_of_the_command(bounds):
    found = answer(["explain", "trn2", "--json"], bounds)
    assert found.status == 0
    assert found.values["schema"] == "chips/1"


@pytest.mark.slow
def test_a_refusal_has_the_words_of_the_command(bounds):
    with pytest.raises(BadInput, match="nonsense is no instruction") as refused:
        answer(["explain", "nonsense", "--json"], bounds)
    assert not refused.value.reason.startswith("trnsim")


@pytest.mark.slow
def test_an_answer_that_is_too_long_is_refused(tmp_path):
    with pytest.raises(BadInput, match=r"has [\d,]+ bytes; at most 1,000"):
        answer(["chips", "--json"], Bounds(folder=tmp_path, answer_bytes=1000))


@pytest.mark.slow
def test_a_program_that_never_ends_is_ended_with_what_it_started(tmp_path):
    child = "import time\nwhile True:\n    open('alive', 'w').write(str(time.time()))\n"
    (tmp_path / "k.py").write_text(child)
    start = "import subprocess, sys\nsubprocess.Popen([sys.executable, 'k.py'])\n"
    (tmp_path / "loop.py").write_text(start + LOOP)
    start_s = time.monotonic()
    with pytest.raises(BadInput, match=r"trnsim run took longer than 10 s and was ended"):
        answer(["run", "--json", "loop.py"], Bounds(folder=tmp_path, time_s=10))
    assert time.monotonic() - start_s < 30
    last = (tmp_path / "alive").read_text()
    time.sleep(0.5)
    assert (tmp_path / "alive").read_text() == last


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="other systems tell no process's environment")
def test_a_process_that_left_the_group_ends_with_its_call_and_no_other_does(bounds):
    write = "import time\nwhile True:\n    open({!r}, 'a').write('.')\n    time.sleep(0.01)\n"
    start = (
        "import os, subprocess, sys, time\n"
        "for name, marks in (('inner', os.environ['TRNSIM_CALLS'] + ' other'), ('stranger', '')):\n"
        f"    command = [sys.executable, '-c', {write!r}.format(name)]\n"
        "    env = {**os.environ, 'TRNSIM_CALLS': marks}\n"
        "    child = subprocess.Popen(command, env=env, start_new_session=True)\n"
        "    while not os.path.exists(name):\n"
        "        time.sleep(0.01)\n"
        "print(child.pid)\n"
    )
    with (bounds.folder / "told").open("wb+") as told:
        assert module._exit_status([sys.executable, "-c", start], bounds, told, told) == 0
    stranger = int((bounds.folder / "told").read_text())
    try:
        files = [bounds.folder / name for name in ("inner", "stranger")]
        before_bytes = [file.stat().st_size for file in files]
        time.sleep(1)
        after_bytes = [file.stat().st_size for file in files]
        assert after_bytes[0] == before_bytes[0]
        assert after_bytes[1] > before_bytes[1]
    finally:
        os.kill(stranger, signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="other systems keep no limit of data")
def test_a_program_that_takes_too_much_memory_is_named(tmp_path):
    (tmp_path / "big.py").write_text("held = bytearray(3 << 30)\n")
    found = answer(["run", "--json", "big.py"], Bounds(folder=tmp_path, memory_bytes=1 << 30))
    assert found.status == 1
    assert "MemoryError" in found.messages
    assert json.dumps(found.values)


def test_commands_are_ended_by_their_bounds_or_all_at_once(bounds):
    command = [sys.executable, "-c", "import time; time.sleep(60)"]
    states = []

    def wait(own):
        with (bounds.folder / "told").open("wb") as told:
            states.append(module._exit_status(command, own, told, told))

    equals = [replace(bounds) for _ in range(3)]
    threads = [threading.Thread(target=wait, args=(own,)) for own in equals]
    for thread in threads:
        thread.start()
    while len(module._running_commands) < 3:
        time.sleep(0.01)
    end(equals[0])
    threads[0].join(10)
    assert len(module._running_commands) == 2
    end()
    for thread in threads:
        thread.join(10)
    assert len(states) == 3
    assert all(states)
    assert not module._running_commands
    end()


@pytest.mark.slow
def test_a_plan_is_shown_by_its_title_and_its_page(bounds):
    found = answer(["plan", "collective", "all_reduce", "--bytes=1MiB", "--on=trn2", "--ranks=16",
                    "--json"], bounds, has_page=True)  # fmt: skip
    assert found.command.startswith("plan collective all_reduce --bytes=1MiB")
    assert found.page.startswith("<!doctype html>")
    assert f"<h1>{escape(str(found))}</h1>" in found.page
    assert "all_reduce" in str(found)
    shown = found._repr_html_()
    assert shown.startswith(f"<p>{escape(str(found))}</p><iframe srcdoc=")
    assert found.page not in repr(found)
    assert list(bounds.folder.glob("*.html")) == []


@pytest.mark.slow
def test_another_answer_is_shown_by_its_command_and_has_no_page(bounds):
    found = answer(["explain", "trn2", "--json"], bounds)
    assert str(found) == "trnsim explain trn2 --json, status 0"
    assert found.page == ""
    assert found._repr_html_() is None


def test_a_word_that_no_process_takes_is_refused(bounds):
    with pytest.raises(BadInput, match="NUL character, which no argument"):
        answer(["explain", "a\0b"], bounds)
