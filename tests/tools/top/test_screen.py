"""The screen through textual's Pilot: keys, tabs, sizes, programs that come and go."""

import asyncio

import pytest
from monitored import record
from reported import World, full

pytest.importorskip("textual", reason="extra platform not installed")

from textual.css.query import NoMatches

from trnsim.errors import BadInput
from trnsim.tools.top import screen
from trnsim.tools.top.screen import Page, Top


def driven(steps, *records, size=(80, 24)):
    """`steps` with the screen of these programs."""

    async def drive():
        world = World(*records)
        top = Top(world.report, "0.1.0")
        async with top.run_test(size=size) as pilot:
            await pilot.pause()
            await steps(top, pilot, world)
        return top

    return asyncio.run(drive())


def shown(top):
    """What the page has drawn."""
    return top.query_one(Page).render().plain.splitlines()


def test_sections_of_a_full_instance_fit_80_columns_and_24_lines():
    async def steps(top, _, __):
        lines = shown(top)
        assert len(lines) == 24
        assert max(map(len, lines)) == 80
        text = "\n".join(lines)
        for section in (
            "emulated",
            "NeuronCore v3d Utilization",
            "System vCPU Usage",
            "Device Used Memory",
            "Memory Usage Details",
            "ND15",
            "q: quit",
        ):
            assert section in text

    driven(steps, full())


def test_keys_choose_programs_and_f_shows_operations():
    async def steps(top, pilot, _):
        names = []
        for key in ("d", "d", "d", "a", "1", "3", "9"):
            await pilot.press(key)
            names.append(top.chosen.name)
        assert names == ["train", "serve", "all", "serve", "all", "serve", "serve"]
        assert ">[3]:serve<" in shown(top)[-2]
        assert "Avg: 0.78%" in shown(top)[1]
        await pilot.press("f")
        assert "TFLOPS" in shown(top)[1]
        await pilot.press("F")
        assert "Avg" in shown(top)[1]

    driven(steps, full(), record(pid=8, tag="serve"))


def test_arrows_and_enter_move_in_the_tree():
    async def steps(top, pilot, _):
        await pilot.press("down", "right", "down", "enter", "left", "left", "up")
        assert top.tree_state.cursor == ("Host",)
        await pilot.press("x", "pagedown", "pageup", "space")
        assert top.tree_state.open_paths == {("Host",)}
        assert any("Constants" in line for line in shown(top)[18:])

    driven(steps, record())


def test_a_program_that_ends_leaves_the_screen():
    async def steps(top, pilot, world):
        await pilot.press("2")
        assert any("ND 0" in line for line in shown(top))
        world.records = []
        world.monitor.clock = lambda: 1e12
        top.look()
        await pilot.pause()
        assert top.chosen.name == "all"
        assert not any("train" in line or "ND 0" in line for line in shown(top))

    driven(steps, full())


@pytest.mark.parametrize("size", [(160, 50), (60, 16), (30, 8), (10, 3), (80, 24)])
def test_another_size_is_drawn_at_once(size):
    async def steps(top, pilot, _):
        await pilot.resize_terminal(*size)
        await pilot.pause()
        lines = shown(top)
        assert len(lines) <= size[1]
        if size[0] >= 60:
            assert max(map(len, lines)) == size[0]
            assert "q: quit" in lines[-1]
            assert len(lines) == size[1]

    driven(steps, full(), size=(100, 30))


def test_a_look_while_the_screen_closes_draws_nothing():
    async def steps(top, _, __):
        await top.query_one(Page).remove()
        top.look()
        with pytest.raises(NoMatches):
            shown(top)

    driven(steps, full())


@pytest.mark.parametrize("key", ["q", "ctrl+c"])
def test_a_key_ends_it(key):
    async def steps(_, pilot, __):
        await pilot.press(key)

    top = driven(steps, full())
    assert top.return_code == 0
    assert not top.is_running


def test_looks_are_repeated(monkeypatch):
    monkeypatch.setattr(screen, "PERIOD_S", 0.02)

    async def steps(top, pilot, world):
        world.monitor.clock = lambda: 1e12
        world.records.append(record(pid=9, tag="late"))
        for _ in range(100):
            await pilot.pause(0.02)
            if any("late" in line for line in shown(top)):
                return
        raise AssertionError

    driven(steps, full())


def test_a_state_that_cannot_be_read_any_more_ends_it_with_its_error(monkeypatch):
    def gone():
        raise BadInput("the state folder is gone")

    world = World()
    top = Top(world.report, "0.1.0")
    monkeypatch.setattr(screen, "Top", lambda *_: top)
    monkeypatch.setattr(top, "run", lambda: (setattr(top, "report", gone), top.look()))
    monkeypatch.setattr(top, "exit", lambda: None)
    with pytest.raises(BadInput, match="the state folder is gone"):
        screen.run(world.report, "0.1.0")
