import re

import pytest

from trnsim.compiler import Flags
from trnsim.compiler.flag_table import DOWNCASTS, FLAGS
from trnsim.compiler.flags import flag_settings, program_flags
from trnsim.errors import BadInput


def test_the_defaults_are_those_that_aws_documents():
    flags = Flags()
    assert (flags.auto_cast, flags.auto_cast_type, flags.optlevel) == ("none", "bf16", 2)
    assert (flags.model_type, flags.logical_nc_config) == ("generic", None)
    assert flags.implicit_integer_downcast == DOWNCASTS
    assert not flags.native_int64
    assert flags.mixed_precision_accumulation
    assert not flags.notes
    assert Flags.parse("") == Flags.parse([]) == flags


@pytest.mark.parametrize(
    ("text", "field", "value"),
    [
        ("--auto-cast matmult", "auto_cast", "matmult"),
        ("--auto-cast=all", "auto_cast", "all"),
        ("--auto_cast=all", "auto_cast", "all"),
        ("--auto-cast-type fp8_e4m3", "auto_cast_type", "fp8_e4m3"),
        ("-O1", "optlevel", 1),
        ("-O 3", "optlevel", 3),
        ("-O=3", "optlevel", 3),
        ("--optlevel=1", "optlevel", 1),
        ("--enable-experimental-O1", "optlevel", 1),
        ("--model-type='unet-inference'", "model_type", "unet-inference"),
        ("--model-type=transformer-inference", "model_type", "transformer"),
        ("--enable-internal-neff-wrapper --optlevel 3", "optlevel", 3),
        ("-lnc 1", "logical_nc_config", 1),
        ("--lnc 2", "logical_nc_config", 2),
        ("--logical-nc-config=2", "logical_nc_config", 2),
        ("--native-int64=enabled", "native_int64", True),
        ("--native-int64=disabled", "native_int64", False),
        ("--implicit-integer-downcast=none", "implicit_integer_downcast", ()),
        ("--implicit-integer-downcast=pow,dot,pow", "implicit_integer_downcast", ("dot", "pow")),
        ("--implicit-integer-downcast=default", "implicit_integer_downcast", DOWNCASTS),
        ("--disable-mixed-precision-accumulation", "mixed_precision_accumulation", False),
        ("--enable-saturate-infinity", "saturate_infinity", True),
        ("--target trn1n", "target", "trn1n"),
        ("--experimental-unsafe-fp8e4m3fn-as-fp8e4m3", "fp8_e4m3fn_as_e4m3", True),
    ],
)
def test_a_flag_sets_its_field_and_no_other(text, field, value):
    found = Flags.parse(text)
    assert getattr(found, field) == value
    assert found == Flags(**{field: value})
    assert hash(found) == hash(Flags(**{field: value}))


def test_the_last_of_several_settings_holds():
    assert Flags.parse("--auto-cast all -O1 --auto-cast none --optlevel 3") == Flags(optlevel=3)


@pytest.mark.parametrize("name", FLAGS)
def test_every_documented_flag_is_accepted_and_has_an_effect_or_says_that_it_has_none(name):
    flag = FLAGS[name]
    value = next(iter(filter(None, flag.values)), "7") if flag.takes_value else ""
    found = Flags.parse([f"--{name}={value}" if value else f"--{name}"])
    if not flag.sets or flag.note:
        assert found.notes == (f"--{name}{'=' * bool(value)}{value} {flag.note}",)
        assert "has no effect" in flag.note
    else:
        assert not found.notes


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("--internal-max-limit 5 -O1", "--internal-max-limit=5"),
        ("--internal-dge-levels io spill_reload -O1", "--internal-dge-levels=io spill_reload"),
        ("--internal-options '--a --b' -O1", "--internal-options=--a --b"),
        ("--internal-neff-wrapper -O1", "--internal-neff-wrapper"),
        ("--tensorizer-options '--a --b' -O1", "--tensorizer-options=--a --b"),
    ],
)
def test_values_of_flags_for_a_part_of_awss_compiler_may_be_words_of_their_own(text, said):
    found = Flags.parse(text)
    assert found.optlevel == 1
    assert [line.partition(" has no effect")[0] for line in found.notes] == [said]


def test_what_a_later_setting_overrides_is_not_said():
    found = Flags.parse("--auto-cast-type=tf32 --auto-cast-type=bf16 --verbose=1 --verbose 35")
    assert found.notes == ("--verbose=35 has no effect: nothing is logged",)


