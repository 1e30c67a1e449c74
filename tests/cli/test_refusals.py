"""Refusals as users read them: what was given, what is legal or a fix, at the terminal's width.

`python tests/cli/refusals.py FILE` writes all of them, to be read.
"""

import os
from pathlib import Path

import pytest
import refusals

from trnsim.document.wrapping import columns_of

LINES = """
plaan
run
run absent.py
run none.py --input x.npy
run syntax.py
run illegal-partitions.py
run illegal-argument.py
run kernel.py --on trn2,trn9
run kernel.py --ranks many
launch --on trn2.48xlarge --fault hbm=3 -- python none.py
profile view absent.json
explain nc_matmull
compile bert-large.json --import ''
plan train no-such
plan train list.json
plan train unknown.json
plan train llama-3.1-8b --on trn2 --tp 7
plan train llama-3.1-8b --on trn2 --price sopt
plan train llama-3.1-8b --on trn2 --prices key.yaml
plan train llama-3.1-8b --on trn2 --prices tabs.yaml
plan train llama-3.1-8b --on trn2 --prices anchors.yaml
plan train llama-3.1-8b --on trn2 --measured measured.csv
plan serve llama-3.1-8b --on trn2 --trace trace-back.csv
plan serve llama-3.1-8b --on trn2 --input-len uniform:9:3
plan fleet absent.yaml
plan fleet scenario.yaml
plan collective all_reduse --bytes 1MiB
plan infer llama-3.1-8b --on trn2
job check absent.sbatch
job check bert-large.json
job price stored-plan.json --price spto
job write stored-plan.json --as word
why 'plan infer' plan.json
assess
assess absent.csv
assess empty.csv
assess head.csv
assess utf16.csv
assess two-workloads.csv --output x.pdf
assess .
pilot read absent log.txt
guard write cut.json --folder guard
shell --on p5en
fault hang --device 99
nccom-test allreduce -r 2
nccom-test allr -r 2 --stats median
nccom-test allr -r 2 --custom-replica-groups list.json
nccom-test allr -r 2 --streams-json cut.json
nccom-test alltoallv -r 2
neuron-monitor -c cut.json
neuron-monitor-prometheus --port 99999
instances --for twice.json
prices show trn2.48xlarge --days 0
claims C99
""".strip().splitlines()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    before = Path.cwd()
    os.chdir(refusals.lay_out(tmp_path_factory.mktemp("refusals")))
    yield
    os.chdir(before)


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("line", LINES)
def test_a_refusal_says_what_is_legal_or_a_fix_and_fits_its_terminal(line):
    status, out, text = refusals.ended(line)
    assert (status, out) == (2, "")
    assert list(refusals.faults(text)) == []


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("Traceback (most recent call last)", "no error of trnsim"),
        ("trnsim: error: no", "neither what is legal nor a fix"),
        ("trnsim: error: <Engine.vector: 1>; legal: 3", "words of Python"),
        ("trnsim: error: a; legal: 3  4", "spaces or periods too many"),
        ("trnsim: error: a; legal: 3\n  fix:", "a line of 60 columns says nothing"),
    ],
)
def test_a_text_that_breaks_a_rule_is_told(text, fault):
    assert fault in list(refusals.faults(text))


def test_a_refusal_is_shown_at_the_width_of_the_terminal():
    text = "trnsim: error: " + "word " * 40 + "\n  fix: words " + "y" * 70
    for columns in refusals.WIDTHS:
        lines = refusals.shown(text, columns).splitlines()
        assert max(map(columns_of, lines)) <= columns
        assert "  fix: words" in "\n".join(lines)


def test_every_command_has_a_legal_line_to_which_wrong_options_are_added():
    assert {name for name, _ in refusals.leaves()} == refusals.BASES.keys()
    assert {line.split()[0] for line in refusals.of_options()} <= set(refusals.COMMANDS)
