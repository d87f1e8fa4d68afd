"""Hints as flags: what they name, where they lead, and that no rule's hint repeats the rule."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from fmha_cli.discovery.nearest import ON, applied, change_text, changes_in, flags_by_key
from fmha_cli.discovery.registry import build_registry
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.errors import ImpossibleProblem
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.rules import Reason
from fmha_cli.domain.signature_hints import with_rows, with_signature
from tests.support.generators.strategies import problems

READ = {
    "--rotary 32": ((("rotary", "32"),),),
    "--dropout 0, or --softcap 0": ((("dropout", "0"),), (("softcap", "0"),)),
    "--rotary 0 and --kv-cache linear": ((("kv_cache", "linear"), ("rotary", "0")),),
    "drop --lse": ((("lse", None),),),
    "--lse": ((("lse", "on"),),),
    "--seqlen 5 instead of --seqlens-q": ((("seqlen", "5"), ("seqlens_q", None)),),
    "pad it: --hdim 80": ((("hdim", "80"),),),
    "--hdim 96 or less": ((("hdim", "96"),),),
    "--scale 0.5 (with the signs of Q reversed)": ((("scale", "0.5"),),),
    "--dropout 0, or a probability between 1e-7 and 1": ((("dropout", "0"),),),
    "a smaller --batch": (),
    "--backend cpu": (),
    "--arch one of sm_80, sm_90": (),
    "--mask window:L,R with L and R of 0 or more": (),
    "--hdim": (),
}


@pytest.mark.parametrize("hint", READ)
def test_the_flags_of_a_hint(hint: str) -> None:
    assert changes_in(hint) == READ[hint]


LED = {
    "-s 20 --kv-cache paged:100 --cache-seqlens 300": {
        "--kv-cache paged:128": "--kv-cache paged:128",
        "--kv-cache none": "--seqlen-k 300 and no --kv-cache and no --cache-seqlens",
    },
    "--seqlens-q 3,5": {"--seqlen 5 instead of --seqlens-q": "--batch 2 and --seqlen 5 and no --seqlens-q"},
    "-b 2 -s 3": {"--seqlens-q 3,3 instead of --seqlen": "no --batch and no --seqlen and --seqlens-q 3,3"},
    "--causal": {"--mask none": "no --causal", "--mask window:3,0": "no --causal and --mask window:3,0"},
    "--mask window:3,0": {"--mask causal": "--mask causal", "drop --mask": "no --mask"},
    "--alibi --direction bwd": {"--bias elementwise": "--bias elementwise and no --alibi", "--bias none": "no --alibi"},
    "--bias elementwise --dbias --direction bwd": {"--direction fwd": "no --direction and no --dbias"},
    "-d 100": {"--hdim 128": "--hdim 128", "--hdim 100": None, "--hdim 0": None},
    "-s 4 --kv-cache linear --append 4 --rotary 8": {"--append 0": "no --append and no --rotary"},
}


@pytest.mark.parametrize("line", LED)
def test_the_problem_after_a_change(line: str) -> None:
    problem = Problem.from_cli(line)
    for hint, text in LED[line].items():
        (change,) = changes_in(hint)
        other = applied(problem, change)
        assert (other and change_text(problem, other)) == text


@pytest.mark.parametrize(
    ("line", "field", "have", "hint"),
    [
        (
            "-b 2 --kv-cache linear --cache-batch-idx 3,1",
            "cache",
            "paged",
            "--kv-cache paged:128 and drop --cache-batch-idx",
        ),
        ("-b 2 --kv-cache linear --cache-batch-idx 3,1", "cache", "none", "--kv-cache none"),
        ("--kv-cache linear --cache-leftpad 8", "page", "64", "--kv-cache paged:64 and drop --cache-leftpad"),
        ("--kv-cache paged:64", "cache", "linear", "--kv-cache linear"),
        ("--kv-cache linear --dtype fp8_e4m3", "kv_dtype", "fp8_e4m3", None),
        ("--kv-cache linear --dtype fp8_e4m3", "kv_dtype", "int8", "--kv-dtype int8"),
        ("--dtype bf16", "fp8_encoding", "fnuz", None),
        ("--dtype fp8_e4m3", "fp8_encoding", "fnuz", "--fp8-encoding fnuz"),
        ("--kv-cache linear --kv-dtype fp8_e5m2", "fp8_encoding", "fnuz", "--fp8-encoding fnuz"),
        ("--causal", "mask", "any", None),
        ("--causal", "mask", "generic", None),
        ("--causal", "mask", "none", "--mask none"),
        ("--causal -s 9", "mask", "window", "--mask window:9,0"),
    ],
)
def test_a_hint_drops_what_its_value_excludes(line: str, field: str, have: str, hint: str | None) -> None:
    problem = Problem.from_cli(line)
    assert with_signature(problem, field, have) == hint
    assert all(applied(problem, change) is not None for change in changes_in(hint))


@pytest.mark.parametrize(
    ("line", "rows", "hint"),
    [
        ("-s 2 --cache-seqlens 60 --rotary-cos filled --rotary-sin filled", 64, "--seqlen 64"),
        (
            "-s 2 --cache-seqlens 59 --rotary-cos filled --rotary-sin filled",
            64,
            "--seqlen 64 and drop --rotary-cos and drop --rotary-sin",
        ),
        ("-s 2 --cache-seqlens 59", 64, "--seqlen 64"),
        (
            "--seqlens-q 2,9 --cache-seqlens 8,60 --rotary-cos filled --rotary-sin filled",
            9,
            "--seqlen 9 instead of --seqlens-q",
        ),
    ],
)
def test_more_rows_than_positions_drop_the_tables(line: str, rows: int, hint: str) -> None:
    problem = Problem.from_cli(f"{line} -d 64 --kv-cache linear --append 4 --rotary 32")
    assert with_rows(problem, rows) == hint
    (change,) = changes_in(hint)
    assert applied(problem, change) is not None


ARCHS = ("generic", "sm_90a", "gfx942", "gfx1100", "gfx1201", "null")
MORE_ARCHS = (*ARCHS, "sm_80", "gfx950")


def reasons_of(problem: Problem, archs: tuple[str, ...]) -> Iterator[Reason]:
    for backend in build_registry().backends.values():
        for arch in set(archs) & set(backend.archs()):
            for decision in backend.decide(problem, DeviceFacts.of_arch(arch)):
                yield from getattr(decision, "reasons", ())


ADVICE = re.compile(
    r"(a (smaller|larger) (--batch|page)|shorter sequences|fewer (--splits|heads)|sequences (of at most|shorter than) "
    r"|--backend |--arch |--ck-rev |fmha archs|one of |[a-z_0-9]+=|gfx|a CDNA|a power of two)"
)
"""Hints from which no change of the problem's flags follows: a direction, another place, or a kernel's own fields."""


def repeats(reason: Reason) -> bool:
    """Whether a hint says only what the text says: that a kernel with the wanted value would do."""
    words = set(re.findall(r"[a-z0-9_]+", (reason.hint or "").lower())) - {"a", "an", "the", "or", "one", "of"}
    return "compiled for" in (reason.hint or "") or bool(
        words and words <= set(re.findall(r"[a-z0-9_]+", reason.text.lower()))
    )


def checked(problem: Problem, archs: tuple[str, ...] = ARCHS) -> None:
    raw = flags_by_key(problem)
    for reason in dict.fromkeys(reasons_of(problem, archs)):
        if reason.hint is None:
            continue
        assert not (repeats(reason) and "--" not in reason.hint), reason
        assert "kernel" not in reason.hint, reason
        found = changes_in(reason.hint)
        assert found or ADVICE.match(reason.hint), reason
        for change in found:  # a hint never names what the problem has already
            assert any(raw.get(key) != (True if value == ON else value) for key, value in change), reason


@pytest.mark.parametrize(
    "archs", [pytest.param(ARCHS, id="some"), pytest.param(MORE_ARCHS, id="more", marks=pytest.mark.slow)]
)
@pytest.mark.parametrize(
    "line", ["-s 64", *list(LED)[:2], "--alibi --direction bwd", "-d 8 --mla-rope 1", "-d 16 --hdim-v 7"]
)
def test_no_hint_repeats_its_rule(line: str, archs: tuple[str, ...]) -> None:
    checked(Problem.from_cli(line), archs)


@settings(
    max_examples=6, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck), phases=[Phase.generate]
)
@given(problem=problems())
@pytest.mark.slow
@pytest.mark.ci
def test_no_hint_of_a_random_problem_repeats_its_rule(problem: Problem) -> None:
    checked(problem)


def test_no_help_of_a_rule_or_error_repeats_its_text() -> None:
    from fmha_cli.cli.rule_pages import all_pages

    for page in all_pages(build_registry()).values():
        assert page.help.strip(". ").lower() != page.text.strip(". ").lower(), page.id
        assert page.help or page.id.startswith("K9"), page.id


@pytest.mark.parametrize(
    ("text", "example"), [("paged", "paged:128"), ("page:16", "paged:16"), ("ring", "linear or paged:128")]
)
def test_a_wrong_cache_gets_an_example_where_one_is_meant(text: str, example: str) -> None:
    with pytest.raises(ImpossibleProblem) as caught:
        Problem.from_cli(f"--kv-cache {text}")
    assert caught.value.code == "P008"
    assert caught.value.help == f"{'e.g. ' if text == 'ring' else ''}--kv-cache {example}"
