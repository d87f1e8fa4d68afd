"""The facts about Triton's releases, compared with the release that is installed."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import metadata, resources
from typing import Any

import pytest

pytest.importorskip("fmha_triton", reason="plugins/fmha-triton is not installed")

EXAMINED = {"3.6.0", "3.7.1", "3.8.0", "3.9.0"}
LOOK = """
import importlib, json, sys
found = {}
for module, name in json.loads(sys.stdin.read()):
    try:
        found[f"{module}:{name}"] = hasattr(importlib.import_module(module), name)
    except ImportError:
        found[f"{module}:{name}"] = False
print(json.dumps(found))
"""


def facts() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(resources.files("fmha_triton").joinpath("features.json").read_text("utf-8"))
    return found


def test_the_facts_name_their_source_and_claim_nothing_about_releases_that_were_not_examined() -> None:
    assert facts()["source"]
    assert set(facts()["python"]) == EXAMINED
    assert all(row[release] in (True, False) for row in facts()["features"] for release in EXAMINED)
    for row in (*facts()["features"], *facts()["compiling"]):
        assert {key for key in row if key.startswith("3.") and not key.endswith("name")} == EXAMINED


def test_the_installed_release_has_what_the_facts_say() -> None:
    try:
        version = metadata.version("triton")
    except metadata.PackageNotFoundError:
        pytest.skip("Triton is not installed (pip install triton)")
    if version not in EXAMINED:
        pytest.skip(f"there are no facts about Triton {version}")
    rows = facts()["features"]
    places = [(r["module"], r.get(f"{version} name", r["attribute"])) for r in rows]
    said = subprocess.run(
        [sys.executable, "-c", LOOK], input=json.dumps(places), capture_output=True, text=True, check=True, timeout=120
    )
    found = json.loads(said.stdout)
    wrong = [
        r["what"] for r, (module, name) in zip(rows, places, strict=True) if found[f"{module}:{name}"] != r[version]
    ]
    assert not wrong
