from collections import Counter

import pytest

from trnsim.device.fallback_policy import (
    HostFallback,
    count_host_fallback,
    host_fallbacks,
    set_policy,
    state,
)
from trnsim.errors import BadInput


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    monkeypatch.setattr(state, "policy", "host")
    monkeypatch.setattr(state, "on_host", Counter())


def test_what_is_left_to_the_host_is_counted_and_told_once():
    def leave(*keys):
        for key in keys:
            count_host_fallback(key, f"{key} runs on the host")

    with pytest.warns(HostFallback) as caught:
        leave("sort", "sort", "eigh")
    told = [str(one.message).partition(";")[0] for one in caught]
    assert told == ["sort runs on the host", "eigh runs on the host"]
    assert "TRNSIM_POLICY=chip refuses it (at " in str(caught[0].message)
    assert host_fallbacks() == {"sort": 2, "eigh": 1}


def test_a_policy_is_one_of_two():
    set_policy("chip")
    assert state.policy == "chip"
    with pytest.raises(BadInput, match="TRNSIM_POLICY='none'; legal: chip, host"):
        set_policy("none")
    assert state.policy == "chip"
