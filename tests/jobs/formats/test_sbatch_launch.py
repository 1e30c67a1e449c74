import pytest

from trnsim.jobs.formats.sbatch_script import script_content


def content(body):
    return script_content(f"#!/bin/bash\n#SBATCH --nodes=2\n{body}")


@pytest.mark.parametrize(
    ("body", "command", "line", "branch"),
    [
        ("if a; then\n  srun b\nfi\n", ["b"], 4, "the branch `then` of `if` of line 3"),
        ("if a; then x; else srun b; fi\n", ["b"], 3, "the branch `else` of `if` of line 3"),
        ("if a; then srun c\nelse srun b; fi\n", ["b"], 4, "the branch `else` of `if` of line 3"),
        (
            "if a; then x\nelif c; then srun b; fi\n",
            ["b"],
            4,
            "the branch `then` of `if` of line 3",
        ),
        ("if srun b; then x; fi\n", ["b"], 3, "the condition of `if` of line 3"),
        ("x=1\nfor n in 1 2; do srun -N $n b; done\n", ["b"], 4, "the loop `for` of line 4"),
        ("while a\ndo\n srun b &\ndone\nwait\n", ["b"], 5, "the loop `while` of line 3"),
        ("case $a in\n b) srun b;;\n *) x;;\nesac\n", ["b"], 4, "a branch of `case` of line 3"),
        ("f() {\n  srun b\n}\nf\n", ["b"], 4, "the braces of line 3"),
        ("function f {\n  srun b\n}\nf\n", ["b"], 4, "the braces of line 3"),
        ("(cd x; srun b)\n", ["b"], 3, "the brackets of line 3"),
        (
            "for n in 1; do\n if a; then srun b; fi\ndone\n",
            ["b"],
            4,
            "the branch `then` of `if` of line 4 in the loop `for` of line 3",
        ),
        ("srun b\nif a; then srun c; fi\n", ["b"], 3, ""),
        ("python a.py\nif a; then srun b; fi\n", ["b"], 4, "the branch `then` of `if` of line 4"),
        (
            "if a; then srun c; srun b; python a.py; fi\n",
            ["b"],
            3,
            "the branch `then` of `if` of line 3",
        ),
    ],
)
def test_a_command_within_a_block_is_read_with_the_words_of_the_block(body, command, line, branch):
    script = content(body)
    assert script.content["command"] == [command]
    assert (script.line_of(("command", 0)), script.branch) == (line, branch)


def test_a_variable_that_a_block_sets_is_not_known_within_it():
    script = content("N=1 M=2\nfor N in 1 2; do srun b $N $M; done\n")
    assert script.content["command"] == [["b", "$N", "2"]]
