"""Claims about instances, UltraServers and racks: what is in them, and all of it together."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from trnsim.system.claims.chips import BOTH, GIB, GUIDE, NOTES, PETA, TERA
from trnsim.system.claims.verdict import Claim, besides, figure, number, words

if TYPE_CHECKING:
    from collections.abc import Callable

    from trnsim.system.claims.amounts import Amount, Origin
    from trnsim.system.claims.rows import Rows
    from trnsim.system.claims.verdict import Found, Given

_TIB: Final = 2.0**40
_TBPS: Final = 1e12 / 8
TRN1: Final = "trn1.32xlarge"
TRN2: Final = "trn2.48xlarge"
TRN2_ULTRASERVER: Final = "Trn2 UltraServer (u-trn2x64)"
TRN3_ULTRASERVER: Final = "Trn3 Gen2 UltraServer"


def _memory(rows: Rows, name: str) -> Amount:
    return rows.count(name) * rows.memory(rows.instance(name).accelerator)


def _bandwidth(rows: Rows, name: str) -> Amount:
    return rows.count(name) * rows.bandwidth(rows.instance(name).accelerator)


def _per(found: Callable[[], Amount], unit: float) -> Found:
    return lambda: found() / unit


def trn1_peak(rows: Rows) -> Claim:
    """``16 x cFP8 peak of Trainium1``; the BF16 peak is the same."""
    return Claim(
        "C01",
        NOTES,
        "up to 3 petaflops of FP8 compute per instance",
        "a Trn1 instance reaches 3 PFLOP/s in FP8",
        (
            number(
                "FP8 peak",
                3,
                "PFLOP/s",
                figure("chips x cFP8 peak", lambda: rows.instance_peak(TRN1, "cfp8") / PETA),
            ),
        ),
        besides(
            figure(
                "cFP8 peak over BF16 peak, x: FP8 is no faster on this core",
                lambda: rows.instance_peak(TRN1, "cfp8") / rows.instance_peak(TRN1, "bf16"),
            )
        ),
    )


def trn1_memory(rows: Rows) -> Claim:
    """``16 x 32 GiB``; EFA of both Trn1 instance types."""
    names = (TRN1, "trn1n.32xlarge")
    efa = [figure(name, _per(partial(rows.efa, name), _TBPS)) for name in names]
    return Claim(
        "C02",
        NOTES,
        "512 GB of HBM memory and supports up to 1.6 Tbps of ... EFA",
        "Trn1 has 512 GB of HBM and 1.6 Tbps of EFA",
        (
            number("HBM", 512, "GiB", figure("chips x HBM", lambda: _memory(rows, TRN1) / GIB)),
            number("EFA", 1.6, "Tbps", *efa),
        ),
    )


def trn2_instance(rows: Rows) -> Claim:
    """``16 x`` FP8 peak, HBM and bandwidth of Trainium2."""
    return Claim(
        "C04",
        NOTES,
        "20.8 petaflops of FP8 compute, 1.5 TB HBM3 memory with 46 TBps bandwidth",
        "a Trn2 instance: 20.8 PFLOP/s FP8, 1.5 TB, 46 TB/s",
        (
            number(
                "FP8 peak",
                20.8,
                "PFLOP/s",
                figure("chips x peak", lambda: rows.instance_peak(TRN2, "fp8_e4") / PETA),
            ),
            number("HBM", 1.5, "TiB", figure("chips x HBM", lambda: _memory(rows, TRN2) / _TIB)),
            number(
                "HBM bandwidth",
                46,
                "TB/s",
                figure("chips x bandwidth", lambda: _bandwidth(rows, TRN2) / TERA),
            ),
        ),
    )


def trn2_ultraserver(rows: Rows) -> Claim:
    """``64 x`` peak, HBM and bandwidth of Trainium2; EFA of four instances."""
    name = TRN2_ULTRASERVER
    return Claim(
        "C05",
        NOTES,
        "up to 83.2 petaflops, 6 TB HBM3 with 185 TBps bandwidth, and 12.8 Tbps EFA",
        "a Trn2 UltraServer: 83.2 PFLOP/s FP8, 6 TB, 185 TB/s, 12.8 Tbps",
        (
            number(
                "FP8 peak",
                83.2,
                "PFLOP/s",
                figure("chips x peak", lambda: rows.instance_peak(name, "fp8_e4") / PETA),
            ),
            number("HBM", 6, "TiB", figure("chips x HBM", lambda: _memory(rows, name) / _TIB)),
            number(
                "HBM bandwidth",
                185,
                "TB/s",
                figure("chips x bandwidth", lambda: _bandwidth(rows, name) / TERA),
            ),
            number(
                "EFA",
                12.8,
                "Tbps",
                figure("4 x trn2u.48xlarge", lambda: 4 * rows.efa("trn2u.48xlarge") / _TBPS),
            ),
        ),
    )


def trn3_ultraserver(rows: Rows) -> Claim:
    """``144 x`` MXFP8 peak of Trainium3."""
    name = TRN3_ULTRASERVER
    return Claim(
        "C16",
        GUIDE,
        "Trn3 UltraServer beherbergt 144 Chips und liefert insgesamt 362 FP8-Petaflops",
        "a Trn3 UltraServer: 144 chips, 362 PFLOP/s FP8",
        (
            number("chips", 144, "", figure("Gen2", lambda: rows.count(name))),
            number(
                "FP8 peak",
                362,
                "PFLOP/s",
                figure("chips x peak", lambda: rows.instance_peak(name, "mxfp8") / PETA),
            ),
        ),
        notes=("Gen1 has 64 chips",),
    )


def gb300_rack(rows: Rows) -> Claim:
    """Every published peak of GB300 NVL72, and ``72 x`` the dense FP8 peak of a GPU."""

    def published(key: str) -> Given:
        return figure(key, _per(lambda: rows.system("gb300_nvl72", key), PETA))

    return Claim(
        "C21",
        GUIDE,
        "GB300 NVL72: ~540 Petaflops gesamt",
        "a GB300 NVL72 has about 540 PFLOP/s",
        (
            number(
                "peak",
                540,
                "PFLOP/s",
                published("fp8_dense"),
                figure("72 x dense FP8 of a GPU", lambda: 72 * rows.peak("gb300", "fp8") / PETA),
                published("fp4_dense"),
                published("fp4_sparse"),
            ),
        ),
        notes=("540 is 1.5 x 360, but of Blackwell Ultra's rates FP4 alone rose by 1.5",),
    )


def rack_total(rows: Rows) -> Claim:
    """A Trn3 UltraServer over a GB300 NVL72, FP8."""
    return Claim(
        "C56",
        GUIDE,
        "liefert dabei vergleichbare Gesamtrechenleistung",
        "a Trn3 UltraServer computes about as much as a rack of Blackwell",
        (
            number(
                "FP8 peak",
                1,
                "x of a rack",
                figure(
                    "of gb300_nvl72, dense",
                    lambda: (
                        rows.instance_peak(TRN3_ULTRASERVER, "mxfp8")
                        / rows.system("gb300_nvl72", "fp8_dense")
                    ),
                ),
                figure(
                    "of gb200_nvl72, dense",
                    lambda: (
                        rows.instance_peak(TRN3_ULTRASERVER, "mxfp8")
                        / rows.system("gb200_nvl72", "fp8_dense")
                    ),
                ),
            ),
        ),
        notes=("by the guide's own 362 and 540 it would be 0.67",),
    )


def inf2_chips(rows: Rows) -> Claim:
    """The largest Inf2 instance."""
    return Claim(
        "C29",
        GUIDE,
        "Inf2-Instanzen skalieren auf 12 Chips pro Instanz",
        "Inf2 instances have up to 12 chips",
        (
            number(
                "chips",
                12,
                "",
                figure("largest Inf2 instance", lambda: rows.largest("inferentia2")),
            ),
        ),
        notes=("AWS's DLAMI guide says 16",),
    )


def servers_of_ultraserver(rows: Rows) -> Claim:
    """Chips of an UltraServer, and how many instances they are."""
    return Claim(
        "C35",
        BOTH,
        "UltraServers connect 64 chips across four instances",
        "a Trn2 UltraServer has 64 chips in four instances",
        (
            number("chips", 64, "", figure("UltraServer", lambda: rows.count(TRN2_ULTRASERVER))),
            number(
                "instances",
                4,
                "",
                figure(
                    "chips over those of trn2u.48xlarge",
                    lambda: rows.count(TRN2_ULTRASERVER) / rows.count("trn2u.48xlarge"),
                ),
            ),
        ),
    )


def trn1_chips(rows: Rows) -> Claim:
    """Chips of trn1.32xlarge."""
    return Claim(
        "C36",
        GUIDE,
        "16 Trainium-Chips pro trn1.32xlarge-Instanz",
        "trn1.32xlarge has 16 chips",
        (number("chips", 16, "", figure("row", lambda: rows.count(TRN1))),),
    )


def trn2_chips(rows: Rows) -> Claim:
    """The largest Trn2 instance."""
    return Claim(
        "C37",
        GUIDE,
        "Trn2-Instanzen bieten bis zu 16 Trainium2-Chips pro Instanz",
        "Trn2 instances have up to 16 chips",
        (
            number(
                "chips", 16, "", figure("largest Trn2 instance", lambda: rows.largest("trainium2"))
            ),
        ),
    )


def table_chips(rows: Rows) -> Claim:
    """Chips of the three instances in the guide's table of prices."""
    claimed = {"trn1.2xlarge": 1, TRN2: 16, "p5.48xlarge": 8}
    return Claim(
        "C52",
        GUIDE,
        "1 Trainium ... 16 Trainium2 ... 8 H100",
        "trn1.2xlarge, trn2.48xlarge and p5.48xlarge have 1, 16 and 8 chips",
        tuple(
            number(name, count, "", figure("row", partial(rows.count, name)))
            for name, count in claimed.items()
        ),
    )


def families(rows: Rows) -> Claim:
    """Instance types by chip."""

    def chip_of(name: str) -> Given:
        def found() -> tuple[str, tuple[Origin, ...]]:
            return rows.instance(name).accelerator, rows.count(name).origins

        return words("row", found)

    return Claim(
        "C42",
        NOTES,
        "They power Amazon EC2 Trn1 and Trn2 instance types",
        "the first two generations are in Trn1 and Trn2",
        (
            number("Trn1", "trainium1", "", chip_of(TRN1)),
            number("Trn2", "trainium2", "", chip_of(TRN2)),
        ),
        notes=("the notes leave out Trn3, available since 2025-12-02",),
    )


CLAIMS: Final[tuple[Callable[[Rows], Claim], ...]] = (
    trn1_peak,
    trn1_memory,
    trn2_instance,
    trn2_ultraserver,
    trn3_ultraserver,
    gb300_rack,
    rack_total,
    inf2_chips,
    servers_of_ultraserver,
    trn1_chips,
    trn2_chips,
    table_chips,
    families,
)
