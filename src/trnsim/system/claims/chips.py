"""Claims about chips and racks: peaks, memories, formats, energy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trnsim.arch import TARGETS
from trnsim.system.claims.amounts import Amount, Kind, Origin, more_than
from trnsim.system.claims.published import stated
from trnsim.system.claims.verdict import Basis, Claim, besides, figure, number, stand_in, words

if TYPE_CHECKING:
    from collections.abc import Callable

    from trnsim.facts import Flag
    from trnsim.system.claims.rows import Rows
    from trnsim.system.claims.verdict import Found, Given, Part

NOTES: Final = ("002", "000", "003")
GUIDE: Final = ("001",)
BOTH: Final = ("002", "000", "003", "001")
GIB: Final = 2.0**30
PETA: Final = 1e15
TERA: Final = 1e12
NEWEST: Final = "trainium3"
SECOND: Final = "trainium2"
FIRST: Final = "trainium1"


def trn2_over_trn1(rows: Rows) -> Claim:
    """Trainium2 over Trainium1, per chip, by every quantity that both have."""

    def ratio(field: str, new: str = "", old: str = "") -> Callable[[], Amount]:
        return lambda: rows.of_chip(SECOND, field, new) / rows.of_chip(FIRST, field, old)

    peak = "peak_flop_per_s"
    return Claim(
        "C03",
        BOTH,
        "offering up to 4x the performance of the first",
        "Trainium2 performs up to 4 times as well as Trainium1",
        (
            number(
                "performance",
                4,
                "x",
                figure("BF16 peak per chip", ratio(peak, "bf16", "bf16")),
                figure("FP8 peak per chip", ratio(peak, "fp8_e4", "cfp8")),
                figure("FP32 peak per chip", ratio(peak, "fp32", "fp32")),
                figure("HBM bandwidth per chip", ratio("memory_bytes_per_s")),
                figure("HBM capacity per chip", ratio("memory_bytes")),
            ),
        ),
    )


def sparsity(rows: Rows) -> Claim:
    """Sparse peak over dense peak of Trainium2, by dtype."""

    def over(sparse: str, dense: str) -> Callable[[], Amount]:
        return lambda: (
            rows.of_chip(SECOND, "peak_sparse_flop_per_s", sparse) / rows.peak(SECOND, dense)
        )

    return Claim(
        "C06",
        NOTES,
        "hardware for 4x sparsity (16:4)",
        "structured sparsity (16:4) gives 4 times the rate",
        (
            number(
                "sparse over dense peak",
                4,
                "x",
                figure("over dense BF16", over("bf16", "bf16")),
                figure("over dense FP8", over("fp8", "fp8_e4")),
            ),
        ),
    )


def trn3_chip(rows: Rows) -> Claim:
    """The Trainium3 row."""
    return Claim(
        "C15",
        GUIDE,
        "2,52 Petaflops FP8 ... pro Chip mit 144 GB HBM3e ... und 4,9 TB/s",
        "a Trainium3 chip: 2.52 PFLOP/s FP8, 144 GB, 4.9 TB/s",
        (
            number(
                "FP8 peak",
                2.52,
                "PFLOP/s",
                figure("MXFP8 peak", lambda: rows.peak(NEWEST, "mxfp8") / PETA),
            ),
            number("HBM", 144, "GiB", figure("capacity", lambda: rows.memory(NEWEST) / GIB)),
            number(
                "HBM bandwidth",
                4.9,
                "TB/s",
                figure("bandwidth", lambda: rows.bandwidth(NEWEST) / TERA),
            ),
        ),
        notes=("AWS counts MXFP8; its memory is 144 GiB; the NKI guide gives 4.7 TB/s",),
    )


def trn3_formats(rows: Rows) -> Claim:
    """Formats that Trainium3's row has and Trainium2's lacks."""

    def added(field: str, key: str) -> Given:
        def found() -> tuple[str, tuple[Origin, ...]]:
            origins = rows.of_chip(NEWEST, field, key).origins + rows.memory(SECOND).origins
            old = getattr(rows.chip(SECOND), field)
            is_new = not old if field.startswith("peak_sparse") else key not in old
            return "new" if is_new else "not new", origins

        return words(f"peaks of {NEWEST} and {SECOND}", found)

    return Claim(
        "C17",
        GUIDE,
        "fügt Unterstützung für MXFP8, MXFP4 und strukturierte Sparsity hinzu",
        "Trainium3 adds MXFP8, MXFP4 and structured sparsity",
        (
            number("MXFP8", "new", "", added("peak_flop_per_s", "mxfp8")),
            number("MXFP4", "new", "", added("peak_flop_per_s", "mxfp4")),
            number("structured sparsity", "new", "", added("peak_sparse_flop_per_s", "bf16")),
        ),
        besides(
            figure(
                "MXFP4 peak over MXFP8 peak, x",
                lambda: rows.peak(NEWEST, "mxfp4") / rows.peak(NEWEST, "mxfp8"),
            )
        ),
    )


def trn3_energy(rows: Rows) -> Claim:
    """``(peak / W of Trainium3) / (peak / W of Trainium2) - 1`` in FP8 and BF16."""

    def gain(new: str, old: str) -> Callable[[], Amount]:
        def found() -> Amount:
            ours, theirs = (rows.of_chip(name, "power_w") for name in (NEWEST, SECOND))
            return more_than(rows.peak(NEWEST, new) / ours, rows.peak(SECOND, old) / theirs)

        return found

    told = stated("energy of Trainium3, at the chip", "AWS says so; what was measured is not told")
    return Claim(
        "C18",
        GUIDE,
        "verbessert die Energieeffizienz um 40% gegenüber Trainium2",
        "Trainium3 is 40 % more energy-efficient than Trainium2",
        (
            number(
                "work per joule",
                40,
                "% more",
                figure("FP8 peak per watt", gain("mxfp8", "fp8_e4")),
                figure("BF16 peak per watt", gain("bf16", "bf16")),
                told,
            ),
        ),
        notes=("AWS also says 4 times the energy efficiency, of UltraServers",),
    )


def trn4(rows: Rows) -> Claim:
    """What was announced, and a Trainium4 row over the Trainium3 row where there is one."""

    def peak(dtype: str) -> Callable[[], Amount]:
        return lambda: rows.peak("trainium4", dtype) / rows.peak(NEWEST, dtype)

    def told(key: str) -> Given:
        return stand_in("as announced", lambda: rows.announced("trainium4", key))

    def memory() -> Amount:
        return rows.bandwidth("trainium4") / rows.bandwidth(NEWEST)

    return Claim(
        "C19",
        GUIDE,
        "6-facher FP4-Durchsatzsteigerung, 3-facher FP8-Leistung und 4-facher Speicherbandbreite",
        "Trainium4 will bring 6x FP4, 3x FP8 and 4x memory bandwidth over Trainium3",
        (
            number("FP4", 6, "x", figure("peak per chip", peak("mxfp4")), told("fp4")),
            number("FP8", 3, "x", figure("peak per chip", peak("mxfp8")), told("fp8")),
            number("HBM bandwidth", 4, "x", figure("per chip", memory), told("mem_bw")),
        ),
        notes=("no specification is published",),
    )


def blackwell_ultra(rows: Rows) -> Claim:
    """Dense FP8 peak and HBM of B300 and GB300."""
    names = ("b300", "gb300")

    def peak(name: str) -> Callable[[], Amount]:
        return lambda: rows.peak(name, "fp8") / PETA

    def memory(name: str) -> Callable[[], Amount]:
        return lambda: rows.memory(name) / 1e9

    return Claim(
        "C20",
        GUIDE,
        "Blackwell Ultra: ~5 Petaflops FP8 pro Chip, 288 GB HBM3e",
        "Blackwell Ultra: about 5 PFLOP/s FP8 and 288 GB",
        (
            number("FP8 peak", 5, "PFLOP/s", *(figure(f"{n}, dense", peak(n)) for n in names)),
            number("HBM", 288, "GB", *(figure(name, memory(name)) for name in names)),
        ),
    )


def trn2_memory(rows: Rows) -> Claim:
    """Memory of Trainium2, and its bandwidth over Trainium1's."""
    return Claim(
        "C38",
        GUIDE,
        "Der Speicher wurde auf 96 GB HBM pro Chip erhöht, mit deutlich höherer Bandbreite",
        "Trainium2 has 96 GB of HBM, and more bandwidth than before",
        (
            number("HBM", 96, "GiB", figure("capacity", lambda: rows.memory(SECOND) / GIB)),
            number(
                "over Trainium1",
                "more",
                "",
                _compared(
                    "HBM bandwidth of both",
                    lambda: rows.bandwidth(SECOND),
                    lambda: rows.bandwidth(FIRST),
                ),
            ),
        ),
    )


