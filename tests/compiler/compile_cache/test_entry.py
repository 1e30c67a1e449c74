import json

import pytest

from trnsim.compiler.compile_cache.entry import CacheEntry, CacheKey, EntryState
from trnsim.compiler.stand_in import StandIn
from trnsim.errors import BadInput

PROGRAM = StandIn("trn2", 2, ("-O1",), "v", "hlo", b"graph", {}).serialized()


def test_a_key_is_digits_of_the_graph_and_of_the_flags():
    key = CacheKey.of(b"graph", [])
    assert key.flags == "d41d8cd9"  # as in AWS's examples, where there are no flags
    assert key.graph.isdecimal()
    assert key == CacheKey.of("graph", [])
    assert key.graph == CacheKey.of(b"graph", ["-O1"]).graph
    assert len({CacheKey.of(b"graph", flags).flags for flags in ([], ["-O1"], ["-O2"])}) == 3
    assert CacheKey.of(b"other", []).graph != key.graph


def test_a_key_of_the_callers_names_a_folder_and_leads_nowhere_else():
    assert CacheKey.from_hash("MODULE_12ab+01234567", []).folder_name == "MODULE_12ab+d41d8cd9"
    for key in ("../up", "a/b", "", ".hidden", "a\0", "x" * 201):
        with pytest.raises(
            BadInput, match=r"^cache_key=.*legal: letters, digits.*1 to 200"
        ) as found:
            CacheKey.from_hash(key, [])
        assert len(found.value.reason) < 200


def test_an_entry_goes_from_a_graph_to_a_program(tmp_path):
    entry = CacheEntry(tmp_path / "e")
    assert entry.state is EntryState.ABSENT
    path = entry.store_graph(b"graph", ["-O1"])
    assert (path.name, entry.state) == ("model.hlo_module.pb", EntryState.GRAPH)
    assert (entry.graph(), entry.flags()) == (b"graph", ["-O1"])
    entry.store_failure("no")
    assert (entry.state, entry.failure()) == (EntryState.FAILED, "no")
    assert entry.store_program(PROGRAM).name == "model.neff"
    assert (entry.state, entry.failure()) == (EntryState.DONE, "")
    assert entry.program_file.read_bytes() == PROGRAM
    entry.remove_program()
    assert entry.state is EntryState.GRAPH
    assert not entry.is_locked


def test_a_reason_of_others_commands_no_terminal_and_has_an_end(tmp_path):
    (tmp_path / "model.log").write_text("\x1b[31mno\nfix: " + "x" * 100_000)
    shown = CacheEntry(tmp_path).failure()
    assert "\x1b" not in shown
    assert "no\nfix: xx" in shown
    assert len(shown) < 11_000


def test_flags_that_are_lost_are_stored_again(tmp_path):
    entry = CacheEntry(tmp_path / "e")
    entry.store_graph(b"graph", ["-O1"])
    (entry.folder / "compile_flags.json").unlink()
    entry.store_graph(b"graph", ["-O1"])
    assert entry.flags() == ["-O1"]


def test_a_program_counts_once_it_is_marked_whole(tmp_path):
    entry = CacheEntry(tmp_path)
    entry.store_graph(b"graph", [])
    entry.program_file.write_bytes(PROGRAM)  # a process was killed here
    assert entry.state is EntryState.GRAPH


def test_a_graph_by_its_older_name_is_found(tmp_path):
    (tmp_path / "model.hlo.pb").write_bytes(b"older")
    assert CacheEntry(tmp_path).graph() == b"older"


@pytest.mark.parametrize(
    "stored", ["{}", "[1]", "[", "[" * 100_000, json.dumps(["x"] * 5000), "\x00"]
)
def test_flags_that_are_no_list_of_texts_are_refused(tmp_path, stored):
    (tmp_path / "compile_flags.json").write_text(stored)
    with pytest.raises(BadInput, match=r"compile_flags.json(: no list of flags| is no JSON)"):
        CacheEntry(tmp_path).flags()


def test_flags_in_another_order_are_others():
    flags = ["--auto-cast=all", "--auto-cast=none"]
    assert CacheKey.of(b"graph", flags) != CacheKey.of(b"graph", flags[::-1])
    assert CacheKey.of(b"graph", flags) == CacheKey.of(b"graph", tuple(flags))
