"""The exact test compared with all splits of small samples and with SciPy; the correction compared with SciPy and its definition."""

from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fmha_cli.bench.ranks import FEWEST_PROCESSES, adjusted, fewest_processes, holm, smallest_p, two_sided

small = st.lists(st.integers(0, 6).map(float), min_size=1, max_size=5)
"""Few different values, so ties are common."""


def by_counting(a: list[float], b: list[float]) -> float:
    """The definition: the share of splits whose U is as far in one tail, doubled."""

    def u(mine: list[float], other: list[float]) -> float:
        return sum((x > y) + (x == y) / 2 for x in mine for y in other)

    values, found = a + b, u(a, b)
    splits = []
    for chosen in itertools.combinations(range(len(values)), len(a)):
        mine = [values[i] for i in chosen]
        splits.append(u(mine, [values[i] for i in range(len(values)) if i not in chosen]))
    low = sum(one <= found for one in splits) / len(splits)
    high = sum(one >= found for one in splits) / len(splits)
    return min(1.0, 2 * min(low, high))


@pytest.mark.promise("Two runs differ only where enough processes say so, beyond tolerance, noise and chance.")
@settings(deadline=None)
@given(small, small)
def test_the_test_counts_splits(a: list[float], b: list[float]) -> None:
    assert two_sided(a, b) == pytest.approx(by_counting(a, b))


@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.parametrize("sides", [(5, 5), (8, 8), (12, 12), (3, 20), (40, 30)])
def test_the_exact_test_is_scipys(sides: tuple[int, int]) -> None:
    stats = pytest.importorskip("scipy.stats", reason="SciPy of the extra test is not installed")
    draw = random.Random(sum(sides))
    for shift in (0.0, 0.5, 2.0):
        a, b = ([draw.gauss(at, 1) for _ in range(n)] for at, n in zip((0, shift), sides, strict=True))
        expected = stats.mannwhitneyu(a, b, alternative="two-sided", method="exact").pvalue
        assert two_sided(a, b) == pytest.approx(expected, rel=1e-9)


def test_the_approximation_is_scipys() -> None:
    stats = pytest.importorskip("scipy.stats", reason="SciPy of the extra test is not installed")
    draw = random.Random(1)
    for shift in (0, 1):
        a, b = ([float(draw.randrange(50) + at) for _ in range(n)] for at, n in ((0, 150), (shift, 120)))
        assert two_sided(a, b) == pytest.approx(stats.mannwhitneyu(a, b, method="asymptotic").pvalue, rel=1e-6)


def test_the_approximation_continues_the_exact_test() -> None:
    draw = random.Random(2)
    values = [draw.gauss(0, 1) for _ in range(202)]
    exact = two_sided([v + 0.3 for v in values[:99]], values[101:200])
    near = two_sided([v + 0.3 for v in values[:100]], values[101:202])
    assert 0.3 < exact / near < 3


def test_all_values_alike_differ_by_nothing() -> None:
    assert two_sided([1.0] * 8, [1.0] * 8) == 1
    assert two_sided([1.0] * 150, [1.0] * 150) == 1


def test_no_values_are_no_side() -> None:
    with pytest.raises(ValueError, match="no values"):
        two_sided([], [1.0])


def by_definition(p_values: list[float], alpha: float) -> set[int]:
    """Benjamini and Hochberg's rule: the largest k so that the k-th smallest p is at most k alpha / m."""
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    largest = max((k for k, i in enumerate(order, 1) if p_values[i] <= k * alpha / len(order)), default=0)
    return set(order[:largest])


@given(st.lists(st.floats(1e-6, 1), min_size=1, max_size=30), st.sampled_from([0.01, 0.05, 0.2]))
def test_the_correction_is_its_definition(p_values: list[float], alpha: float) -> None:
    found = {i for i, p in enumerate(adjusted(p_values)) if p <= alpha * (1 + 1e-12)}
    assert found >= by_definition(p_values, alpha)
    assert all(
        p_values[i] >= 0 and adjusted(p_values)[i] == pytest.approx(alpha)
        for i in found - by_definition(p_values, alpha)
    )


