import pytest

from trnsim.jobs.formats import read_specs
from trnsim.jobs.formats.sbatch_faults import option_faults
from trnsim.jobs.rules import findings

KEY = "#SBATCH"


@pytest.mark.parametrize(
    "options",
    [
        {"nodes": "2", "ntasks-per-node": "8", "exclusive": True},
        {"part": "trn1", "ntasks-per-n": "8"},
        {"ntasks": "$N", "{{ x }}": "1", "cpus-per-task": "<cpus>"},
        {"container-image": "a", "gpus-per-socket": "a100:2"},
    ],
)
def test_options_and_their_beginnings_are_legal(options):
    assert list(option_faults(KEY, options)) == []


@pytest.mark.parametrize(
    ("option", "value", "rule", "words"),
    [
        ("ntask-per-nodes", "8", "misspelled-field", "perhaps --ntasks-per-node"),
        ("mem-pe", "8G", "misspelled-field", "perhaps --mem-per-cpu or --mem-per-gpu"),
        ("colour", "red", "unknown-field", "take it out"),
        ("y", True, "unknown-field", "take it out"),
        ("ntasks-per-core", "two", "field-type", "--ntasks-per-core=N"),
        ("threads-per-core", True, "field-type", "--threads-per-core=N"),
        ("mincpus", "-1", "field-type", "--mincpus=N"),
    ],
)
def test_another_option_or_value_is_a_fault(option, value, rule, words):
    (fault,) = option_faults(KEY, {option: value})
    assert fault.rule == rule
    assert words in fault.fix
    assert option in fault.reason


def test_faults_are_findings_at_the_options_lines(tmp_path):
    path = tmp_path / "a.sbatch"
    lines = ["#!/bin/bash", "#SBATCH --nodes=2", "#SBATCH --ntask-per-node=8", "#SBATCH --colour=1"]
    lines += ["#SBATCH hetjob", "#SBATCH --cores-per-socket=x", "srun python train.py"]
    path.write_text("\n".join(lines))
    (spec,) = read_specs(path)
    found = [(row.rule, row.place.line, row.severity) for row in findings(spec)]
    assert found == [
        ("misspelled-field", 3, "error"),
        ("unknown-field", 4, "warning"),
        ("field-type", 6, "error"),
    ]
