"""``fmha explain``: decisions, the smallest change, and the pages of rules and errors."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import fmha_cli
from fmha_cli.cli.failure import error_pages
from fmha_cli.discovery.registry import build_registry
from fmha_cli.domain.kernel import Family
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.protocols import Explained
from fmha_cli.domain.rules import Reason
from fmha_cli.report.documents.choices import ChoiceRow, Choices, choices_view
from fmha_cli.report.drawing import plain
from fmha_cli.report.parts import KernelRow
from tests.cli.conftest import Fmha


def test_a_supported_problem(fmha: Fmha) -> None:
    done = fmha("explain", "--backend", "null", "--json")
    assert done.code == 0
    document = done.document
    assert document["decisions"][0]["rank"] == 1
    assert document["chosen"] == document["decisions"][0]["kernel"]
    assert document["change"] is None


@pytest.mark.promise("Exit code 3: no backend supports the problem; the smallest change that would work is named.")
@pytest.mark.sampled(2, ci="all")
@pytest.mark.parametrize(
    ("argv", "change"),
    [
        (["--dropout", "0.1"], "no --dropout"),
        (["--hdim", "600"], "--hdim 512"),
        (["--dtype", "fp8_e4m3"], "--dtype fp16"),
        (["--dropout", "0.1", "--hdim", "600"], "--hdim 512 and no --dropout"),
        (["--direction", "bwd"], "no --direction"),
    ],
)
def test_an_unsupported_problem_names_the_smallest_change(fmha: Fmha, argv: list[str], change: str) -> None:
    done = fmha("explain", "--backend", "null", "--json", *argv)
    assert done.code == 0
    assert done.document["chosen"] is None
    assert done.document["change"] == change
    assert all(d["reasons"] for d in done.document["decisions"])
    assert change in fmha("explain", "--backend", "null", *argv).out


CK = ("explain", "--backend", "ck_tile", "--arch", "gfx942", "--causal", "-s", "4096", "--dtype", "bf16")
NOTE = "K352: 4096 keys need no padding to 128"
REFUSED = ("explain", "--arch", "gfx950", "-d", "128", "--kv-cache", "paged:100", "--cache-seqlens", "300", "-s", "20")


KEPT: list[dict[str, Any]] = []


SHOWN: list[str] = []


@pytest.fixture
def shown(fmha: Fmha) -> str:
    """The same answer on a terminal, asked once too."""
    if not SHOWN:
        SHOWN.append(fmha(*CK).out)
    return SHOWN[0]


@pytest.fixture
def explained(fmha: Fmha) -> dict[str, Any]:
    """CK's answer, computed once, because it ranks hundreds of kernels. A module's fixture could not use ``fmha``."""
    if not KEPT:
        KEPT.append(fmha(*CK, "--json").document)
    return KEPT[0]


@pytest.mark.promise("`explain` says why one kernel is taken and not the next, and `--why A B` compares two.")
@pytest.mark.slow
@pytest.mark.ci
def test_ranked_kernels_have_digests_and_notes(shown: str, explained: dict[str, Any]) -> None:
    document = explained
    assert document["schema"] == "fmha.explain/3"
    served = [d for d in document["decisions"] if d["supported"]]
    assert all(len(d["digest"]) == 64 and d["note"] for d in served)
    (passed,) = [d for d in served if NOTE in d["note"]]
    assert NOTE in shown
    assert passed["digest"][:12] in shown
    refused = [d for d in document["decisions"] if not d["supported"] and d["kernel"]]
    assert all(d["digest"] and d["note"] is None for d in refused)


@pytest.mark.promise(
    "README: Which kernel runs, and why was another refused?",
    "`explain` says why one kernel is taken and not the next, and `--why A B` compares two.",
)
@pytest.mark.slow
@pytest.mark.ci
def test_one_sentence_tells_why_the_chosen_kernel_and_not_the_next(
    fmha: Fmha, shown: str, explained: dict[str, Any]
) -> None:
    first, second = explained["decisions"][:2]
    because = explained["because"]
    assert because.startswith(f"fwd {first['digest'][:12]} because ")
    assert f"instead of fwd {second['digest'][:12]} because " in because
    table = " ".join(shown.split())
    assert first["note"] in table
    assert because.partition(", instead of ")[2] in table
    assert table.count(first["note"]) == 1, "a note that stands above is not told again"
    assert fmha(*REFUSED, "--limit", "1", "--json").document["because"] is None


@pytest.fixture
def pair(explained: dict[str, Any]) -> tuple[dict[str, str], dict[str, str]]:
    """The first kernel in upstream's order, and the one that K352 passes over."""
    served = [d for d in explained["decisions"] if d["supported"]]
    return served[0], next(d for d in served if NOTE in d["note"])


