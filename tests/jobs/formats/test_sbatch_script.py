import pytest

from trnsim.jobs.formats.sbatch_script import HEAD, HEADER, script_content
from trnsim.reader.parsed import Malformed


def content(body, header="#SBATCH --nodes=2\n"):
    return script_content(f"#!/bin/bash\n{header}{body}")


def test_options_are_read_up_to_the_first_command():
    script = content(
        "#SBATCH -n 4\n\n# a\nx\n#SBATCH --time=1\n", "#SBATCH --gres=gpu:h100:8,neuron:2,nic\n"
    )
    assert script.content[HEADER] == {
        "gres": {"gpu": "8", "gpu type": "h100", "neuron": "2", "nic": "1"},
        "ntasks": "4",
    }
    assert script.content["ignored"] == {0: "#SBATCH --time=1"}
    assert script.line_of(("ignored", 0)) == 7
    assert script.line_of((HEADER, "gres", "gpu")) == 2
    assert script.line_of((HEADER, "ntasks")) == 3


def test_variables_of_the_export_option_are_variables():
    script = content("", "#SBATCH --export=ALL,A=1,B=x=y\n")
    assert script.content["export"] == [{"name": "A", "value": "1"}, {"name": "B", "value": "x=y"}]
    assert script.content[HEADER] == {}
    assert content("", "#SBATCH --export=NONE\n").content[HEADER] == {"export": "NONE"}


@pytest.mark.parametrize(
    ("body", "exports"),
    [
        ("export A=1 B=$A-2\n", {"A": "1", "B": "1-2"}),
        ("A=1\nexport A\n", {"A": "1"}),
        ("A=1\nA+=2\nexport B=$A\n", {"B": "12"}),
        ("X=$(date)\nexport A=$X\n", {"A": "$X"}),
        ("export A=$(hostname)\n", {"A": "$(hostname)"}),
        ("A=1\nif true; then A=2; fi\nexport B=$A\n", {"B": "$A"}),
        ("A=1\nfor A in 2 3; do x; done\nexport B=$A\n", {"B": "$A"}),
        ("A=1\nread -r A < f\nexport B=$A\n", {"B": "$A"}),
        ("A=1\nunset A\nexport B=$A\n", {"B": "$A"}),
        ("A=1\nx && A=2\nexport B=$A\n", {"B": "$A"}),
        ("A=(1 2)\nexport B=${A[0]}-${A[*]}\n", {"B": "${A[0]}-1 2"}),
        ("A=1 srun x\n", {"A": "1"}),
        ("A=1\n", {}),
    ],
)
def test_exported_variables(body, exports):
    found = content(body).content.get("export", [])
    assert {row["name"]: row["value"] for row in found} == exports


def test_variables_that_may_be_set_are_uncertain():
    script = content("if a; then\n export A=1\nfi\nexport B=1\nexport C\nx || B=2\nexport D=($B)\n")
    assert set(script.uncertain) == {"A", "B", "C", "D"}
    assert script.uncertain["A"][1] == 3
    script = content("if a; then export A=1; fi\nexport A=2\n")
    assert script.uncertain == {}


@pytest.mark.parametrize(
    ("body", "command"),
    [
        ("srun a\nsrun b c\necho\n", ["b", "c"]),
        ("python a.py\ntorchrun b.py\npython c.py\n", ["torchrun", "b.py"]),
        ("mkdir x\npython a.py\nls\n", ["python", "a.py"]),
        ("cd a && srun b\n", ["b"]),
        ("./run.sh 1\n", ["./run.sh", "1"]),
        (
            "C='torchrun --nproc-per-node 2'\nsrun $C a\n",
            ["torchrun", "--nproc-per-node", "2", "a"],
        ),
        ('O=""\nif a; then O="--x=1"; fi\nsrun $O a b\n', ["a", "b"]),
        ('if a; then L=(--x 1); fi\nsrun "${L[@]}" a b\n', ["a", "b"]),
        ('P="python"\nif a; then P="python3"; fi\nsrun $P b\n', ["$P", "b"]),
        ("srun --a=1 -N 2 b -N 3 : c\n", ["b", "-N", "3", ":", "c"]),
    ],
)
def test_the_command_is_the_last_of_a_parallel_program(body, command):
    assert content(body).content["command"] == [command]


@pytest.mark.parametrize("body", ["", "ls\n", "if a; then b; fi\n", "a || srun b\n"])
def test_a_script_may_have_no_command(body):
    assert "command" not in content(body).content


def test_a_statement_is_numbered_with_its_parts_around_the_command():
    script = content("if a; then\n  A=1 srun b\n  c\nelse\n  d\nfi\nwait\n")
    assert script.content["export"] == [{"name": "A", "value": "1"}]
    assert script.content["script"] == {1: "if a; then", 3: "wait"}
    assert script.content["tail"] == "\nc\nelse\n  d\nfi"


def test_statements_are_numbered_with_variables_and_the_command():
    script = content("set -e\nexport A=1\nB=2\nx && A=1 srun -l a | tee b\nwait\n")
    assert script.content["script"] == {0: "set -e", 2: "B=2", 3: "x", 6: "wait"}
    assert script.content["tail"] == "| tee b"
    assert script.content["srun"] == [["-l"]]
    assert script.line_of(("script", 6)) == 7
    assert content("torchrun a > b 2>&1 &\n").content["tail"] == "> b 2>&1 &"
    assert content("torchrun a\n").content["srun"] is False


def test_the_heads_address_is_no_variable_where_the_command_names_it():
    line = f"export {HEAD[0]}={HEAD[1]}\n"
    assert "export" not in content(line + "srun a $MASTER_ADDR\n").content
    assert len(content(line + "srun a\n").content["export"]) == 1


def test_an_image_is_no_option_of_srun():
    for option in ("--container-image=x.sqsh", "--container-image x.sqsh"):
        script = content(f"srun -l {option} a\n")
        assert script.content["image"] == ["x.sqsh"]
        assert script.content["srun"] == [["-l"]]


def test_a_quote_of_an_option_that_is_not_closed_is_refused():
    with pytest.raises(Malformed, match="a quote in '--job-name=\"a' is not closed") as error:
        content("", '#SBATCH --job-name="a\n')
    assert error.value.line == 2