def _compared(text: str, ours: Found, theirs: Found) -> Given:
    """Whether the first has more, less, or as much."""

    def found() -> tuple[str, tuple[Origin, ...]]:
        ratio = ours() / theirs()
        is_equal = ratio.value == 1
        return "as much" if is_equal else "more" if ratio.value > 1 else "less", ratio.origins

    return words(text, found)


def dtypes(rows: Rows) -> Claim:
    """Formats in which the rows of both Trainiums of the notes have a peak."""

    def has(key: str, chip: str) -> Given:
        def found() -> tuple[str, tuple[Origin, ...]]:
            is_known = any(name.startswith(key) for name in rows.chip(chip).peak_flop_per_s)
            return "yes" if is_known else "no", rows.memory(chip).origins

        return words(f"peaks of {chip}", found)

    formats = {"FP32": "fp32", "TF32": "tf32", "BF16": "bf16", "FP16": "fp16"}
    parts = [
        number(name, "yes", "", has(key, FIRST), has(key, SECOND)) for name, key in formats.items()
    ]
    parts.append(number("cFP8", "yes", "", has("cfp8", FIRST), has("cfp8", SECOND)))
    return Claim(
        "C39",
        NOTES,
        "FP32, TF32, BF16, FP16, and configurable FP8 (cFP8) formats",
        "Trainium computes in FP32, TF32, BF16, FP16 and configurable FP8",
        tuple(parts),
        notes=("Trainium2's FP8 has fixed forms, E3, E4 and E5; cFP8 is Trainium1's",),
    )