@pytest.mark.promise("`explain` says why one kernel is taken and not the next, and `--why A B` compares two.")
@pytest.mark.slow
@pytest.mark.ci
def test_two_kernels_are_compared(fmha: Fmha, pair: tuple[dict[str, str], dict[str, str]]) -> None:
    first, passed = pair
    document = fmha(*CK, "--why", passed["digest"][:12], first["kernel"], "--json").document
    assert document["schema"] == "fmha.why/1"
    assert {(d["part"], d["field"], d["a"], d["b"]) for d in document["differences"]} == {
        ("algorithm", "pad_sk", "yes", "no")
    }
    assert [(rule["id"], rule["kernel"]) for rule in document["rules"]] == [("K352", "a")]
    assert (document["a"]["rank"], document["b"]["rank"]) == (passed["rank"], 1)
    assert NOTE in document["because"]
    upstream = document["a"]["upstream_name"]
    again = fmha(*CK, "--why", upstream, first["digest"][:8], "--json").document
    assert again == document
    shown = fmha(*CK, "--why", upstream, first["digest"], COLUMNS="80").out
    assert "K352" in shown
    assert max(map(len, shown.splitlines())) <= 80


@pytest.mark.slow
@pytest.mark.ci
def test_a_refused_kernel_and_one_that_is_no_candidate_are_compared(fmha: Fmha, explained: dict[str, Any]) -> None:
    refused = next(d for d in explained["decisions"] if d["kernel"] and [r["id"] for r in d["reasons"]] == ["K008"])
    backward = fmha("list-kernels", "--arch", "gfx942", "--family", "bwd_dq_dk_dv", "--jsonl").out.splitlines()[0]
    other = json.loads(backward)["name"]
    why = fmha(*CK, "--why", refused["kernel"], other, "--json").document
    assert not why["a"]["supported"]
    assert not why["b"]["supported"]
    assert {"K008"} == {rule["id"] for rule in why["rules"] if rule["kernel"] == "a"}
    assert "K025" in {rule["id"] for rule in why["rules"] if rule["kernel"] == "b"}
    assert why["because"].startswith("neither fits")


@pytest.mark.slow
@pytest.mark.ci
def test_wrong_pairs_of_kernels(fmha: Fmha, pair: tuple[dict[str, str], dict[str, str]]) -> None:
    first, _ = pair
    assert "one kernel" in fmha(*CK, "--why", first["kernel"], first["digest"][:12]).err
    assert fmha(*CK, "--why", first["kernel"], "nope").code == 2
    assert fmha(*CK, FMHA_WHY=first["kernel"]).code == 2


@pytest.mark.sampled(0, ci="all")
@pytest.mark.parametrize("argv", [REFUSED, CK, ("explain", "-s", "64"), ("explain", "--backend", "null")])
@pytest.mark.parametrize("columns", ["80", pytest.param("60", marks=pytest.mark.slow)])
def test_the_answer_fits_a_terminal(fmha: Fmha, argv: tuple[str, ...], columns: str) -> None:
    lines = fmha(*argv, COLUMNS=columns).out.splitlines()
    assert max(map(len, lines)) <= int(columns)
    assert len(lines) <= (24 if columns == "80" else 34)


