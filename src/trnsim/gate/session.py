"""The kernels that a session of pytest checks: their findings, times and baselines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from trnsim.arch import TARGETS, Target
from trnsim.errors import BadInput, EmulatorError
from trnsim.gate.baselines import Baselines, Key, baselines_of, read_baselines
from trnsim.gate.checking import (
    CheckLimits,
    GateFinding,
    KernelCheck,
    compare_values,
    judge,
    refusal,
    run_for_findings,
    upgrade_words,
)
from trnsim.gate.difference import KernelTimeDifference
from trnsim.gate.kernel_file import Arguments
from trnsim.gate.kernel_time import kernel_time
from trnsim.gate.source import inputs_text, source_digest
from trnsim.gate.values import is_tolerance
from trnsim.profile.units import percent_text
from trnsim.runs import Launchable, Run

_MARK: Final = "trn"
_UPDATE: Final = "pytest --trn-update"
_DEFAULT_CHIP: Final = "trn2"
_US: Final = 1e-6
_TESTS: Final = "::"


class GateSession:
    """The checks of a session.

    Attributes:
        path: the file of baselines.
        is_updating: whether times are accepted and written.
    """

    def __init__(self, path: Path, *, is_updating: bool) -> None:
        self.path = path
        self.is_updating = is_updating
        self._baselines: Baselines | None = None
        self._new_baselines = Baselines(path)
        self._used_keys: set[Key] = set()
        self._passed_tests: set[str] = set()
        self._upgrades: list[tuple[str, float, str]] = []
        self._notes: list[str] = []
        self._stale_keys: list[Key] = []
        self._is_written = False

    def read(self) -> Baselines:
        """The stored baselines.

        Raises:
            BadInput: the file is not legal.
        """
        if self._baselines is None:
            self._baselines = read_baselines(self.path)
        return self._baselines

    def fixture(self, node: Any) -> Callable[..., Run]:
        """The fixture of a test: a function that runs and checks a kernel, and returns its run."""
        mark = _mark_of(node)
        counts: Counter[str] = Counter()

        def trn(
            kernel: Launchable,
            *args: Any,
            reference: Callable[..., Any] | None = None,
            tolerance: float | None = None,
            **kwargs: Any,
        ) -> Run:
            """Run `kernel` on each chip of the mark, and return its run on the first chip.

            Args:
                kernel: the kernel.
                *args: its arguments.
                reference: a function of the same arguments that returns the expected results.
                tolerance: largest error as a share of the reference's largest value.
                **kwargs: the kernel's keyword arguments.
            """
            if not isinstance(kernel, Launchable):  # pyright: ignore[reportUnnecessaryIsInstance]  of a user
                raise BadInput(
                    f"trn was given {kernel!r}; legal: a kernel",
                    fix="decorate the function with @nki.jit",
                )
            if not (tolerance is None or is_tolerance(tolerance)):
                raise BadInput(
                    f"trn(tolerance={tolerance!r}); legal: a number from 0 to below 1, the share "
                    "of the largest value of the reference",
                    fix="tolerance=0.01",
                )
            counts[kernel.title] += 1
            count = counts[kernel.title]
            name = kernel.title if count == 1 else f"{kernel.title}#{count}"
            arguments = Arguments(args, kwargs)
            expected = None if reference is None else reference(*args, **kwargs)
            checks: list[KernelCheck] = []
            for chip in mark.chips:
                check = KernelCheck(Key(node.nodeid, name, chip.name))
                checks.append(check)
                self._check(check, kernel, arguments, chip, mark)
                if check.run is not None and reference is not None:
                    compare_values(check, check.run, expected, tolerance)
            failed_checks = [check for check in checks if not check.is_passed]
            if failed_checks:
                pytest.fail("\n".join(map(_failure_text, failed_checks)), pytrace=False)
            self._accept(checks)
            return next(check.run for check in checks if check.run is not None)

        return trn

    def _check(
        self,
        check: KernelCheck,
        kernel: Launchable,
        arguments: Arguments,
        chip: Target,
        mark: TrnMark,
    ) -> None:
        self._used_keys.add(check.key)
        limits = CheckLimits(
            max_s=None if mark.max_us is None else mark.max_us * _US,
            baselines=self.read() if mark.has_baseline else None,
            is_updating=self.is_updating,
            update_words=_UPDATE,
        )
        try:
            run = run_for_findings(kernel, arguments, chip)
        except EmulatorError as error:
            check.findings.append(refusal(error))
            return
        source, inputs = source_digest(kernel, arguments), inputs_text(arguments)
        judge(check, run, kernel_time(run, source, inputs), limits)

    def _accept(self, checks: list[KernelCheck]) -> None:
        """Keep the notes of passed checks for the summary, and their times for an update."""
        for check in checks:
            if self.is_updating and check.time is not None:
                self._new_baselines.times[check.key] = check.time
            shift = check.difference
            if shift is not None and shift.upgrade.is_significant and not self.is_updating:
                self._upgrades.append(_upgrade_row(check.key, shift))
            for finding in check.findings:
                if finding.kind == "faster" and not self.is_updating:
                    self._notes.append(f"{check.key}: {finding.text}")

    def note_passed(self, test: str) -> None:
        """Note that a test that uses the fixture has passed."""
        self._passed_tests.add(test)

    def as_dict(self) -> dict[str, Any]:
        """The session of a worker as plain values, which `take` reads."""
        return {
            "new": self._new_baselines.text(),
            "used": [str(key) for key in sorted(self._used_keys)],
            "finished": sorted(self._passed_tests),
            "upgrades": [list(row) for row in self._upgrades],
            "notes": self._notes,
        }

    def take(self, session: Mapping[str, Any]) -> None:
        """Add the session of a worker, from its `as_dict`."""
        self._new_baselines.times.update(baselines_of(self.path, session["new"].encode()).times)
        self._used_keys |= {Key.of(text) for text in session["used"]}
        self._passed_tests |= set(session["finished"])
        self._upgrades += [(str(m), float(s), str(w)) for m, s, w in session["upgrades"]]
        self._notes += session["notes"]

    def conclude(self, collected_tests: set[str], narrowed_files: set[str]) -> None:
        """Find baselines of tests and kernels that are gone, and write the file if it is asked for.

        Args:
            collected_tests: all tests of the collected files.
            narrowed_files: names of files of which only some tests were collected.
        """
        baselines = self.read()
        self._stale_keys = [
            key
            for key in sorted(baselines.times)
            if self._is_gone(key, collected_tests, narrowed_files)
        ]
        if self.is_updating and (self._new_baselines.times or self._stale_keys):
            for key in self._stale_keys:
                del baselines.times[key]
            baselines.times.update(self._new_baselines.times)
            baselines.write()
            self._is_written = True

    def _is_gone(self, key: Key, collected_tests: set[str], narrowed_files: set[str]) -> bool:
        file, is_test, _ = key.owner.partition(_TESTS)
        if not is_test or key in self._used_keys:
            return False
        if key.owner in collected_tests:
            return key.owner in self._passed_tests
        if Path(file).name in narrowed_files:
            return False
        is_collected = any(test.partition(_TESTS)[0] == file for test in collected_tests)
        return is_collected or not (self.path.parent / file).exists()

    def summary(self) -> list[str]:
        """Lines for the end of the session: notes, upgrades of trnsim, missing baselines."""
        lines = list(self._notes)
        by_models: dict[str, list[tuple[float, str]]] = {}
        for models, share, words in self._upgrades:
            by_models.setdefault(models, []).append((share, words))
        for models, rows in sorted(by_models.items()):
            shares = sorted(share for share, _ in rows)
            lines.append(
                f"another trnsim, not the kernels: from {models} it moved {len(rows)} of "
                f"{len(self._used_keys)} times, by {_signed_percent(shares[0])} to "
                f"{_signed_percent(shares[-1])}; accept it: {_UPDATE}"
            )
            lines.append(f"  for example {rows[0][1]}")
        if self._stale_keys:
            keys = ", ".join(map(str, self._stale_keys))
            state = "dropped" if self._is_written else f"{_UPDATE} drops them"
            lines.append(f"baselines of no kernel that ran ({state}): {keys}")
        if self._is_written:
            lines.append(
                f"wrote {len(self._new_baselines.times)} times to {self.path.name}: commit it"
            )
        return lines


class TrnMark:
    """The mark `trn` of a test.

    Attributes:
        max_us: longest time that passes; None for any.
        has_baseline: whether a time is compared with its baseline.
    """

    def __init__(
        self, max_us: float | None = None, on: str = _DEFAULT_CHIP, baseline: bool = True
    ) -> None:
        """The mark with these arguments.

        Raises:
            BadInput: a time that is not above 0, or an unknown chip.
        """
        is_time = isinstance(max_us, int | float) and not isinstance(max_us, bool)
        if max_us is not None and not (is_time and max_us > 0):
            raise BadInput(f"trn(max_us={max_us!r}); legal: a number of microseconds above 0")
        chips: Any = on.split(",") if isinstance(on, str) else on  # pyright: ignore[reportUnnecessaryIsInstance]  of a user
        is_list = isinstance(chips, list | tuple) and all(isinstance(chip, str) for chip in chips)
        names = [chip.strip() for chip in chips] if is_list else []
        if not names or not TARGETS.keys() >= {*names}:
            raise BadInput(f"trn(on={on!r}); legal: {', '.join(TARGETS)}, with commas between them")
        self.max_us = max_us
        self.chips = [TARGETS[name] for name in dict.fromkeys(names)]
        self.has_baseline = bool(baseline)


def _mark_of(node: Any) -> TrnMark:
    """The mark of a test; the defaults for a test without a mark.

    Raises:
        BadInput: its arguments are not legal.
    """
    mark = node.get_closest_marker(_MARK)
    if mark is None:
        return TrnMark()
    if mark.args or mark.kwargs.keys() - {"max_us", "on", "baseline"}:
        raise BadInput(
            f"pytest.mark.trn of {node.nodeid} has {[*mark.args, *mark.kwargs]}; legal: max_us, "
            "on and baseline by keyword",
            fix='@pytest.mark.trn(max_us=60, on="trn2")',
        )
    return TrnMark(**mark.kwargs)


def _failure_text(check: KernelCheck) -> str:
    failures = [finding for finding in check.findings if finding.is_failure]
    title = f"{check.key.kernel} on {check.key.chip}"
    return "\n".join(f"{title}: {_finding_text(finding)}" for finding in failures)


def _finding_text(finding: GateFinding) -> str:
    parts = [f"{finding.kind}: {finding.text}"]
    parts += [f"  fix: {finding.fix}"] if finding.fix else []
    parts += [f"  source: {finding.source}"] if finding.source else []
    parts += [f"  at {finding.line}"] if finding.line is not None else []
    return "\n".join(parts)


def _upgrade_row(key: Key, shift: KernelTimeDifference) -> tuple[str, float, str]:
    """The models of an upgrade, its share of the time, and its words."""
    models = f"{shift.before.model} to {shift.after.model}"
    return models, shift.upgrade.change_us / shift.before.time_us, f"{key}: {upgrade_words(shift)}"


def _signed_percent(share: float) -> str:
    return f"{'-' if share < 0 else '+'}{percent_text(abs(share))}"