def features(rows: Rows) -> Claim:
    """Micro-scaling of each NeuronCore, as AWS documents it."""
    del rows

    def mx(name: str) -> Given:
        target = TARGETS[name]
        flag: Flag = target.core.features.mx
        origin = Origin(Kind.DOCUMENT, "", "2026-08-21", flag.provenance.source)
        return Basis(f"NeuronCore of {name}", "yes" if flag else "no", (origin,))

    return Claim(
        "C40",
        NOTES,
        "micro-scaling, stochastic rounding, and dedicated collective engines",
        "Trn1 and Trn2 have hardware for micro-scaling",
        (number("micro-scaling", "yes", "", mx("trn1"), mx("trn2")),),
        notes=("stochastic rounding and collective engines are documented of both",),
    )


def process(rows: Rows) -> Claim:
    """The process of Trainium3, as AWS told it."""
    del rows
    return Claim(
        "C49",
        GUIDE,
        "AWS' erster 3nm-KI-Chip ... auf TSMC 3nm",
        "Trainium3 is made by TSMC on 3 nm, as AWS's first AI chip",
        (
            number("process", "3 nm", "", stated("process of Trainium3")),
            number("maker", "TSMC", "", stated("maker of Trainium3")),
        ),
        notes=("process nodes are told by the press, not by AWS's documentation",),
    )