def test_every_candidate_on_request(fmha: Fmha) -> None:
    document = fmha("explain", "--backend", "null", "--json").document
    digests = [d["digest"][:12] for d in document["decisions"]]
    few, every = fmha("explain", "--backend", "null"), fmha("explain", "--backend", "null", "--all")
    assert not all(digest in few.out for digest in digests)
    assert all(digest in every.out for digest in digests)
    ranked = [
        line
        for line in fmha("explain", "--backend", "null", "--limit", "2").out.splitlines()
        if re.match(r" +\d+  ", line)
    ]
    assert len(ranked) == 2
    assert fmha("explain", "--backend", "null", "--limit", "0").code == 2


def test_a_refused_kernel_is_an_answer(fmha: Fmha, explained: dict[str, Any]) -> None:
    refused = next(d for d in explained["decisions"] if d["kernel"] and [r["id"] for r in d["reasons"]] == ["K010"])
    done = fmha(*CK, "--kernel", refused["kernel"], "--limit", "1", "--json")
    assert done.code == 0
    assert done.document["change"] == "--lse"
    assert fmha("plan", *CK[1:], "--kernel", refused["kernel"]).code == 3


def test_a_sweep_is_refused_by_its_flag(fmha: Fmha) -> None:
    done = fmha("explain", "--seqlen", "1,2", "--dtype", "fp16,bf16")
    assert done.code == 2
    assert "one problem" in done.err
    assert "--seqlen has 2 values: 1, 2; --dtype has 2 values: fp16, bf16" in done.err
    assert "--hdim" not in done.err


@pytest.mark.promise("Every rule and error has a page, those of plugins too.")
def test_all_rules_are_listed_by_id(fmha: Fmha) -> None:
    rules = fmha("explain", "--rules", "--json").document["rules"]
    ids = [rule["id"] for rule in rules]
    assert ids == sorted(set(ids))
    registry = build_registry()
    plugins = {
        code for backend in registry.backends.values() if isinstance(backend, Explained) for code in backend.errors
    }
    assert set(ids) == set(error_pages()) | set(registry.rules()) | plugins
    done = fmha("explain", "--rules", "k32", COLUMNS="80")
    assert done.code == 0
    assert [line[:4] for line in done.out.splitlines() if line.startswith("K")] == [
        i for i in ids if i.startswith("K32")
    ]
    assert "page sizes are multiples of 128" in done.out
    assert max(map(len, done.out.splitlines())) <= 80
    assert fmha("explain", "--rules", "Q").code == 5


@pytest.mark.parametrize("code", ["K012", "k012", "P006", "E001", "M001"])
def test_pages(fmha: Fmha, code: str) -> None:
    done = fmha("explain", code)
    assert done.code == 0
    assert done.out.startswith(f"{code.upper()}: ")
    assert fmha("explain", code, "--json").document["id"] == code.upper()
    assert max(map(len, fmha("explain", code, COLUMNS="80").out.splitlines())) <= 80


def test_an_unknown_page(fmha: Fmha) -> None:
    done = fmha("explain", "K0012")
    assert done.code == 2
    assert "did you mean K012?" in done.err
    far = fmha("explain", "K9999")
    assert far.code == 2
    assert "fmha explain --rules" in far.err
    assert max(map(len, far.err.splitlines())) < 80


def codes_in_the_source() -> Iterator[str]:
    for path in Path(fmha_cli.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Constant) and re.fullmatch(r"[A-Z]\d{3}", str(node.value)):
                yield str(node.value)


@pytest.mark.promise("Every rule and error has a page, those of plugins too.")
@pytest.mark.slow
@pytest.mark.ci
def test_every_code_has_a_page() -> None:
    known = set(error_pages()) | set(build_registry().rules())
    assert set(codes_in_the_source()) - known == set()


@pytest.mark.promise("Every rule and error has a page, those of plugins too.")
def test_a_plugins_errors_have_pages(fmha: Fmha, monkeypatch: pytest.MonkeyPatch) -> None:
    help = "mend it"
    monkeypatch.setattr("fmha_null.NullBackend.errors", {"K990": ("it is broken", help)}, raising=False)
    page = fmha("explain", "k990", "--json").document
    assert (page["id"], page["text"], page["help"], page["backends"]) == ("K990", "it is broken", help, ["null"])
    assert [row["id"] for row in fmha("explain", "--rules", "K99", "--json").document["rules"]] == ["K990"]


