"""Slurm's lists, beside a generator that knows what it wrote."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trnsim.cluster.slurm.hostlist import counts, expand, hosts, numbers
from trnsim.errors import BadInput


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("n1", ["n1"]),
        ("n1,m2", ["n1", "m2"]),
        ("n[1-3]", ["n1", "n2", "n3"]),
        ("n[08-10,2]", ["n08", "n09", "n10", "n2"]),
        ("r[0-1]s[1-2]-x", ["r0s1-x", "r0s2-x", "r1s1-x", "r1s2-x"]),
        ("trn2-st-a-[1,3],login", ["trn2-st-a-1", "trn2-st-a-3", "login"]),
        ("n[5-5]", ["n5"]),
    ],
)
def test_a_list_of_hosts_is_expanded_in_order(text, names):
    assert list(expand(text, "X")) == names


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "="),
        ("n[1-", "="),
        ("n1,", "="),
        (",n1", "="),
        ("n[1-2]]", "="),
        ("n[]", "has no ranges of numbers"),
        ("n[a-b]", "has no ranges of numbers"),
        ("n[3-1]", "the range 3-1"),
        ("n[\u0661]", "has no ranges of numbers"),
        ("n[0-65536]", "the range 0-65536"),
        ("n[0-999][0-999]", "more than 65536 hosts"),
    ],
)
def test_a_refused_list_is_named_with_its_variable(text, why):
    with pytest.raises(BadInput) as raised:
        expand(text, "SLURM_STEP_NODELIST")
    assert raised.value.reason.startswith(f"SLURM_STEP_NODELIST={text!r} is no list of hosts")
    assert why in raised.value.reason
    assert "legal: names with ranges, as n1,trn2-[1-4,07]" in raised.value.reason


NAMES = st.sampled_from(["n", "trn2-", "a-b"])


@settings(max_examples=20)
@given(
    st.lists(
        st.tuples(NAMES, st.integers(0, 99), st.integers(0, 9), st.integers(1, 4)),
        min_size=1,
        max_size=3,
    )
)
def test_ranges_with_leading_zeros_come_back(parts):
    text = ",".join(
        f"{name}[{first:0{width}d}-{first + more}]" for name, first, more, width in parts
    )
    names = [
        f"{name}{number:0{max(width, len(str(first)))}d}"
        for name, first, more, width in parts
        for number in range(first, first + more + 1)
    ]
    assert list(expand(text, "X")) == names


SCONTROL = """#!/bin/sh
[ "$1 $2" = "show hostnames" ] || exit 9
case $3 in refused*) echo "Invalid hostlist: $3"; exit 1;; esac
echo "asked for $3" | /usr/bin/tr ' ' '\\n'
"""


def test_scontrol_expands_where_it_is_installed(tmp_path, monkeypatch):
    program = tmp_path / "scontrol"
    program.write_text(SCONTROL)
    program.chmod(0o755)
    assert hosts("n[1-2]", "X") == ("n1", "n2")  # it is not on PATH yet
    monkeypatch.setenv("PATH", str(tmp_path))
    assert hosts("n[1-2]", "X") == ("asked", "for", "n[1-2]")
    assert hosts("-n", "X") == ("-n",)  # never an option of scontrol's
    with pytest.raises(BadInput, match=r"SLURM_X='refused\[' is no list .*scontrol refuses it"):
        hosts("refused[", "SLURM_X")


def test_counts_and_numbers():
    assert counts("2(x3),1", "X") == (2, 2, 2, 1)
    assert counts("1", "X") == (1,)
    assert numbers("0-3,7") == (0, 1, 2, 3, 7)
    assert numbers("7,0-1,1") == (0, 1, 7)
    for text in ("", "0", "2(x0)", "2(3)", "2(x3", "-1", "2,,1", "\u0662"):
        with pytest.raises(BadInput, match=r"is no list of tasks a node; legal: numbers, as 2\(x3"):
            counts(text, "SLURM_TASKS_PER_NODE")
    for text in ("", "a", "1-", "-1", "3-0", "0-99999999"):
        with pytest.raises(ValueError, match=f"^{text}$"):
            numbers(text)
