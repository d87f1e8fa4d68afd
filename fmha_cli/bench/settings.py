"""Settings that were measured on this machine, kept in the cache: one file for each machine and kernel."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from fmha_cli.bench.peaks import Machine
from fmha_cli.domain.codec import DecodeError, from_json, to_json
from fmha_cli.domain.encode import digest_of
from fmha_cli.domain.settings import Settings, SettingsFrom
from fmha_cli.toolchain.cache.files import as_environment_problem
from fmha_cli.toolchain.cache.memo import recall, remember

SETTINGS_DIR = "settings"
"""Directory under the cache root."""


@dataclass(frozen=True, kw_only=True)
class MeasuredKernel:
    """What was measured.

    Attributes:
        machine: its ``toolchain`` is the digest of the kernel's artifact, so a new build is measured again.
        kernel: name of the kernel.
    """

    machine: Machine
    kernel: str


def kept_settings(root: Path, subject: MeasuredKernel) -> Settings | None:
    """The settings that were measured for a kernel on a machine; None without any, or if the file is damaged."""
    found = recall(_file(root, subject), to_json(subject))
    return None if not isinstance(found, dict) else Settings(values=found, source=SettingsFrom.MEASURED)


def measured_once(root: Path, subject: MeasuredKernel, measure: Callable[[], Mapping[str, int]]) -> Settings:
    """The settings of a kernel on a machine: kept, or measured now and kept, atomically.

    Raises:
        EnvironmentProblem: the cache cannot be written, or the measurement does not run.
    """
    if (found := kept_settings(root, subject)) is not None:
        return found
    values = dict(sorted(measure().items()))
    with as_environment_problem("storing the settings of this machine"):
        remember(_file(root, subject), to_json(subject), values, {})
    return Settings(values=values, source=SettingsFrom.MEASURED)


def every_kept(root: Path) -> Iterator[tuple[MeasuredKernel, Settings]]:
    """All settings that are kept; a file that cannot be read is passed over."""
    for path in sorted((root / SETTINGS_DIR).glob("*.json")):
        with suppress(OSError, ValueError, KeyError, TypeError, DecodeError):
            subject = from_json(MeasuredKernel, json.loads(path.read_bytes())["question"], str(path))
            found = kept_settings(root, subject)
            if found is not None:
                yield subject, found


def _file(root: Path, subject: MeasuredKernel) -> Path:
    return root / SETTINGS_DIR / f"{digest_of(to_json(subject))}.json"