def test_no_page_stands_twice() -> None:
    assert set(error_pages()).isdisjoint(build_registry().rules())


@pytest.mark.slow
@pytest.mark.ci
def test_the_users_tree_is_named(fmha: Fmha, tmp_path: Path) -> None:
    """Also one that cannot be built against: explaining needs no sources."""
    tile = tmp_path / "checkout/include/ck_tile"
    tile.mkdir(parents=True)
    (tile / "core.hpp").write_text("#pragma once\n")
    few = ("--limit", "1")
    ask = (*CK, *few, "--ck-home", str(tmp_path / "checkout"))
    done = fmha(*ask, "--ck-as", "baseline", "--json")
    assert done.code == 0
    tree = done.document["trees"]["ck_tile"]
    assert (tree["state"], tree["revision"], tree["edited"]["files"]) == ("present", "baseline", 421)
    shown = " ".join(fmha(*ask, "--ck-as", "baseline").out.split())
    assert f"source of ck_tile: baseline, edited (421 files differ), from --ck-home {tmp_path}/checkout" in shown
    assert fmha(*ask, "--json").document["trees"]["ck_tile"]["state"] == "unfit"
    assert "source of ck_tile: unfit" in fmha(*ask).out
    assert fmha(*CK, *few, "--json").document["trees"] == {}


@pytest.mark.promise("Data with sources order the backends, confirmed kernels come first, and `explain` says why.")
def test_the_order_of_the_backends_is_shown_with_its_sources(fmha: Fmha) -> None:
    argv = ("explain", "--backend", "example,cpu", "-s", "64", "--dtype", "fp32")
    preference = fmha(*argv, "--json").document["preference"]
    first, second = preference["order"]
    assert (first["backend"], first["confirmed"]) == ("cpu", [])
    assert first["source"]
    assert (second["backend"], second["source"]) == ("example", None)  # a plugin comes after the order
    because = preference["because"]
    assert because.startswith("cpu, not example: it comes before example in the default order")
    assert first["source"] in because
    shown = " ".join(fmha(*argv).out.split())
    assert f"backend: {because}" in shown
    assert "order: cpu, example; gpu_check confirmed none yet" in shown
    alone = fmha("explain", "--backend", "cpu", "-s", "64", "--json").document["preference"]
    assert (len(alone["order"]), alone["because"]) == (1, None)
    assert "order:" not in fmha("explain", "--backend", "cpu", "-s", "64").out


def test_several_backends_are_ranked_together(fmha: Fmha) -> None:
    argv = ("explain", "-s", "64", "--dtype", "fp32", "--json", "--backend")
    for names in ("cpu,example", "example,cpu", "all"):
        document = fmha(*argv, names).document
        served = list(dict.fromkeys(d["backend"] for d in document["decisions"] if d["supported"]))
        assert [name for name in served if name in ("cpu", "example")] == ["cpu", "example"]
    assert {"null", "flash_attn"} <= {d["backend"] for d in document["decisions"]}


def test_the_best_kernel_of_every_backend_is_shown(fmha: Fmha) -> None:
    argv = ("explain", "-s", "512", "--dtype", "bf16", "--causal", "--arch", "sm_90a")
    served = [d for d in fmha(*argv, "--json").document["decisions"] if d["supported"]]
    best = {d["backend"]: d for d in reversed(served)}
    assert list(best) == ["cudnn_oss", "mem_efficient", "flash_attn_3", "flash_attn"]
    rows = [line.split() for line in fmha(*argv).out.splitlines() if line[:4].strip().isdigit()]
    later = [str(d["rank"]) for d in sorted(best.values(), key=lambda d: d["rank"]) if d["rank"] > 4]
    assert [row[0] for row in rows] == ["1", "2", "3", "4", *later]
    assert {row[2]: row[1] for row in reversed(rows)} == {name: d["digest"][:12] for name, d in best.items()}


