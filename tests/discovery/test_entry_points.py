"""Entry points of installed plugins are those that ``importlib.metadata`` finds."""

from __future__ import annotations

import importlib.metadata
import sys
import zipfile
from pathlib import Path

import pytest

from fmha_cli.discovery.entry_points import GROUP, declaring, installed_entry_points


def install(folder: Path, name: str, version: str, text: str | None) -> Path:
    info = folder / f"{name}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    if text is not None:
        (info / "entry_points.txt").write_text(text)
    return info


def found() -> list[tuple[str, str]]:
    """What is installed, after a comparison with the slow way."""
    ours = [(point.name, point.value) for point in installed_entry_points()]
    assert ours == sorted((p.name, p.value) for p in importlib.metadata.entry_points(group=GROUP))
    return ours


def test_the_first_distribution_of_a_name_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before, section = found(), f"[{GROUP}]\n"
    assert ("null", "fmha_null") in before
    install(tmp_path / "late", "Fmha.One", "1.0", f"{section}old = one\n")
    install(tmp_path / "late", "fmha_gone", "1.0", f"{section}gone = gone\n")
    install(tmp_path / "early", "fmha_one", "2.0", f"{section}new = one\n")
    install(tmp_path / "early", "fmha_gone", "2.0", None)
    install(tmp_path / "early", "other", "1.0", f"[others]\n{GROUP} = x\n")
    for name in ("late", "early"):
        monkeypatch.syspath_prepend(str(tmp_path / name))
    assert set(found()) - set(before) == {("new", "one")}


def test_what_is_installed_meanwhile_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    before = found()
    install(tmp_path, "fmha_two", "1.0", f"[{GROUP}]\ntwo = two\n")
    assert set(found()) - set(before) == {("two", "two")}


def test_an_archive_may_hold_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr("fmha_three-1.0.dist-info/entry_points.txt", f"[{GROUP}]\nthree = three\n")
        archive.writestr("fmha_three-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: fmha-three\n")
    monkeypatch.syspath_prepend(str(tmp_path / "x.zip"))
    assert declaring(sys.path) is None
    assert ("three", "three") in found()


def test_nothing_is_imported_where_no_plugin_is_installed(tmp_path: Path) -> None:
    install(tmp_path, "other", "1.0", None)
    assert declaring([str(tmp_path), str(tmp_path / "none")]) == ()