def _of_class(rows: Rows, ours: str, theirs: str) -> Part:
    """Peak, bandwidth and capacity of a chip over those of a GPU: one is "as much" within 10 %."""
    return number(
        "per chip",
        1,
        f"x of {theirs}",
        figure("BF16 peak", lambda: rows.peak(ours, "bf16") / rows.peak(theirs, "bf16")),
        figure("memory bandwidth", lambda: rows.bandwidth(ours) / rows.bandwidth(theirs)),
        figure("memory", lambda: rows.memory(ours) / rows.memory(theirs)),
        is_varied=True,
    )


def a100_class(rows: Rows) -> Claim:
    """Trainium1 over an A100, per chip."""
    return Claim(
        "C50",
        GUIDE,
        "trn1.2xlarge ~$1,10 1 Trainium A100-Klasse",
        "a Trainium1 is of the class of an A100",
        (_of_class(rows, FIRST, "a100-40"),),
    )


def h100_class(rows: Rows) -> Claim:
    """Trainium2 over an H100, per chip, and of 16 over 8."""
    return Claim(
        "C51",
        GUIDE,
        "trn2.48xlarge ~$4,80 16 Trainium2 H100-Klasse",
        "a Trainium2 is of the class of an H100",
        (_of_class(rows, SECOND, "h100"),),
        besides(
            figure(
                "BF16 peak of trn2.48xlarge over p5.48xlarge, x",
                lambda: (
                    rows.instance_peak("trn2.48xlarge", "bf16")
                    / rows.instance_peak("p5.48xlarge", "bf16")
                ),
            )
        ),
    )


def chip_lead(rows: Rows) -> Claim:
    """A GB300 over a Trainium3, per chip."""
    return Claim(
        "C55",
        GUIDE,
        "NVIDIA behält die Leistungsführerschaft pro Chip",
        "a Blackwell Ultra GPU has more than a Trainium3",
        (
            number(
                "FP8 peak",
                "more",
                "",
                _compared(
                    "gb300 over trainium3, dense",
                    lambda: rows.peak("gb300", "fp8"),
                    lambda: rows.peak(NEWEST, "mxfp8"),
                ),
            ),
            number(
                "bandwidth",
                "more",
                "",
                _compared(
                    "gb300 over trainium3",
                    lambda: rows.bandwidth("gb300"),
                    lambda: rows.bandwidth(NEWEST),
                ),
            ),
        ),
        besides(
            figure(
                "FP8 peak of a gb300 over a trainium3, x",
                lambda: rows.peak("gb300", "fp8") / rows.peak(NEWEST, "mxfp8"),
            )
        ),
    )


def memory_kinds(rows: Rows) -> Claim:
    """What the rows say of the memory of Trainium2 and Trainium3."""

    def kind(chip: str) -> Given:
        def found() -> tuple[str, tuple[Origin, ...]]:
            words_of = rows.chip(chip).memory_kind.replace(",", ";").split(";")
            return words_of[0], rows.memory(chip).origins

        return words(f"row of {chip}", found)

    return Claim(
        "C66",
        BOTH,
        "1.5 TB HBM3 memory",
        "Trainium2 has HBM3, Trainium3 has HBM3e",
        (
            number("Trainium2", "HBM3", "", kind(SECOND)),
            number("Trainium3", "HBM3e", "", kind(NEWEST)),
        ),
        notes=("an analyst says HBM3e of Trainium2",),
    )


CLAIMS: Final[tuple[Callable[[Rows], Claim], ...]] = (
    trn2_over_trn1,
    sparsity,
    trn3_chip,
    trn3_formats,
    trn3_energy,
    trn4,
    blackwell_ultra,
    trn2_memory,
    dtypes,
    features,
    process,
    a100_class,
    h100_class,
    chip_lead,
    memory_kinds,
)