@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.parametrize(
    ("arch", "whole", "more"), [("sm_90", "sm_90a", "flash_attn_3, cudnn_oss"), ("sm_100", "sm_100a", "cudnn_oss")]
)
def test_an_architecture_that_lacks_kernels_of_the_same_chip_says_so(
    fmha: Fmha, arch: str, whole: str, more: str
) -> None:
    said = " ".join(fmha("explain", "--arch", arch, "-s", "128").err.split())
    assert f"more kernels exist for {whole}, which these GPUs take too ({more}" in said
    assert "more kernels" not in fmha("explain", "--arch", whole, "-s", "128").err


def test_json_with_a_limit_has_the_best_kernels_and_the_nearest_refusals_of_each_backend(fmha: Fmha) -> None:
    asked = ("explain", "--arch", "gfx942", "-s", "1024", "-d", "128", "--json")
    whole = fmha(*asked).document
    served = [d for d in whole["decisions"] if d["supported"]]
    refused: dict[str, list[Any]] = {}
    for decision in whole["decisions"][len(served) :]:
        refused.setdefault(decision["backend"], []).append(decision)
    assert "left_out" not in whole
    for limit in (1, 3):
        some = fmha(*asked, "--limit", str(limit)).document
        assert [d for d in some["decisions"] if d["supported"]] == served[:limit]
        for backend, misses in refused.items():
            assert [d for d in some["decisions"] if d["backend"] == backend and not d["supported"]] == misses[:limit]
        lost = {backend: len(misses) - limit for backend, misses in refused.items() if len(misses) > limit}
        assert some["left_out"] == {"supported": len(served) - limit, "refused": lost}
        assert lost["ck_tile"] > 6000
        assert {**some, "decisions": [], "left_out": None} == {**whole, "decisions": [], "left_out": None}


def test_a_limit_shows_so_many_kernels_their_notes_and_no_stray_line(fmha: Fmha) -> None:
    done = fmha("explain", "--arch", "sm_90", "-s", "1024", "-d", "64", "--limit", "2")
    assert "rank 2:" in done.out
    assert not re.search(r"rank ([3-9]|1\d)", done.out)
    assert "more row" not in done.out


README = "--seqlen 512 --hdim 64 --dtype fp32", "--seqlen 4096 --hdim 128 --causal --dtype bf16"
LIBRARIES = "--dtype fp32,bf16 -H 8,16 -s 1k,4k -d 128 --causal"


@pytest.mark.parametrize("flags", [*README, LIBRARIES])
def test_all_backends_fit_sixty_lines(fmha: Fmha, flags: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    done = fmha("explain", "--backend", "all", *flags.split())
    lines = (done.out + done.err).splitlines()
    assert len(lines) <= 60, done.out
    assert max(map(len, lines)) <= 80


def test_five_backends_over_eight_problems_fit_sixty_lines_and_every_first_reason_stands_once_in_full() -> None:
    reason = Reason("K999", "element type bf16 has no kernel on this processor at all", "--dtype fp32")
    rows: list[ChoiceRow] = []
    for seqlen in range(8):
        problem = Problem.of(seqlen=1024 + seqlen, dtype="bf16").to_dict()
        for name in "abcde":
            full = f"{name}:fwd:x:dtype=bf16,dtype_out=bf16,hdim=64:tile={'9x' * seqlen}"
            kernel = KernelRow(name=full, digest="0" * 64, family=Family.FWD, signature={}, algorithm={})
            own: dict[str, Any] = {"kernel": None if name < "d" else kernel, "reasons": (reason,)}
            rows.append(ChoiceRow(problem=problem, backend=name, device=None, arch=None, **own))
    document = Choices(rows=tuple(rows))
    shown = plain(choices_view(document), 80).splitlines()
    assert len(shown) <= 60
    said = re.sub(r"\s+", " ", " ".join(shown))
    assert said.count("K999 element type bf16 has no kernel on this processor at all (help: --dtype fp32)") == 3
    assert said.count("K999 el") == 24 + 3
    assert len(plain(choices_view(document, whole=True), 80).splitlines()) > 60
