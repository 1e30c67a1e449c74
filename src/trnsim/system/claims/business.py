"""Claims about dates, sums, the SDK, and when a migration pays."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from trnsim.price.payback import HOURS_PER_MONTH, MIGRATION_USD, threshold_usd_per_month
from trnsim.system.claims.amounts import Absent, Amount, Kind, Origin
from trnsim.system.claims.chips import GUIDE, NOTES
from trnsim.system.claims.instances import TRN2
from trnsim.system.claims.published import FACTS, stated
from trnsim.system.claims.verdict import Claim, figure, number, words

if TYPE_CHECKING:
    from collections.abc import Callable

    from trnsim.system.claims.rows import Rows
    from trnsim.system.claims.verdict import Found, Given

_MONTHS: Final = 12
_MIGRATION: Final = Origin(
    Kind.ASSUMED,
    source="12 weeks of an engineer at 5,000 USD, paid back in 12 months",
    doubt="assumed: what a migration costs",
)


def _threshold(saving: float) -> Amount:
    return Amount(threshold_usd_per_month(saving), (_MIGRATION,))


def inference_threshold(rows: Rows) -> Claim:
    """``migration / (12 months x saving)`` at the claimed savings, with an assumed migration."""
    del rows
    given = [
        figure(
            f"migration of {MIGRATION_USD:,.0f} USD (assumed), {saving:.0%} saved",
            partial(_threshold, saving),
        )
        for saving in (0.40, 0.50)
    ]
    wanted = "monthly USD from which migrations to Inferentia paid back"
    return Claim(
        "C31",
        GUIDE,
        "sinnvoll, wenn die Inferenzkosten 10.000 Dollar/Monat übersteigen",
        "moving to Inferentia pays above 10,000 USD a month",
        (number("monthly spend", 10_000, "USD", *given, wanted),),
        notes=("give your own cost of a migration: trnsim assess",),
    )


def _returned(saving: float) -> Amount:
    """What a year saves of 100,000 USD a month, over the assumed cost of a migration."""
    return Amount(100_000 * saving * _MONTHS / MIGRATION_USD, (_MIGRATION,))


def large_spend(rows: Rows) -> Claim:
    """``spend x saving x 12`` over an assumed migration, at the claimed figures."""
    del rows
    given = [
        figure(
            f"saved in a year over a migration of {MIGRATION_USD:,.0f} USD (assumed), {part:.0%}",
            partial(_returned, part),
        )
        for part in (0.40, 0.50)
    ]
    return Claim(
        "C64",
        GUIDE,
        "Über 100.000 Dollar/Monat liefert die 40-50%ige Kostenreduktion erhebliche Renditen",
        "above 100,000 USD a month, 40 to 50 % less returns much",
        (number("return", 1, "x or more", *given, "bills before and after such a migration"),),
        notes=("whether 40 to 50 % are saved is C08, C27 and C30",),
    )


def training_threshold(rows: Rows) -> Claim:
    """Number of chips whose yearly savings pay for an assumed migration."""

    def chips(saving: float) -> Found:
        def found() -> Amount:
            prices = rows.prices(TRN2, "capacity_block")
            if not prices:
                raise Absent(f"a capacity_block price of {TRN2}")
            per_chip = rows.usd(prices[0]) / rows.count(TRN2)
            # The bill before the migration is the Trainium bill over (1 - saving).
            return (1 - saving) * _threshold(saving) / (per_chip * HOURS_PER_MONTH)

        return found

    given = [
        figure(
            f"{saving:.0%} saved, migration of {MIGRATION_USD:,.0f} USD (assumed)", chips(saving)
        )
        for saving in (0.30, 0.50)
    ]
    return Claim(
        "C33",
        GUIDE,
        "Groß angelegtes verteiltes Training mit über 100 Chips",
        "training is worth moving above 100 chips",
        (number("chips", 100, "", *given, "chips from which migrations to Trainium paid back"),),
    )


def sdk_release(rows: Rows) -> Claim:
    """Month of the release, and the versions that it supports."""

    def of(name: str) -> Given:
        def found() -> tuple[str, tuple[Origin, ...]]:
            release, origin = rows.release("2.26.0")
            month = release.released.strftime("%Y-%m")
            return month if name == "month" else release.supports[name], (origin,)

        return words("release notes", found)

    return Claim(
        "C34",
        GUIDE,
        "Neuron SDK 2.26.0 (November 2025): ... PyTorch 2.8 und JAX 0.6.2 ... Python 3.11",
        "Neuron SDK 2.26.0 came in November 2025 with PyTorch 2.8, JAX 0.6.2 and Python 3.11",
        (
            number("month", "2025-11", "", of("month")),
            number("PyTorch", "2.8", "", of("pytorch")),
            number("JAX", "0.6.2", "", of("jax")),
            number("Python", "3.11", "", of("python")),
        ),
    )


def sdk_contents(rows: Rows) -> Claim:
    """What the release notes of 2.26.0 list."""
    del rows
    return Claim(
        "C57",
        GUIDE,
        "Llama 4-Varianten und FLUX.1-dev ... in der Beta ... ermöglicht nun MoE-Modelltraining",
        "SDK 2.26 has Llama 4 and FLUX.1-dev in beta, and expert parallelism for training",
        (
            number("Llama 4", "beta", "", stated("Llama 4", "NxD Inference")),
            number("FLUX.1-dev", "beta", "", stated("FLUX.1-dev", "NxD Inference")),
            number(
                "expert parallelism",
                "training",
                "",
                stated("expert parallelism", "NxD Inference"),
            ),
        ),
    )


def compiler_licence(rows: Rows) -> Claim:
    """What AWS announced in December 2025."""
    del rows
    return Claim(
        "C58",
        GUIDE,
        "AWS hat den NKI Compiler unter Apache 2.0 als Open Source veröffentlicht",
        "the NKI compiler is open source under Apache 2.0",
        (number("licence", "Apache 2.0", "", stated("NKI compiler", "as announced")),),
        notes=(
            (
                "its source was in private preview then; in August 2026 the documentation still "
                "plans to release it"
            ),
        ),
    )


def models(rows: Rows) -> Claim:
    """A count of models that compile is published nowhere."""
    del rows
    return Claim(
        "C41",
        NOTES,
        "supporting over 100,000 models",
        "the SDK supports over 100,000 models",
        (number("models", 100_000, "", "a list of models that compile; architectures are listed"),),
    )


def annapurna(rows: Rows) -> Claim:
    """What the press said in January 2015; Amazon published no price."""
    del rows
    return Claim(
        "C60",
        GUIDE,
        "Annapurna Labs ... das 2015 für 350 Millionen Dollar übernommen wurde",
        "AWS bought Annapurna Labs in 2015 for 350 million USD",
        (
            number("year", "2015", "", stated("Annapurna Labs, year", "press")),
            number(
                "price",
                350,
                "million USD",
                stated("Annapurna Labs, low", "press, 350 to 375"),
                stated("Annapurna Labs, high", "press, before the sale"),
            ),
        ),
    )


def investment(rows: Rows) -> Claim:
    """What was announced, with what came before 2024 and without."""
    del rows

    def since_2024() -> Amount:
        return FACTS["invested in Anthropic"].amount - FACTS["invested in Anthropic in 2023"].amount

    return Claim(
        "C61",
        GUIDE,
        "Amazon investierte seit Anfang 2024 8 Milliarden Dollar in Anthropic",
        "Amazon has invested 8 billion USD in Anthropic since early 2024",
        (
            number(
                "sum",
                8,
                "billion USD",
                stated("invested in Anthropic", "in all, as committed in November 2024"),
                figure("without what was paid in September 2023", since_2024),
            ),
        ),
    )


def _first(id_: str, quote: str, says: str, claimed: str, fact: str) -> Callable[[Rows], Claim]:
    """A claim about when a chip first came, beside its first support in the SDK."""

    def check(rows: Rows) -> Claim:
        del rows
        given = stated(fact, "first support in the SDK")
        return Claim(id_, GUIDE, quote, says, (number("first", claimed, "", given),))

    return check


def _generations(kind: str, of: str, quote: str, id_: str, claimed: int) -> Callable[[Rows], Claim]:
    """A claim about how many chips there are of a name."""

    def check(rows: Rows) -> Claim:
        def count() -> Amount:
            names = [name for name in rows.catalogue.chips if name.startswith(of)]
            if not names:
                raise Absent(f"rows of {of}")
            origins = tuple(origin for name in names for origin in rows.memory(name).origins)
            return Amount(len(names), origins)

        part = number("generations", claimed, "", figure("rows of the catalogue", count))
        return Claim(id_, GUIDE, quote, f"{kind} has {claimed} generations", (part,))

    return check


CLAIMS: Final[tuple[Callable[[Rows], Claim], ...]] = (
    inference_threshold,
    large_spend,
    training_threshold,
    sdk_release,
    sdk_contents,
    compiler_licence,
    models,
    annapurna,
    investment,
    _first(
        "C43",
        "Erste Generation Trainium (2022)",
        "the first Trainium came in 2022",
        "2022",
        "Trn1 first supported",
    ),
    _first("C44", "Trainium2 (2024)", "Trainium2 came in 2024", "2024", "Trn2 first supported"),
    _first(
        "C45",
        "Trainium3 (Dezember 2025)",
        "Trainium3 came in December 2025",
        "2025-12",
        "Trn3 first supported",
    ),
    _first(
        "C46",
        "Erste Generation Inferentia (2019)",
        "the first Inferentia came in 2019",
        "2019",
        "Inf1 first supported",
    ),
    _first("C47", "Inferentia2 (2023)", "Inferentia2 came in 2023", "2023", "Inf2 first supported"),
    _generations("Inferentia", "inferentia", "Ein Inferentia3 wurde nicht angekündigt", "C48", 2),
    _generations(
        "Trainium", "trainium", "Trainium4 (angekündigt): Bereits in Entwicklung", "C69", 3
    ),
    _first("C59", "TorchNeuron (2025)", "TorchNeuron came in 2025", "2025", "TorchNeuron"),
    _first(
        "C70",
        "Trainium4 ... NVIDIA NVLink Fusion unterstützen",
        "Trainium4 with NVLink Fusion is announced",
        "announced",
        "NVLink Fusion",
    ),
)
