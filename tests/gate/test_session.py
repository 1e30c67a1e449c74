from dataclasses import replace
from types import SimpleNamespace

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from gate_samples import X, scaled, scaled_twice

from trnsim.errors import BadInput
from trnsim.gate.baselines import Baselines, Key, read_baselines
from trnsim.gate.session import GateSession, TrnMark

TEST = "tests/test_k.py::test_scaled"
KEY = Key(TEST, "scaled", "trn2")


@nki.jit
def illegal(x):
    tile = nl.ndarray((129, 4), dtype=x.dtype, buffer=nl.sbuf)
    nisa.memset(tile, 0)
    return x


def node(nodeid=TEST, *args, **kwargs):
    mark = SimpleNamespace(args=args, kwargs=kwargs) if args or kwargs else None
    return SimpleNamespace(nodeid=nodeid, get_closest_marker=lambda _: mark)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "trn-baselines.toml"


@pytest.fixture
def accepted(path):
    """A file with the baseline of `scaled`."""
    session = GateSession(path, is_updating=True)
    run = session.fixture(node())(scaled, X)
    np.testing.assert_array_equal(run.outputs, 2 * X)
    session.note_passed(TEST)
    session.conclude({TEST}, set())
    assert session.summary() == [f"wrote 1 times to {path.name}: commit it"]
    return path


def test_of_a_test_that_runs_again_the_last_time_is_accepted(path):
    session = GateSession(path, is_updating=True)
    for inputs in (X, X[:, :8]):
        session.fixture(node())(scaled, inputs)
    session.note_passed(TEST)
    session.conclude({TEST}, set())
    assert read_baselines(path).times[KEY].inputs.endswith(",8]")


def failure(session, test, *args, **kwargs):
    with pytest.raises(pytest.fail.Exception) as failed:
        session.fixture(test)(*args, **kwargs)
    return str(failed.value)


def concluded(session, collected=(TEST,), narrowed=()):
    session.conclude(set(collected), set(narrowed))
    return session.summary()


def test_a_new_kernel_asks_for_a_baseline(path):
    message = failure(GateSession(path, is_updating=False), node(), scaled, X)
    assert message.splitlines() == [
        f"scaled on trn2: baseline: trn-baselines.toml has no baseline of {KEY}",
        "  fix: accept its time: pytest --trn-update",
    ]


def test_an_equal_kernel_passes_and_says_nothing(accepted):
    session = GateSession(accepted, is_updating=False)
    session.fixture(node())(scaled, X)
    assert concluded(session) == []


def test_a_slower_kernel_fails_with_its_line(accepted):
    baselines = read_baselines(accepted)
    session = GateSession(accepted, is_updating=False)
    session._baselines = Baselines(
        accepted, {KEY._replace(kernel="scaled_twice"): baselines.times[KEY]}
    )
    message = failure(session, node(), scaled_twice, X)
    first, line, fix, at = message.splitlines()
    assert first.startswith("scaled_twice on trn2: slower: ")
    assert "difference P10 to P90 +" in first
    assert "nisa.reciprocal(dst=tile, data=tile)" in line
    assert fix == "  fix: if it is meant, accept the new time: pytest --trn-update"
    assert "gate_samples.py:" in at


def test_a_faster_kernel_passes_and_is_told(accepted):
    session = GateSession(accepted, is_updating=False)
    slower = GateSession(accepted, is_updating=True)
    slower.fixture(node())(scaled_twice, X)
    session._baselines = Baselines(
        accepted, {KEY: next(iter(slower._new_baselines.times.values()))}
    )
    session.fixture(node())(scaled, X)
    (line,) = concluded(session)
    assert "faster than its baseline" in line


def test_another_trnsim_passes_and_is_told_once(accepted):
    session = GateSession(accepted, is_updating=False)
    time = read_baselines(accepted).times[KEY]
    older = replace(
        time,
        model="0.0.9+0",
        time_us=time.time_us / 1.1,
        draws_us=tuple(d / 1.1 for d in time.draws_us),
    )
    session._baselines = Baselines(accepted, {KEY: older})
    session.fixture(node())(scaled, X)
    whole, example = concluded(session)
    assert whole.startswith("another trnsim, not the kernels: from 0.0.9+0 to ")
    assert "moved 1 of 1 times, by +10 % to +10 %; accept it: pytest --trn-update" in whole
    assert example.startswith(f"  for example {KEY}: +")
    assert "the kernel is the same" in example


def test_a_time_beyond_the_limit_of_the_mark_fails(accepted):
    message = failure(GateSession(accepted, is_updating=False), node(TEST, max_us=5), scaled, X)
    assert "scaled on trn2: time: " in message
    assert "legal: up to 5 us; longest at gate_samples.py:" in message


def test_a_limit_within_the_interval_is_said_so(accepted):
    message = failure(GateSession(accepted, is_updating=False), node(TEST, max_us=18), scaled, X)
    assert "legal: up to 18 us, which lies within P10 to P90" in message


def test_an_update_does_not_lift_the_limit_nor_store_a_failure(path):
    session = GateSession(path, is_updating=True)
    failure(session, node(TEST, max_us=5), scaled, X)
    assert session._new_baselines.times == {}


def test_a_baseline_of_another_chip_is_named(accepted):
    message = failure(GateSession(accepted, is_updating=False), node(TEST, on="trn3"), scaled, X)
    assert f"has no baseline of {KEY._replace(chip='trn3')}; it has that of another chip: trn2" in (
        message
    )


