"""One function at many points: the same results, however they are found."""

import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from trnsim import disk_cache
from trnsim.errors import BadInput
from trnsim.site import take_used
from trnsim.system import search

sys.path.insert(0, str(Path(__file__).parent))

sys.path.append(str(Path(__file__).parents[1] / "site"))

from points import corrected, die_once, half, noted, plus
from site_cases import write_site

POINTS = list(range(70))


@pytest.fixture(autouse=True)
def folder(monkeypatch, tmp_path):
    monkeypatch.setenv("TRNSIM_CACHE", str(tmp_path / "kept"))
    path = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    monkeypatch.setenv("PYTHONPATH", path)  # so that other processes find the points
    return tmp_path


def test_results_are_in_the_order_of_the_points():
    assert search.map(half, POINTS, processes=1) == [one / 2 for one in POINTS]
    assert search.map(half, []) == []


@pytest.mark.slow
def test_processes_find_what_one_finds():
    assert search.map(half, POINTS, processes=2) == [one / 2 for one in POINTS]


def test_what_is_done_is_not_done_again(folder):
    function = partial(noted, file=str(folder / "calls"))
    first = search.map(function, POINTS, processes=1)
    again = search.map(function, [*POINTS, 70], processes=1)
    assert again[:70] == first
    calls = (folder / "calls").read_text().split()
    # The last chunk has a point more, and is another one.
    assert len(calls) == 70 + 71 % search.CHUNK


def test_an_interrupted_search_goes_on(folder):
    function = partial(noted, file=str(folder / "calls"), until=40)
    with pytest.raises(KeyboardInterrupt):
        search.map(function, POINTS, processes=1)
    (folder / "calls").write_text("")
    rest = partial(noted, file=str(folder / "calls"), until=40)
    (folder / "on").touch()
    assert search.map(rest, POINTS, processes=1) == [one + 1 for one in POINTS]
    assert [int(one) for one in (folder / "calls").read_text().split()] == POINTS[32:]


