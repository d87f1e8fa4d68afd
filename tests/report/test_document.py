"""The content of documents, and their low cost."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

from fmha_cli.domain.codec import to_json
from fmha_cli.report.documents.build import build_document, build_entry, build_view
from fmha_cli.report.documents.explain import explain_document
from fmha_cli.report.documents.plan import plan_document, plan_view
from fmha_cli.report.parts import ArtifactRow, environment
from tests.support.generators.report.sample_documents import TRACE, json_documents
from tests.support.generators.report.samples import ARTIFACT, BACKENDS, PLAN, PROBLEM, kernel


def test_explain_ranks_the_supported_and_orders_the_rest() -> None:
    document = to_json(explain_document(PROBLEM, TRACE, kernel()))
    first, *rest = document["decisions"]
    assert first["rank"] == 1
    assert first["supported"]
    assert document["chosen"] == first["kernel"]
    assert [d["supported"] for d in rest] == [False, False]
    assert [d["rank"] for d in rest] == [None, None]
    assert rest[0]["backend"] == "ck_tile"  # fewer reasons make it the nearer miss
    assert rest[0]["kernel"] is None
    assert set(first) >= {"backend", "arch", "kernel", "supported", "rank", "reasons"}  # of contract and /1


def test_kernels_document_is_the_contracts() -> None:
    document = json_documents()["kernels"][0]
    assert set(document) == {"schema", "arch", "count", "kernels"}
    assert document["count"] == len(document["kernels"]) == 2
    members = ["name", "digest", "backend", "family", "signature", "algorithm", "upstream_name", "buildable", "reasons"]
    assert all(set(k) == set(members) for k in document["kernels"])


def test_a_plan_shows_its_grids_and_everything_else_below() -> None:
    detail = (("grid", "8x4"), ("splits", "7"), ("template", "k<1, 2>"))
    plan = replace(PLAN, stages=(replace(PLAN.stages[0], detail=detail), *PLAN.stages[1:]))
    view = plan_view(plan_document(PROBLEM, plan, "cpu", ("up",)))
    assert view.rows[0][-1] == "8x4"
    assert list(view.details)[:2] == ["  stage 1, splits: 7", "  stage 1, template: k<1, 2>"]
    assert not any("8x4" in line for line in view.details)


def test_plan_without_a_kernel_keeps_its_shape() -> None:
    full, empty = to_json(plan_document(PROBLEM, PLAN, "cpu", ("up",))), to_json(plan_document(PROBLEM, None))
    assert set(full) == set(empty)
    assert full["stages"][0]["upstream_name"] == "up"
    assert full["stages"][1]["upstream_name"] is None
    assert full["stages"][0]["detail"] == {"grid": "8x4"}
    assert full["predicted_bytes"] == PLAN.predicted_bytes
    assert empty["kernel"] is None


def test_environment() -> None:
    block = to_json(environment(BACKENDS))
    assert set(block) == {"fmha", "python", "platform", "devices", "backends"}
    assert block["backends"]["ck_tile"] == {"help": "install it", "state": "missing", "version": None, "why": "no ROCm"}
    assert block["devices"][0]["memory_bytes"] == 2**34
    assert block["devices"][0]["llc_bytes"] is None


def test_artifact_times_are_integers() -> None:
    assert ArtifactRow.of(ARTIFACT).build_ns == 1_250_000_000


def test_reports_need_no_numpy_and_no_tabulate_until_a_table_is_drawn() -> None:
    code = (
        "import sys; from fmha_cli.report import formats; from fmha_cli.report.documents import cache, kernels, report; from fmha_cli.bench import peaks, sampling;"
        "sys.exit(' '.join({'numpy', 'tabulate', 'rich', 'typer'} & set(sys.modules)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_build_says_which_kernels_an_archive_brought() -> None:
    imported = replace(ARTIFACT, cached=True, prebuilt_by="compiler 7")
    document = build_document([build_entry(kernel(), imported), build_entry(kernel(), ARTIFACT)])
    assert [b.artifact.prebuilt_by for b in document.builds if b.artifact] == ["compiler 7", None]
    assert "  1 kernel prebuilt by compiler 7" in build_view(document).details
