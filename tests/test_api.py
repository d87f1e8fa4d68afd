from __future__ import annotations

from fmha_cli import api
from fmha_cli.domain.verdict import Verdict
from fmha_cli.run.request import Request


def test_the_three_verbs() -> None:
    problem = api.Problem.of(batch=2, seqlen=96, hdim=40, causal=True, dtype="fp32", lse=True)
    trace = api.explain(problem)
    assert trace.chosen is not None
    (record,) = api.run(problem)
    assert record.verdict is Verdict.PASSED
    assert record.kernel is not None
    assert record.kernel.digest == trace.chosen.kernel.digest
    assert record.settings is not None
    assert set(record.settings.values) <= {
        "prefetch_near",
        "prefetch_far",
        "prefetch_pages",
        "block_keys",
        "query_tiles",
    }
    assert record.processor is not None
    assert trace.chosen.kernel in list(api.list_kernels(trace.chosen.kernel.arch))


def test_a_problem_that_nothing_supports_is_a_row_with_reasons() -> None:
    (record,) = api.run(api.Problem.of(hdim=999, seqlen=8))
    assert record.verdict is Verdict.UNSUPPORTED
    assert "K012" in {reason.id for reason in record.reasons}
    assert api.explain(api.Problem.of(hdim=999)).chosen is None


def test_a_product_stands_for_its_architecture() -> None:
    problem = api.Problem.of(seqlen=64, hdim=64)
    assert api.explain(problem, arch="h100") == api.explain(problem, arch="sm_90a")
    assert [*api.list_kernels("h100", backend="cudnn_oss")] == [*api.list_kernels("sm_90a", backend="cudnn_oss")] != []
    assert Request(arch="h100").wanted.arch == "sm_90a"


def test_validate_and_bench_through_the_same_verb() -> None:
    problem = api.Problem.of(seqlen=32, hdim=16)
    rows = api.run(problem, command="validate", backend="null", fills=("normal", "coded"))
    assert [r.verdict for r in rows] == [Verdict.PASSED, Verdict.PASSED]
    assert rows[1].problem["lse"] is True
    (timed,) = api.run(problem, command="bench", backend="null", budget_s=0.05)
    assert timed.measurement is not None
    assert timed.measurement.samples_ns


def test_every_name_is_there() -> None:
    assert all(hasattr(api, name) for name in api.__all__)
