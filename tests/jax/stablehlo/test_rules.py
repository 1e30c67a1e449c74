"""The table of rules."""

from trnsim.jax.stablehlo.importing import RULES_IN
from trnsim.jax.stablehlo.rules import RULES, rule


def test_every_rule_says_what_it_gives():
    assert RULES_IN
    for name, made in RULES.items():
        assert made.build.__doc__, name


def test_a_rule_is_entered_under_its_names():
    @rule("test.one", "test.two", composed="nothing", is_folded=False)
    def build(scope, op):
        return scope, op

    try:
        for name in ("test.one", "test.two"):
            assert RULES[name].build is build
            assert (RULES[name].composed, RULES[name].is_folded) == ("nothing", False)
    finally:
        del RULES["test.one"], RULES["test.two"]