def test_what_has_no_effect_is_said_once_and_changes_nothing():
    found = Flags.parse("--no_cache --no-cache --internal-hlo-options='--a --b' --verbose=35")
    assert found == Flags()
    assert found.notes == (
        "--no-cache has no effect on a program: it is of the persistent cache",
        "--internal-hlo-options=--a --b has no effect: it is for a part of AWS's compiler",
        "--verbose=35 has no effect: nothing is logged",
    )


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("--autocast=all", "--autocast is no flag of neuronx-cc\n  fix: did you mean --auto-cast?"),
        ("--qqq", "--qqq is no flag of neuronx-cc\n  fix: its flags: auto-cast, "),
        ("compile", "'compile' stands where a flag should"),
        ("--auto-cast=matmul", "matmul; legal: none, matmult or all\n  fix: --auto-cast=matmult"),
        ("--auto-cast", "--auto-cast without a value; legal: none, matmult or all"),
        ("--auto-cast --no-cache", "--auto-cast without a value"),
        ("--auto-cast=", "--auto-cast= without a value; legal: none"),
        ("--cache_dir=", "--cache_dir= without a value; legal: a folder"),
        ("--auto-cast=dot", "NEURON_CC_FLAGS: --auto-cast=dot; legal: none, matmult or all"),
        ("--optlevel pow", "NEURON_CC_FLAGS: --optlevel=pow; legal: 1, 2 or 3"),
        ("-O0", "--optlevel=0; legal: 1, 2 or 3"),
        ("-O4", "--optlevel=4; legal: 1, 2 or 3"),
        ("--logical-nc-config 4", "--logical-nc-config=4; legal: 1 or 2"),
        ("--logfile", "--logfile without a value; legal: a file"),
        ("--enable-saturate-infinity=true", "the flag takes no value\n  fix: --enable-satur"),
        ("--implicit-integer-downcast=dot,sum", "=dot,sum; legal: default, all, none or a list"),
        ("--implicit-integer-downcast=", "legal: default, all, none or a list of dot, scatter"),
        (
            "--fast-math none",
            "--fast-math is a flag of neuron-cc, the compiler for Inf1\n  fix: ne",
        ),
        ("--neuroncore-pipeline-cores=4", "has --logical-nc-config, for two cores"),
        ("--model-type 'transformer", "close the quotation"),
    ],
)
def test_what_is_no_flag_or_no_value_is_refused_with_what_is_legal(text, wanted):
    with pytest.raises(BadInput, match=re.escape(wanted)) as caught:
        Flags.parse(text)
    assert "aws-neuron-sdk" in str(caught.value) or "quotation" in str(caught.value)


def test_a_word_that_is_no_text_is_refused():
    with pytest.raises(BadInput, match="compiler_args: 1 among the flags; legal: text"):
        Flags.parse(["--optlevel", 1], "compiler_args")
    with pytest.raises(BadInput, match=r"options\['compiler_args'\]: 5 among the flags"):
        Flags.of_options({"compiler_args": 5})


@pytest.mark.parametrize(
    "fields",
    [
        {"auto_cast": "matmul"},
        {"auto_cast_type": "bfloat16"},
        {"optlevel": 0},
        {"logical_nc_config": 3},
        {"implicit_integer_downcast": ("sum",)},
        {"implicit_integer_downcast": ("pow", "dot")},
        {"target": "inf1"},
        {"optlevel": True},
        {"mixed_precision_accumulation": 5},
    ],
    ids=str,
)
def test_a_field_with_another_value_is_refused(fields):
    with pytest.raises(BadInput, match=next(iter(fields))) as caught:
        Flags(**fields)
    assert not caught.value.fix.endswith("=")


def test_options_stand_for_flags_and_come_after_the_environment(monkeypatch):
    monkeypatch.setenv("NEURON_CC_FLAGS", "--auto-cast=all --model-type=transformer")
    assert Flags.of_environment() == Flags(auto_cast="all", model_type="transformer")
    found = Flags.of_options(
        {
            "auto_cast": "matmult",
            "implicit-integer-downcast": ["pow", "dot"],
            "enable_saturate_infinity": True,
            "optlevel": 1,
            "compiler_args": "--auto-cast-type fp16",
        }
    )
    assert found == Flags(
        auto_cast="matmult",
        auto_cast_type="fp16",
        optlevel=1,
        model_type="transformer",
        implicit_integer_downcast=("dot", "pow"),
        saturate_infinity=True,
    )
    assert Flags.of_options({"compiler_args": ["-O1"]}).optlevel == 1


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({"max_autotune": True}, "options: --max-autotune is no flag of neuronx-cc"),
        ({"auto_cast": "bf16"}, "--auto-cast=bf16; legal: none, matmult or all"),
        ({"enable_saturate_infinity": False}, "enable_saturate_infinity=False\n  fix: leave it"),
        ({"compiler_args": "compile"}, "'compile' stands where a flag should"),
        ({1: 2}, "options: 1 is no flag's name; legal: text"),
        ({"cache_dir": None}, "options: cache_dir=None; legal: a value, or True for a flag"),
        ({"optlevel": None}, "options: optlevel=None; legal: a value, or True for a flag"),
    ],
    ids=str,
)
def test_an_option_that_is_no_flag_is_refused(options, wanted):
    with pytest.raises(BadInput, match=re.escape(wanted)):
        Flags.of_options(options)


def test_a_cast_to_tf32_says_that_it_does_nothing():
    found = Flags.parse("--auto-cast=all --auto-cast-type=tf32")
    assert found.cast_dtype == ""
    assert "--auto-cast-type=tf32 has no effect yet" in found.notes[0]
    assert [Flags(auto_cast_type=one).cast_dtype for one in ("bf16", "fp16", "fp8_e4m3")] == [
        "bfloat16",
        "float16",
        "float8_e4m3",
    ]


def test_flags_of_a_program_have_one_spelling_and_leave_out_those_of_the_host():
    text = "-O1 --auto_cast=all --cache_dir=x --target trn1 --verbose=35 -lnc 1 --lnc 2"
    assert program_flags(text, "trn2", 2) == [
        "--target=trn2",
        "--logical-nc-config=2",
        "--optlevel=1",
        "--auto-cast=all",
    ]
    assert program_flags([], "trn1", 1) == ["--target=trn1", "--logical-nc-config=1"]


def test_words_that_are_no_flag_are_operands_where_there_may_be_some():
    operands = []
    settings = [
        (flag.name, value)
        for flag, value in flag_settings(["a", "-O", "2", "b", "--no-cache"], "x", operands)
    ]
    assert settings == [("optlevel", "2"), ("no-cache", "")]
    assert operands == ["a", "b"]
