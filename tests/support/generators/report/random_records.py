"""Records with random content, for the tests of reports and schemas."""

from __future__ import annotations

from hypothesis import strategies as st

from fmha_cli.bench.measurement import Measurement
from fmha_cli.domain.rules import Reason
from fmha_cli.domain.verdict import Check, Comparison, Verdict
from fmha_cli.report.parts import KernelRow, stage_rows
from fmha_cli.report.record import Record
from tests.support.generators.report.samples import EXECUTED, FINDING, PLAN, kernel
from tests.support.generators.strategies import problems

numbers = st.floats(allow_nan=True, allow_infinity=True)
words = st.text('abc /:."|é\n', max_size=12)
natural = st.integers(0, 10**15)


@st.composite
def checks(draw: st.DrawFn, fill: str) -> Check:
    values = [draw(numbers) for _ in range(4)]
    return Check(
        row_l2=values[0],
        row_l2_budget=values[1],
        max_abs=values[2],
        max_abs_budget=values[3],
        nonfinite=draw(natural),
        rows=draw(natural),
        fill=fill,
        worst=draw(st.none() | words),
        column=draw(st.none() | natural),
        rms=draw(st.none() | numbers),
        rms_budget=draw(st.none() | numbers),
    )


@st.composite
def comparisons(draw: st.DrawFn) -> Comparison:
    fill = draw(st.sampled_from(["normal", "ties", "coded"]))
    outputs = draw(st.lists(st.sampled_from(["o", "lse", "dq", "dk", "dv", "dbias"]), unique=True))
    order = [name for name in ("o", "lse", "dq", "dk", "dv", "dbias") if name in outputs]
    return Comparison(
        checks=tuple((name, draw(checks(fill))) for name in order),
        distrust=draw(st.none() | words),
        notes=tuple(draw(st.lists(words, max_size=2))),
    )


@st.composite
def records(draw: st.DrawFn) -> Record:
    """Rows with random content, whether plausible or not."""
    problem = draw(problems())
    launches = st.lists(st.tuples(natural), min_size=1, max_size=8).map(tuple)
    measured = st.builds(Measurement, launches=launches, flops=natural, bytes=natural, threads=st.integers(0, 9))
    return Record(
        problem=problem.to_dict(),
        repro=f"fmha run {problem.repro()}",
        verdict=draw(st.sampled_from(Verdict)),
        backend=draw(st.none() | words),
        kernel=draw(st.none() | st.just(KernelRow.of(kernel()))),
        stages=draw(st.sampled_from([(), stage_rows(PLAN)])),
        comparisons=tuple(draw(st.lists(comparisons(), max_size=2))),
        measurement=draw(st.none() | measured),
        reasons=tuple(draw(st.lists(st.builds(Reason, words, words, st.none() | words), max_size=2))),
        regret=draw(st.none() | st.floats(0, 9)),
        regret_ci95=draw(st.none() | st.tuples(st.floats(-1, 0), st.floats(0, 9))),
        default_choice=draw(st.none() | st.booleans()),
        notes=tuple(draw(st.lists(words, max_size=2, unique=True))),
        log=draw(st.none() | words),
        findings=draw(st.sampled_from([None, (), (FINDING,)])),
        executed=draw(st.sampled_from([None, (), (EXECUTED,)])),
    )