def test_several_chips_and_calls_have_baselines_of_their_own(path):
    session = GateSession(path, is_updating=True)
    trn = session.fixture(node(TEST, on="trn2, trn1"))
    assert trn(scaled, X).target.name == "trn2"
    trn(scaled, X[:128])
    assert {key[1:] for key in session._new_baselines.times} == {
        (name, chip) for name in ("scaled", "scaled#2") for chip in ("trn1", "trn2")
    }


def test_without_a_baseline_only_the_rest_is_checked(path):
    GateSession(path, is_updating=False).fixture(node(TEST, baseline=False))(scaled, X)
    assert not path.exists()


def test_results_are_compared_with_a_reference(accepted):
    session = GateSession(accepted, is_updating=False)
    session.fixture(node())(scaled, X, reference=lambda x: 2 * x)
    message = failure(session, node(), scaled, X, reference=lambda x: 2.1 * x)
    assert "scaled on trn2: values: off by 0.048 of the largest value" in message
    session.fixture(node())(scaled, X, reference=lambda x: 2.1 * x, tolerance=0.05)


@pytest.mark.parametrize("tolerance", ["1", -0.1, 1, float("nan"), True])
def test_a_tolerance_that_is_no_share_is_refused(path, tolerance):
    trn = GateSession(path, is_updating=False).fixture(node(baseline=False))
    with pytest.raises(BadInput, match=r"trn\(tolerance=.*\); legal: a number from 0 to below 1"):
        trn(scaled, X, reference=lambda x: 2 * x, tolerance=tolerance)


def test_a_kernel_that_is_refused_fails_with_its_line(path):
    message = failure(GateSession(path, is_updating=False), node(), illegal, X)
    assert message.startswith("illegal on trn2: illegal: IllegalInstruction: ")
    assert f"at {__file__}:" in message


def test_what_is_no_kernel_is_refused(path):
    with pytest.raises(BadInput, match="legal: a kernel"):
        GateSession(path, is_updating=False).fixture(node())(len, X)


def test_a_baseline_of_a_test_that_is_gone_is_named_and_dropped(accepted):
    session = GateSession(accepted, is_updating=False)
    session.fixture(node("tests/test_k.py::test_other", baseline=False))(scaled, X)
    other = ("tests/test_k.py::test_other",)
    assert concluded(session, other, ("test_k.py",)) == []
    assert concluded(session, ("tests/test_else.py::test",)) == [  # there is no such file
        f"baselines of no kernel that ran (pytest --trn-update drops them): {KEY}"
    ]
    assert concluded(session, other) == [
        f"baselines of no kernel that ran (pytest --trn-update drops them): {KEY}"
    ]
    updating = GateSession(accepted, is_updating=True)
    assert concluded(updating, other)[0] == f"baselines of no kernel that ran (dropped): {KEY}"
    assert read_baselines(accepted).times == {}


def test_a_baseline_that_a_passed_test_no_longer_uses_is_gone(accepted):
    session = GateSession(accepted, is_updating=False)
    assert concluded(session) == []  # the test did not run, or failed
    session.note_passed(TEST)
    assert concluded(session)[0].endswith(str(KEY))


def test_baselines_of_files_are_left_alone(accepted):
    baselines = read_baselines(accepted)
    baselines.times = {KEY._replace(owner="kernels.py"): baselines.times[KEY]}
    baselines.write()
    assert concluded(GateSession(accepted, is_updating=False)) == []


def test_what_workers_send_is_taken(accepted, path):
    accepted.unlink()
    worker, main = GateSession(path, is_updating=True), GateSession(path, is_updating=True)
    worker.fixture(node())(scaled, X)
    worker.note_passed(TEST)
    main.take(worker.as_dict())
    concluded(main)
    assert list(read_baselines(path).times) == [KEY]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"max_us": 0}, r"trn\(max_us=0\); legal: a number of microseconds above 0"),
        ({"max_us": "60"}, r"trn\(max_us='60'\); legal"),
        ({"max_us": True}, r"trn\(max_us=True\); legal"),
        ({"on": "trn9"}, r"trn\(on='trn9'\); legal: trn1, inf2, trn2, trn3"),
        ({"on": ""}, r"trn\(on=''\); legal"),
        ({"on": []}, r"trn\(on=\[\]\); legal"),
        ({"on": 5}, r"trn\(on=5\); legal: trn1, inf2, trn2, trn3"),
        ({"on": [["trn2"]]}, r"trn\(on=\[\['trn2'\]\]\); legal"),
        ({"on": ["trn2", "trn9"]}, r"trn\(on=\['trn2', 'trn9'\]\); legal"),
    ],
)
def test_an_illegal_mark_is_refused(arguments, message):
    with pytest.raises(BadInput, match=message):
        TrnMark(**arguments)


def test_unknown_arguments_of_a_mark_are_refused(path):
    session = GateSession(path, is_updating=False)
    with pytest.raises(BadInput, match=r"has \[60\]; legal: max_us, on and baseline by keyword"):
        session.fixture(node(TEST, 60))
    with pytest.raises(BadInput, match=r"has \['max_ms'\]; legal"):
        session.fixture(node(TEST, max_ms=60))


def test_chips_may_be_a_list():
    assert [chip.name for chip in TrnMark(on=["trn2", "trn1", "trn2"]).chips] == ["trn2", "trn1"]
