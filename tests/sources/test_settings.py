"""pip's configuration, as pip reports it, and the pins themselves."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from fmha_cli.domain.arch import arch_root
from fmha_cli.domain.errors import InternalError
from fmha_cli.sources.faults import redact
from fmha_cli.sources.pins import PINS_FILE, pins, pins_from_json
from fmha_cli.sources.pip_settings import read_settings
from fmha_cli.sources.store import fetch_pin
from fmha_cli.toolchain.cache.layout import CacheLayout
from tests.sources.conftest import FILES, Index, Notices, pin_for, tar_of


def environment(tmp_path: Path, config: str = "", **variables: str) -> dict[str, str]:
    """This process's environment with pip's own variables replaced."""
    (tmp_path / "pip.conf").write_text(config)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    return {**kept, "PIP_CONFIG_FILE": str(tmp_path / "pip.conf"), **variables}


def test_a_file_of_pip_counts(tmp_path: Path) -> None:
    config = """
[global]
index-url = https://me:secret@one.example/simple
extra-index-url =
    https://two.example/simple
    https://three.example/simple
find-links = /some/where
timeout = 7
[download]
retries = 2
cert = /a/ca.pem
"""
    found = read_settings(environment(tmp_path, config))
    assert found.indexes == ("https://me:secret@one.example/simple",)
    assert found.extra == ("https://two.example/simple", "https://three.example/simple")
    assert found.links[-1:] == ("/some/where",)
    assert (found.timeout, found.retries, found.cert) == (7.0, 2, "/a/ca.pem")


def test_variables_beat_the_file(tmp_path: Path) -> None:
    config = "[global]\nindex-url = https://one.example/simple\ntrusted-host = a.example\n"
    env = environment(
        tmp_path, config, PIP_INDEX_URL="https://other.example/simple", PIP_NO_INDEX="1", PIP_CERT="/b.pem"
    )
    found = read_settings(env)
    assert found.indexes == ("https://other.example/simple",)
    assert found.no_index
    assert found.cert == "/b.pem"
    assert found.trusted == ("a.example",)


def test_without_pip_the_variables_alone_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", "/nonexistent/python")
    env = environment(tmp_path, PIP_INDEX_URL="https://other.example/simple", PIP_EXTRA_INDEX_URL="a b")
    found = read_settings({**env, "PATH": "/nonexistent"})
    assert found.indexes == ("https://other.example/simple",)
    assert found.extra == ("a", "b")


def test_a_pip_in_the_current_folder_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pip.py").write_text(
        "raise SystemExit(open('/dev/stdout', 'w').write(\"global.index-url='evil'\") and 0)"
    )
    monkeypatch.chdir(tmp_path)
    assert read_settings(environment(tmp_path)).indexes == ()


def test_an_index_named_by_a_variable_is_asked(
    index: Index, layout: CacheLayout, notices: Notices, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    data = tar_of(FILES)
    index.files["p-1.tar.gz"] = data
    for name, value in environment(tmp_path, PIP_INDEX_URL=index.url).items():
        monkeypatch.setenv(name, value)
    for name in ("PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL", "PIP_NO_INDEX"):
        monkeypatch.delenv(name, raising=False)
    assert fetch_pin(pin_for(data), layout, offline=False, notify=notices).is_dir()
    assert index.asked[0] == "/simple/p/"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("https://me:secret@host.example/simple", "https://host.example/simple"),
        ("404 for url: http://a:b@h/x?token=z, sorry", "404 for url: http://h/x sorry"),
        ("https://host.example/a", "https://host.example/a"),
        ("is it there? no", "is it there? no"),
    ],
)
def test_addresses_are_shown_without_secrets(text: str, expected: str) -> None:
    assert redact(text) == expected


def test_pins_are_whole() -> None:
    found = pins()
    assert {"amd-aiter", "flash-attn", "triton-amd"} <= set(found)
    for name, pin in found.items():
        assert re.fullmatch(r"[0-9a-f]{64}", pin.archive.sha256), name
        assert re.fullmatch(r"[0-9a-f]{64}", pin.digest), name
        assert pin.files > 0
        assert pin.license
        assert all(pin.find_place(pin.root + notice) for notice in pin.notice), name
        assert pin.find_place(pin.root + "something/else") is None


def test_no_registry_is_named_in_the_code() -> None:
    """Only pip's configuration, or its default, determines the source of packages."""
    package = Path(__file__).resolve().parents[2] / "fmha_cli"
    for path in (
        *(package / "sources").glob("*.py"),
        Path(str(arch_root())) / PINS_FILE,
    ):
        assert not re.search(r"https?://\w", path.read_text("utf-8")), path


@pytest.mark.parametrize("text", ["", "[]", "{}", json.dumps({"schema": "fmha.source-pins/1", "archives": {}})])
def test_a_malformed_file_of_pins(text: str) -> None:
    with pytest.raises(InternalError):
        pins_from_json(text)


def test_what_is_kept() -> None:
    pin = pin_for(b"")
    assert pin.find_place("p-1/include/a.h") == "include/a.h"
    assert pin.find_place("p-1/LICENSE") == "LICENSE"
    assert pin.find_place("p-1/LICENSE.txt") is None
    assert pin.find_place("p-1/included/a.h") is None
    assert pin.find_place("include/a.h") is None
