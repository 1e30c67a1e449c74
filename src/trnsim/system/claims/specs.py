"""Claims about chips, instances and racks: peaks, memories, bandwidths, counts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trnsim.system.claims.verdict import Claim, Figure, awaited, number

if TYPE_CHECKING:
    from collections.abc import Callable

    from trnsim.arch.catalogue import Catalogue

NOTES: Final = ("000", "002", "003")
GUIDE: Final = ("001",)

_GIB: Final = 2.0**30
_TIB: Final = 2.0**40
_TRN2_ULTRASERVER: Final = "Trn2 UltraServer (u-trn2x64)"
_TRN3_ULTRASERVER: Final = "Trn3 Gen2 UltraServer"
_TABLES: Final = "Neuron's tables of inf1.xlarge (SDK 2.20) and inf2.xlarge (SDK 2.26, 2.27)"
"""aws-neuron-sdk@81ce03ae:about-neuron/benchmarks/inf1 and inf2, sequences of 128 tokens."""
_RATES: Final = {
    "BERT base, batches": (1180.7, 2674.2),
    "BERT base, real time": (284.7, 1998.2),
    "DistilBERT, batches": (1876.7, 5307.9),
    "DistilBERT, real time": (538.2, 3402.0),
}
"""Inferences a second of one chip each."""
_P50_MS: Final = {
    "BERT base, batches of 6 and 8": (40.6, 5.974),
    "BERT base, real time, batches of 3 and 1": (10.5, 0.999),
    "DistilBERT, batches of 8 and 16": (33.7, 6.011),
    "DistilBERT, real time, batches of 6 and 1": (11.1, 0.579),
}
"""Median milliseconds."""


def _peak(rows: Catalogue, instance: str, dtype: str) -> float:
    """``chips * peak of a chip`` of an instance, FLOP per second."""
    found = rows.instance(instance)
    return found.count * rows.accelerator(found.accelerator).peak_flop_per_s[dtype]


def _memory(rows: Catalogue, instance: str) -> float:
    found = rows.instance(instance)
    return found.count * rows.accelerator(found.accelerator).memory_bytes


def _bandwidth(rows: Catalogue, instance: str) -> float:
    found = rows.instance(instance)
    return found.count * rows.accelerator(found.accelerator).memory_bytes_per_s


def _efa_tbps(rows: Catalogue, instance: str) -> list[Figure]:
    efa = rows.instance(instance).efa_bytes_per_s
    return [] if efa is None else [Figure(instance, efa * 8 / 1e12)]


def trn1_peak(rows: Catalogue) -> Claim:
    """``16 x cFP8 peak of Trainium1``; the BF16 peak is the same."""
    cfp8 = _peak(rows, "trn1.32xlarge", "cfp8") / 1e15
    bf16 = _peak(rows, "trn1.32xlarge", "bf16") / 1e15
    return Claim(
        "C01",
        NOTES,
        "a Trn1 instance reaches 3 PFLOP/s in FP8",
        (number("FP8 peak", 3, "PFLOP/s", Figure("chips x cFP8 peak, trn1.32xlarge", cfp8)),),
        (f"BF16 reaches {bf16:.2f} PFLOP/s: FP8 is {cfp8 / bf16:.2f}x as fast on this core",),
    )


def trn1_memory(rows: Catalogue) -> Claim:
    """``16 x 32 GiB``; EFA of both Trn1 instance types."""
    return Claim(
        "C02",
        NOTES,
        "Trn1 has 512 GB of HBM and 1.6 Tbps of EFA",
        (
            number("HBM", 512, "GiB", Figure("chips x HBM", _memory(rows, "trn1.32xlarge") / _GIB)),
            number(
                "EFA",
                1.6,
                "Tbps",
                *_efa_tbps(rows, "trn1.32xlarge"),
                *_efa_tbps(rows, "trn1n.32xlarge"),
            ),
        ),
    )


def trn2_over_trn1(rows: Catalogue) -> Claim:
    """Trainium2 over Trainium1, per chip, by every quantity that both have."""
    new, old = rows.chips["trainium2"], rows.chips["trainium1"]
    pairs = {
        "BF16 peak": (new.peak_flop_per_s["bf16"], old.peak_flop_per_s["bf16"]),
        "FP8 peak": (new.peak_flop_per_s["fp8_e4"], old.peak_flop_per_s["cfp8"]),
        "FP32 peak": (new.peak_flop_per_s["fp32"], old.peak_flop_per_s["fp32"]),
        "HBM bandwidth": (new.memory_bytes_per_s, old.memory_bytes_per_s),
        "HBM capacity": (new.memory_bytes, old.memory_bytes),
    }
    figures = [Figure(f"{name} per chip", ours / theirs) for name, (ours, theirs) in pairs.items()]
    return Claim(
        "C03",
        ("000", "001", "002", "003"),
        "Trainium2 performs up to 4 times as well as Trainium1",
        (number("performance", 4, "x", *figures),),
    )


def trn2_instance(rows: Catalogue) -> Claim:
    """``16 x`` FP8 peak, HBM and bandwidth of Trainium2."""
    name = "trn2.48xlarge"
    return Claim(
        "C04",
        NOTES,
        "a Trn2 instance: 20.8 PFLOP/s FP8, 1.5 TB, 46 TB/s",
        (
            number(
                "FP8 peak", 20.8, "PFLOP/s", Figure("chips x", _peak(rows, name, "fp8_e4") / 1e15)
            ),
            number("HBM", 1.5, "TiB", Figure("chips x", _memory(rows, name) / _TIB)),
            number("HBM bandwidth", 46, "TB/s", Figure("chips x", _bandwidth(rows, name) / 1e12)),
        ),
    )


def trn2_ultraserver(rows: Catalogue) -> Claim:
    """``64 x`` peak, HBM and bandwidth of Trainium2; EFA of four instances."""
    name = _TRN2_ULTRASERVER
    one = rows.instance("trn2u.48xlarge").efa_bytes_per_s or 0.0
    return Claim(
        "C05",
        NOTES,
        "a Trn2 UltraServer: 83.2 PFLOP/s FP8, 6 TB, 185 TB/s, 12.8 Tbps",
        (
            number(
                "FP8 peak", 83.2, "PFLOP/s", Figure("chips x", _peak(rows, name, "fp8_e4") / 1e15)
            ),
            number("HBM", 6, "TiB", Figure("chips x", _memory(rows, name) / _TIB)),
            number("HBM bandwidth", 185, "TB/s", Figure("chips x", _bandwidth(rows, name) / 1e12)),
            number("EFA", 12.8, "Tbps", Figure("4 x trn2u.48xlarge", 4 * one * 8 / 1e12)),
        ),
    )


def sparsity(rows: Catalogue) -> Claim:
    """Sparse peak over dense peak of Trainium2, by dtype."""
    chip = rows.chips["trainium2"]
    dense, sparse = chip.peak_flop_per_s, chip.peak_sparse_flop_per_s
    figures = [
        Figure(f"over dense {name}", sparse[ours] / dense[theirs])
        for name, ours, theirs in (("BF16", "bf16", "bf16"), ("FP8", "fp8", "fp8_e4"))
        if ours in sparse
    ]
    missing = () if figures else ("a sparse peak of trainium2",)
    return Claim(
        "C06",
        NOTES,
        "structured sparsity (16:4) gives 4 times the rate",
        (number("sparse over dense peak", 4, "x", *figures, missing=missing),),
    )


def trn3_chip(rows: Catalogue) -> Claim:
    """The Trainium3 row."""
    chip = rows.chips["trainium3"]
    return Claim(
        "C15",
        GUIDE,
        "a Trainium3 chip: 2.52 PFLOP/s FP8, 144 GB, 4.9 TB/s",
        (
            number(
                "FP8 peak", 2.52, "PFLOP/s", Figure("MXFP8", chip.peak_flop_per_s["mxfp8"] / 1e15)
            ),
            number("HBM", 144, "GiB", Figure("capacity", chip.memory_bytes / _GIB)),
            number("HBM bandwidth", 4.9, "TB/s", Figure("row", chip.memory_bytes_per_s / 1e12)),
        ),
    )


def trn3_ultraserver(rows: Catalogue) -> Claim:
    """``144 x`` MXFP8 peak of Trainium3."""
    name = _TRN3_ULTRASERVER
    count = rows.instance(name).count
    return Claim(
        "C16",
        GUIDE,
        "a Trn3 UltraServer: 144 chips, 362 PFLOP/s FP8",
        (
            number("chips", 144, "", Figure("Gen2", count)),
            number(
                "FP8 peak", 362, "PFLOP/s", Figure("chips x", _peak(rows, name, "mxfp8") / 1e15)
            ),
        ),
    )


def trn3_formats(rows: Catalogue) -> Claim:
    """Formats that Trainium3's row has and Trainium2's lacks."""
    new, old = rows.chips["trainium3"], rows.chips["trainium2"]

    def is_new(dtype: str) -> str:
        added = dtype in new.peak_flop_per_s and dtype not in old.peak_flop_per_s
        return "new" if added else "not new"

    has_new_sparsity = bool(new.peak_sparse_flop_per_s) and not old.peak_sparse_flop_per_s
    gain = new.peak_flop_per_s["mxfp4"] / new.peak_flop_per_s["mxfp8"]
    return Claim(
        "C17",
        GUIDE,
        "Trainium3 adds MXFP8, MXFP4 and structured sparsity",
        (
            number("MXFP8", "new", "", Figure("peaks of both chips", is_new("mxfp8"))),
            number("MXFP4", "new", "", Figure("peaks of both chips", is_new("mxfp4"))),
            number(
                "structured sparsity",
                "new",
                "",
                Figure("sparse peaks of both chips", "new" if has_new_sparsity else "not new"),
            ),
        ),
        (f"MXFP4 runs at {gain:.2f}x the MXFP8 peak",),
    )


def trn3_energy(rows: Catalogue) -> Claim:
    """``(peak / W of Trainium3) / (peak / W of Trainium2) - 1`` in FP8 and BF16."""
    new, old = rows.chips["trainium3"], rows.chips["trainium2"]
    powers = {"trainium3": new.power_w, "trainium2": old.power_w}
    missing = tuple(f"watts of {name}" for name, power in powers.items() if power is None)
    figures: list[Figure] = []
    if new.power_w is not None and old.power_w is not None:
        for basis, ours, theirs in (("FP8", "mxfp8", "fp8_e4"), ("BF16", "bf16", "bf16")):
            peak_ratio = new.peak_flop_per_s[ours] / old.peak_flop_per_s[theirs]
            gain = peak_ratio * old.power_w / new.power_w - 1
            figures.append(Figure(f"{basis} peak per watt", 100 * gain))
    return Claim(
        "C18",
        GUIDE,
        "Trainium3 is 40 % more energy-efficient than Trainium2",
        (number("work per joule", 40, "% more", *figures, missing=missing),),
    )


def trn4(rows: Catalogue) -> Claim:
    """A Trainium4 row over the Trainium3 row: not checkable until there is one."""
    announced, base = rows.announced["trainium4"], rows.chips["trainium3"]
    chip = rows.chips.get("trainium4")
    missing = () if chip else (f"a specification of Trainium4 ({announced.status})",)
    ratios: dict[str, tuple[Figure, ...]] = {"fp4": (), "fp8": (), "mem_bw": ()}
    if chip:
        for name, dtype in (("fp4", "mxfp4"), ("fp8", "mxfp8")):
            ratio = chip.peak_flop_per_s[dtype] / base.peak_flop_per_s[dtype]
            ratios[name] = (Figure("peak per chip", ratio),)
        ratio = chip.memory_bytes_per_s / base.memory_bytes_per_s
        ratios["mem_bw"] = (Figure("HBM bandwidth per chip", ratio),)
    times = announced.multiples
    fp4 = times["fp4"] * base.peak_flop_per_s["mxfp4"] / 1e15
    fp8 = times["fp8"] * base.peak_flop_per_s["mxfp8"] / 1e15
    bandwidth = times["mem_bw"] * base.memory_bytes_per_s / 1e12
    return Claim(
        "C19",
        GUIDE,
        "Trainium4 will bring 6x FP4, 3x FP8 and 4x memory bandwidth over Trainium3",
        (
            number("FP4", 6, "x", *ratios["fp4"], missing=missing),
            number("FP8", 3, "x", *ratios["fp8"], missing=missing),
            number("HBM bandwidth", 4, "x", *ratios["mem_bw"], missing=missing),
        ),
        (f"as announced: {fp4:.1f} PFLOP/s FP4, {fp8:.2f} PFLOP/s FP8, {bandwidth:.1f} TB/s",),
    )


def blackwell_ultra(rows: Catalogue) -> Claim:
    """Dense FP8 peak and HBM of B300 and GB300."""
    chips = {name: rows.gpus[name] for name in ("b300", "gb300")}
    peaks = (Figure(f"{k}, dense", gpu.peak_flop_per_s["fp8"] / 1e15) for k, gpu in chips.items())
    memories = (Figure(name, gpu.memory_bytes / 1e9) for name, gpu in chips.items())
    return Claim(
        "C20",
        GUIDE,
        "Blackwell Ultra: about 5 PFLOP/s FP8 and 288 GB",
        (number("FP8 peak", 5, "PFLOP/s", *peaks), number("HBM", 288, "GB", *memories)),
    )


def gb300_rack(rows: Catalogue) -> Claim:
    """Every published peak of GB300 NVL72, and ``72 x`` the dense FP8 peak of a GPU."""
    rack = rows.systems["gb300_nvl72"]
    figures = [Figure(name, rack[name] / 1e15) for name in rack if name.startswith("fp")]
    chips = 72 * rows.gpus["gb300"].peak_flop_per_s["fp8"] / 1e15
    trn3 = _peak(rows, _TRN3_ULTRASERVER, "mxfp8") / 1e15
    return Claim(
        "C21",
        GUIDE,
        "a GB300 NVL72 has about 540 PFLOP/s",
        (number("peak", 540, "PFLOP/s", *figures, Figure("72 x dense FP8 of a GPU", chips)),),
        (f"a Trn3 Gen2 UltraServer has {trn3:.0f} PFLOP/s in FP8",),
    )


def inf2_chip(rows: Catalogue) -> Claim:
    """The Inferentia2 row, and ratios that bound its gain over Inferentia1."""
    new, old = rows.chips["inferentia2"], rows.chips["inferentia1"]
    compute = new.peak_flop_per_s["fp16"] / old.peak_flop_per_s["fp16"]
    memory = new.memory_bytes_per_s / old.memory_bytes_per_s
    compute_bound = Figure("FP16 peak ratio, compute-bound", compute, is_proxy=True)
    memory_bound = Figure("memory bandwidth ratio, memory-bound", memory, is_proxy=True)
    return Claim(
        "C28",
        GUIDE,
        "Inferentia2: 190 TFLOP/s FP16, 32 GB, 4x throughput and 10x lower latency than before",
        (
            number("FP16 peak", 190, "TFLOP/s", Figure("row", new.peak_flop_per_s["fp16"] / 1e12)),
            number("HBM", 32, "GiB", Figure("row", new.memory_bytes / _GIB)),
            awaited(
                rows,
                "throughput of one model on Inf2 over Inf1",
                "throughput",
                4,
                4,
                "x",
                *(Figure(f"{name}: {_TABLES}", new / old) for name, (old, new) in _RATES.items()),
                compute_bound,
                memory_bound,
            ),
            awaited(
                rows,
                "latency of one model on Inf1 over Inf2",
                "latency",
                10,
                10,
                "x lower",
                *(Figure(f"{name}: {_TABLES}", old / new) for name, (old, new) in _P50_MS.items()),
                compute_bound,
                memory_bound,
            ),
        ),
    )


def inf2_chips(rows: Catalogue) -> Claim:
    """The largest Inf2 instance."""
    most = max(i.count for i in rows.instances.values() if i.accelerator == "inferentia2")
    return Claim(
        "C29",
        GUIDE,
        "Inf2 instances have up to 12 chips",
        (number("chips", 12, "", Figure("largest Inf2 instance", most)),),
    )


CLAIMS: Final[tuple[Callable[[Catalogue], Claim], ...]] = (
    trn1_peak,
    trn1_memory,
    trn2_over_trn1,
    trn2_instance,
    trn2_ultraserver,
    sparsity,
    trn3_chip,
    trn3_ultraserver,
    trn3_formats,
    trn3_energy,
    trn4,
    blackwell_ultra,
    gb300_rack,
    inf2_chip,
    inf2_chips,
)
