import json
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))

import jax_conformance

CASES = [
    {"population": 2, "chosen": 2},
    {"started": "t::a"},
    {"case": "t::a", "outcome": "passed", "reason": ""},
    {"started": "t::b"},
]


def test_a_case_that_ended_the_process_is_counted_and_the_rest_goes_on(tmp_path):
    ledger = tmp_path / "ledger"
    ledger.write_text("".join(json.dumps(one) + "\n" for one in CASES))
    jax_conformance.note_end(ledger, -6)
    assert jax_conformance.read(ledger)[-1] == {
        "case": "t::b",
        "outcome": "ended",
        "reason": "exit code -6",
    }


def test_a_suite_that_did_not_reach_its_end_has_no_outcomes(tmp_path, monkeypatch):
    monkeypatch.setattr(jax_conformance, "KEPT", tmp_path)
    ledger = jax_conformance.ledger_of("lax_test", "cpu")
    lines = [json.dumps(one) + "\n" for one in CASES]
    ledger.write_text("".join(lines))
    assert jax_conformance.outcomes("lax_test", "cpu") == {}
    ledger.write_text("".join([*lines, json.dumps({"finished": True}) + "\n"]))
    assert jax_conformance.outcomes("lax_test", "cpu") == {"t::a": ("passed", "")}