INTERRUPTED = """
import time
from trnsim.system import search

def tell(done):
    print(done, flush=True)

if __name__ == "__main__":
    try:
        search.map(time.sleep, [0.0, *[60.0] * 9], processes=2, chunk=1, tell=tell)
    except KeyboardInterrupt:
        print("ended")
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="Ctrl-C is sent to a group of processes")
def test_ctrl_c_ends_the_processes_of_a_search_without_a_word(folder):
    (folder / "program.py").write_text(INTERRUPTED)
    with subprocess.Popen(
        [sys.executable, folder / "program.py"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, start_new_session=True,
    ) as program:  # fmt: skip
        assert program.stdout.readline() == "1\n"
        os.killpg(program.pid, signal.SIGINT)  # as a terminal does
        assert program.communicate(timeout=30) == ("ended\n", "")


@pytest.mark.parametrize(
    "stored",
    [
        {},
        {"values": [0.5] * 16},
        {"values": None, "corrections": []},
        {"values": [0.5] * 15, "corrections": []},
        {"values": [0.5] * 16, "corrections": [1]},
        {"values": [0.5] * 16, "corrections": [], "time": 1},
    ],
)
def test_what_is_stored_in_another_shape_is_done_again(folder, stored):
    function = partial(noted, file=str(folder / "calls"))
    chunk = POINTS[: search.CHUNK]
    disk_cache.write(search._cache_key(function, chunk), stored)
    assert search.map(function, chunk, processes=1) == [one + 1 for one in chunk]
    assert len((folder / "calls").read_text().split()) == search.CHUNK
    search.map(function, chunk, processes=1)  # the right shape was stored
    assert len((folder / "calls").read_text().split()) == search.CHUNK


def test_results_with_other_corrections_are_not_read_back(folder, monkeypatch):
    function = partial(noted, file=str(folder / "calls"))
    for factor, calls in ((2.0, 1), (3.0, 2), (2.0, 2)):
        site = write_site(folder / f"{factor}.json", factor=factor)
        monkeypatch.setenv("TRNSIM_SITE", str(site))
        search.map(function, [1], processes=1)
        assert len((folder / "calls").read_text().split()) == calls


def test_corrections_are_noted_with_results_that_were_stored(folder, monkeypatch):
    monkeypatch.setenv("TRNSIM_SITE", str(write_site(folder / "own.json")))
    take_used()
    for _ in range(2):
        assert search.map(corrected, [1.0], processes=1) == [2.0]
        assert take_used() == ["of trainium1"]


@pytest.mark.slow
def test_other_processes_have_the_corrections_of_the_one_that_searches(folder, monkeypatch):
    monkeypatch.chdir(folder)
    write_site(folder / "own.json", factor=3.0)
    monkeypatch.setenv("TRNSIM_SITE", "own.json")
    take_used()
    assert search.map(corrected, POINTS, processes=2) == [3.0 * point for point in POINTS]
    assert take_used() == ["of trainium1"]


def test_a_cluster_has_the_corrections_of_the_one_that_searches(folder, monkeypatch):
    monkeypatch.setattr(search, "find_spec", lambda _: True)
    cluster = fake_ray()
    monkeypatch.setattr(search, "import_module", lambda _: cluster)
    monkeypatch.setenv("TRNSIM_SITE", str(write_site(folder / "own.json", factor=3.0)))

    def on_another_machine(task):
        with monkeypatch.context() as there:
            there.setenv("TRNSIM_SITE", "")
            return task()

    cluster.get = on_another_machine
    take_used()
    assert search.map(corrected, POINTS, ray="auto") == [3.0 * point for point in POINTS]
    assert take_used() == ["of trainium1"]


@pytest.mark.slow
def test_every_room_that_decides_the_time_of_a_layout_is_in_the_key():
    code = "import sys, trnsim.system.train.best\nprint(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    rooms = {name.split(".")[1] for name in loaded.stdout.split() if name.startswith("trnsim.")}
    hashed = {*search._HASHED_ROOMS, *disk_cache._HASHED_ROOMS}
    assert rooms - {room.removesuffix(".py") for room in hashed} <= {
        *(
            "absence",
            "context_values",
            "disk_cache",
            "document",
            "errors",
            "files",
            "foreign_text",
            "formatting",
            "observers",
        ),
        *("quantities", "reader", "user_traceback", "version"),
    }


def test_another_function_or_argument_is_another_search():
    assert search.map(partial(plus, more=1), [1], processes=1) == [2]
    assert search.map(partial(plus, more=2), [1], processes=1) == [3]
    assert search.map(half, [1], processes=1) == [0.5]


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system kills no process")
def test_the_points_of_a_process_that_died_are_done_again(folder):
    function = partial(die_once, file=str(folder / "died"))
    assert search.map(function, POINTS, processes=2) == [one + 1 for one in POINTS]
    assert (folder / "died").exists()


def test_a_deadline_leaves_points_out(monkeypatch):
    clock = iter(range(100))
    monkeypatch.setattr(search.time, "monotonic", lambda: float(next(clock)))
    found = search.map(half, POINTS[:32], processes=1, deadline_s=2.0)
    assert found == [one / 2 for one in POINTS[:16]] + [None] * 16


def test_progress_is_told():
    told = []
    search.map(half, POINTS, processes=1, tell=told.append)
    assert told == [16, 32, 48, 64, 70]


def test_ray_is_an_extra(monkeypatch):
    monkeypatch.setattr(search, "find_spec", lambda _: None)
    with pytest.raises(BadInput, match=r"--ray needs Ray, .*\n  fix: pip install 'trnsim\[ray\]'"):
        search.map(half, POINTS, ray="auto")


def fake_ray(connects=True):
    """A cluster of one worker whose first task fails to come back in time."""

    class Task:
        def __init__(self, function):
            self.function = function

        def remote(self, *given):
            return partial(self.function, *given)

    def init(**_):
        if not connects:
            raise ConnectionError("nobody listens")

    return SimpleNamespace(
        init=init,
        remote=lambda **_: Task,
        wait=lambda running, **_: (running[-1:], running[:-1]),
        get=lambda one: one(),
        cancel=print,
    )


def test_a_cluster_finds_what_one_process_finds(monkeypatch):
    monkeypatch.setattr(search, "find_spec", lambda _: True)
    monkeypatch.setattr(search, "import_module", lambda _: fake_ray())
    assert search.map(half, POINTS, ray="auto") == [one / 2 for one in POINTS]


def test_tasks_of_an_interrupted_search_are_cancelled(monkeypatch):
    cluster, cancelled = fake_ray(), []
    cluster.cancel = cancelled.append

    def interrupt(_done):
        raise KeyboardInterrupt

    monkeypatch.setattr(search, "find_spec", lambda _: True)
    monkeypatch.setattr(search, "import_module", lambda _: cluster)
    with pytest.raises(KeyboardInterrupt):
        search.map(half, POINTS, ray="auto", tell=interrupt)
    assert len(cancelled) == 4  # of five chunks


def test_what_a_cluster_says_is_not_in_the_output(monkeypatch, capfd):
    talking = fake_ray()
    waits = talking.wait

    def wait(running, **given):
        os.write(1, b"(raylet) a worker died\n")
        return waits(running, **given)

    talking.wait = wait
    monkeypatch.setattr(search, "find_spec", lambda _: True)
    monkeypatch.setattr(search, "import_module", lambda _: talking)
    search.map(half, POINTS, ray="auto")
    os.write(1, b"{}")
    said = capfd.readouterr()
    assert said.out == "{}"
    assert "(raylet) a worker died" in said.err


def test_a_cluster_that_is_not_there_is_named(monkeypatch):
    monkeypatch.setattr(search, "find_spec", lambda _: True)
    monkeypatch.setattr(search, "import_module", lambda _: fake_ray(connects=False))
    with pytest.raises(BadInput, match=r"--ray 1\.2\.3\.4:5: no cluster is there: nobody listens"):
        search.map(half, POINTS, ray="1.2.3.4:5")
