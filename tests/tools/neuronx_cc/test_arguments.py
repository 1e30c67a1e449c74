import re
from pathlib import Path

import pytest

from trnsim.compiler.flag_table import FLAGS
from trnsim.errors import BadInput
from trnsim.tools.neuronx_cc.arguments import CompileArguments, flag_lines

LEAST = ["m.hlo", "--framework", "XLA", "--target", "trn2"]


def test_the_least_that_is_asked_for_has_awss_defaults():
    found = CompileArguments.of(LEAST)
    assert (found.model, found.target, found.family) == (Path("m.hlo"), "trn2", "trn2")
    assert (found.output, found.logfile) == (Path("file.neff"), Path("log-neuron-cc.txt"))
    assert (found.workdir, found.level, found.flags, found.flag_notes) == (None, 30, (), ())


def test_flags_stand_before_and_behind_the_file_in_any_spelling():
    words = "--framework=XLA -O1 m.hlo --target trn1n --auto-cast matmult --output a.neff"
    words += " --logfile l.txt --workdir w --verbose=35 -lnc 1 --model-type=transformer-inference"
    found = CompileArguments.of(words.split())
    assert (found.target, found.family) == ("trn1", "trn1n")
    assert found.flags == (
        "--optlevel=1",
        "--auto-cast=matmult",
        "--logical-nc-config=1",
        "--model-type=transformer-inference",
    )
    assert (found.output, found.logfile) == (Path("a.neff"), Path("l.txt"))
    assert (found.workdir, found.level) == (Path("w"), 35)


def test_the_last_of_several_settings_holds():
    assert CompileArguments.of([*LEAST, "--target=inf2", "--verbose", "info"]).target == "inf2"


def test_a_flag_without_effect_is_accepted_and_said():
    found = CompileArguments.of([*LEAST, "--enable-fast-context-switch", "--cache_dir=x"])
    assert [line.partition(" ")[0] for line in found.flag_notes] == [
        "--enable-fast-context-switch",
        "--cache-dir=x",
    ]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["m"], r"the following arguments are required: --framework, --target$"),
        (["m", "--framework", "XLA"], r"the following arguments are required: --target$"),
        (LEAST[1:], r"one file of a graph is compiled; named are none$"),
        ([*LEAST, "n.hlo"], r"one file of a graph is compiled; named are 2: m\.hlo, n\.hlo$"),
        ([*LEAST, "--auto-cats=all"], r"--auto-cats is no flag of neuronx-cc$"),
        ([*LEAST, "--auto-cast=some"], r"--auto-cast=some; legal: none, matmult or all$"),
        ([*LEAST, "--framework=TF"], r"--framework=TF; legal: XLA$"),
        ([*LEAST, "--target=gpu"], r"--target=gpu; legal: inf2, trn1, trn1n, trn2 or trn3$"),
        ([*LEAST, "--verbose=loud"], r"argument --verbose: invalid choice: 'loud'; legal: debug"),
        ([*LEAST, "--verbose=10000"], r"argument --verbose: invalid choice: '10000'"),
        ([*LEAST, "--output"], r"--output without a value"),
        ([*LEAST, "\u2014-output"], r"unrecognized arguments: .* begins with a dash$"),
    ],
)
def test_what_is_wrong_is_refused_in_the_compilers_words(words, message):
    with pytest.raises(BadInput) as refused:
        CompileArguments.of(words)
    assert re.search(message, refused.value.reason), refused.value.reason
    assert refused.value.reason.startswith("neuronx-cc: ")
    assert refused.value.fix


def test_every_flag_of_the_table_is_listed():
    assert [name for name, _ in flag_lines()] == [f"--{name}" for name in FLAGS]
    assert ("--optlevel", "1, 2, 3") in flag_lines()