def test_the_correction_is_scipys() -> None:
    stats = pytest.importorskip("scipy.stats", reason="SciPy of the extra test is not installed")
    draw = random.Random(3)
    p_values = [draw.random() ** 3 for _ in range(100)]
    assert adjusted(p_values) == pytest.approx(list(stats.false_discovery_control(p_values)))


def test_one_row_is_not_corrected() -> None:
    for correct in (adjusted, holm):
        assert correct([0.04]) == (0.04,)
        assert correct([]) == ()


def by_holm(p_values: list[float], alpha: float) -> set[int]:
    """Holm's rule: from the smallest p on, as long as the k-th is at most alpha / (m - k + 1)."""
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    found = set()
    for k, i in enumerate(order, 1):
        if p_values[i] > alpha / (len(order) - k + 1):
            break
        found.add(i)
    return found


P_VALUES = st.lists(st.floats(1e-6, 1), min_size=1, max_size=30)


@pytest.mark.promise("The chance that any row is wrongly called slower or faster is at most `--alpha`.")
@given(P_VALUES, st.sampled_from([0.01, 0.05, 0.2]))
def test_holms_correction_is_its_definition(p_values: list[float], alpha: float) -> None:
    corrected = holm(p_values)
    near = {
        i for i, p in enumerate(corrected) if p == pytest.approx(alpha)
    }  # the quotient and the product may round apart
    found = {i for i, p in enumerate(corrected) if p <= alpha}
    assert found - near <= by_holm(p_values, alpha) <= found | near


@given(P_VALUES)
def test_holm_lies_between_no_correction_for_a_share_and_bonferroni(p_values: list[float]) -> None:
    count = len(p_values)
    for p, share, anyone in zip(p_values, adjusted(p_values), holm(p_values), strict=True):
        assert p <= share * (1 + 1e-12)
        assert share <= anyone * (1 + 1e-12)
        assert anyone <= min(1.0, p * count) * (1 + 1e-12)


@pytest.mark.promise("The chance that any row is wrongly called slower or faster is at most `--alpha`.")
@pytest.mark.parametrize("slower", [0, 15, 150])
def test_the_chance_of_any_false_one_is_alpha_however_many_rows_are_slower(slower: int) -> None:
    """Twenty untouched rows next to others that are surely slower. A share lets some of the twenty through once many
    are.
    """
    draw, nights, alpha = random.Random(slower), 1000, 0.05
    alarms = {holm: 0, adjusted: 0}
    for _ in range(nights):
        p_values = [*[1e-6] * slower, *[draw.random() for _ in range(20)]]
        for correct in alarms:
            alarms[correct] += any(p <= alpha for p in correct(p_values)[slower:])
    assert alarms[holm] / nights <= alpha + 0.02
    if slower == 150:
        assert alarms[adjusted] / nights > 0.4


@pytest.mark.parametrize(("rows", "fewest"), [(1, 5), (6, 5), (7, 6), (321, 8), (322, 9), (1215, 9), (1216, 10)])
def test_many_rows_need_many_processes(rows: int, fewest: int) -> None:
    """With 8 processes a side nothing survives the correction above 321 rows."""
    assert fewest_processes(rows) == fewest


def test_the_fewest_processes_are_enough_and_one_less_is_not() -> None:
    for rows in (1, 30, 300, 10_000):
        count = fewest_processes(rows)
        apart = two_sided([float(i) for i in range(count)], [float(i + count) for i in range(count)])
        assert apart == pytest.approx(smallest_p(count, count))
        assert adjusted([apart, *[1.0] * (rows - 1)])[0] <= 0.05
        assert count == FEWEST_PROCESSES or smallest_p(count - 1, count - 1) * rows > 0.05
