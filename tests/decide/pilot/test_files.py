"""A pilot's folder has what people need to run it, and is not written over."""

import re

import pytest
from pilot_cases import pilot_of

from trnsim.decide.pilot.files import check, clear, readme, write
from trnsim.decide.pilot.plan import read
from trnsim.errors import BadInput
from trnsim.formatting import amount

LAUNCH = {"today-torchrun.sh": "#!/bin/sh\n", "there-torchrun.sh": "#!/bin/sh\n"}


def test_the_folder_holds_launch_files_a_page_and_the_pilot(tmp_path):
    made = pilot_of("train")
    paths = write(made, LAUNCH, tmp_path / "pilot")
    assert [str(one.relative_to(tmp_path / "pilot")) for one in paths] == [
        "launch/today-torchrun.sh",
        "launch/there-torchrun.sh",
        "README.md",
        "pilot.json",
    ]
    assert read(tmp_path / "pilot") == made


def test_a_folder_with_a_pilot_is_refused_unless_forced(tmp_path):
    check(tmp_path, is_forced=False)
    write(pilot_of("train"), LAUNCH, tmp_path)
    with pytest.raises(BadInput, match="has a pilot already") as caught:
        check(tmp_path, is_forced=False)
    assert "--force" in str(caught.value)
    check(tmp_path, is_forced=True)


def test_what_an_older_pilot_left_is_removed_and_nothing_else(tmp_path):
    clear(tmp_path)
    write(pilot_of("train"), LAUNCH, tmp_path)
    for name in ("decision.json", "migration.md", "today.csv", "launch/mine.sh"):
        (tmp_path / name).write_text("")
    clear(tmp_path)
    left = {str(one.relative_to(tmp_path)) for one in tmp_path.rglob("*") if one.is_file()}
    assert left == {"README.md", "today.csv", "launch/mine.sh"}


def test_a_file_in_place_of_the_folder_is_refused(tmp_path):
    (tmp_path / "pilot").write_text("")
    with pytest.raises(BadInput, match="it is a file"):
        check(tmp_path / "pilot", is_forced=False)


@pytest.mark.parametrize("kind", ["train", "serve", "infer"])
def test_the_page_says_what_to_run_what_it_costs_and_how_logs_are_named(kind):
    made = pilot_of(kind)
    text = readme(made, LAUNCH)
    for needed in (
        "1 x p5.48xlarge",
        "1 x trn1.32xlarge",
        amount(made.there.usd),
        "`launch/today-torchrun.sh`",
        "`today.log`",
        "vllm, guidellm, torchtitan, trainer, nemo, csv",
        "trnsim pilot read DIR today.log there.log",
        "called `llama`",
        made.why,
    ):
        assert needed in text
    for one in made.thresholds:
        assert re.search(rf"\| {re.escape(one.name)} +\| (>=|<=) {amount(one.limit)}", text)


def test_other_workloads_are_listed_where_there_are_some():
    assert "## The other workloads" not in readme(pilot_of("train"), LAUNCH)
