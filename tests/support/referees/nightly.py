"""The judge of the nightly comparison: pure functions over the documents of the commands and what a browser showed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

from fmha_cli.domain.encode import digest_of

Row = Mapping[str, Any]
Builds = Mapping[str, tuple[str, ...]]
"""The artifacts (SHA-256) that ran a problem, by the problem's key."""

WORSE = "worse"


@dataclass(frozen=True)
class Shown:
    """A page as a browser showed it.

    Attributes:
        name: its file.
        drawn: whether it says that all its plots are drawn.
        marks: drawn marks of the plot of the comparison.
        errors: of its console. requests: addresses that it asked for.
        verdicts: the words in the table of compared rows, in its order.
    """

    name: str
    drawn: bool
    marks: int
    errors: tuple[str, ...]
    requests: tuple[str, ...]
    verdicts: tuple[str, ...]


@dataclass(frozen=True)
class Judgement:
    """What the nightly comparison found.

    Attributes:
        planted: rows whose kernel was changed. found: those of them called slower.
        missed, alarms: planted rows that are not called slower, and untouched ones that are called slower or faster: the row,
            the word, and the ratio.
        verdicts: rows by word.
        faults: what makes the comparison worthless whatever it says.
    """

    planted: int
    untouched: int
    found: int
    missed: tuple[str, ...]
    alarms: tuple[str, ...]
    verdicts: Mapping[str, int]
    faults: tuple[str, ...]

    @property
    def passed(self) -> bool:
        return not (self.missed or self.alarms or self.faults)


def key_of(problem: Mapping[str, Any]) -> str:
    """The name of a problem in the judge's tables."""
    digest: str = digest_of(dict(problem))
    return digest[:16]


def builds_of(records: Iterable[Row]) -> dict[str, tuple[str, ...]]:
    """The artifacts of every good row."""
    good = (record for record in records if record["verdict"] == "PASSED")
    return {key_of(one["problem"]): tuple(stage["artifact_sha256"] for stage in one["stages"]) for one in good}


def judge(
    document: Row, rows: int, planted: Collection[str], before: Builds, after: Builds, pages: Iterable[Shown]
) -> Judgement:
    """Judge a comparison whose truth is known.

    Args:
        document: ``fmha.compare/1``.
        rows: how many were asked for.
        planted: keys of the rows whose kernel was to be changed.
        before, after: the artifacts of the rows that passed the check on either side.
        pages: the first one shows ``document``; others are only looked at.
    """
    found = {key_of(row["problem"]): row for row in document["rows"]}
    words = {key: _word(row) for key, row in found.items()}
    return Judgement(
        planted=len(planted),
        untouched=rows - len(planted),
        found=sum(words.get(key) == "slower" for key in planted),
        missed=tuple(_told(key, found) for key in sorted(planted) if words.get(key) != "slower"),
        alarms=tuple(_told(key, found) for key in found if key not in planted and words[key] in ("slower", "faster")),
        verdicts=dict(Counter(words.values())),
        faults=(
            *_of_rows(document, rows, planted, found),
            *_of_builds(planted, found, before, after),
            *_of_pages(document, tuple(pages)),
        ),
    )


def slow_downs(document: Row, planted: Collection[str]) -> dict[str, float]:
    """The least, the middle and the largest ratio of the planted rows."""
    ratios = [row["difference"]["ratio"] for row in document["rows"] if key_of(row["problem"]) in planted]
    known = [ratio for ratio in ratios if ratio is not None]
    return {"least": min(known), "median": median(known), "most": max(known)} if known else {}


def table(judgement: Judgement, facts: Mapping[str, Any], seconds: Mapping[str, float]) -> str:
    """What a person reads; ``facts`` as the job gives them, and the seconds of each step."""
    ratios = ", ".join(f"{name} {ratio:.3f}" for name, ratio in facts["slow_down"].items())
    lines = {
        "planted": facts["planted"],
        "planted rows": f"{judgement.planted}, found SLOWER {judgement.found}; ratio {ratios}",
        "untouched rows": f"{judgement.untouched}, false alarms {len(judgement.alarms)}",
        "verdicts": ", ".join(f"{count} {word}" for word, count in judgement.verdicts.items()),
        "pages": ", ".join(f"{page['name']}: {page['verdicts'].get('SLOWER', 0)} SLOWER" for page in facts["pages"]),
        "seconds": ", ".join(f"{name} {taken:.0f}" for name, taken in seconds.items()),
        "result": "PASSED" if judgement.passed else "FAILED",
    }
    told = [f"  {line}" for line in (*judgement.missed, *judgement.alarms, *judgement.faults)]
    return "\n".join([*(f"{name:15}{text}" for name, text in lines.items()), *told])


def _word(row: Row) -> str:
    return WORSE if row["worse"] else str(row["difference"]["speed"])


def _told(key: str, found: Mapping[str, Row]) -> str:
    row = found.get(key)
    if row is None:
        return f"{key}: not compared"
    problem, ratio = row["problem"], row["difference"]["ratio"]
    where = " ".join(f"{name}={problem[name]}" for name in ("dtype", "heads", "seqlen_q", "seqlen_k", "hdim"))
    return f"{where}: {_word(row)}" + ("" if ratio is None else f", ratio {ratio:.3f}")


def _of_rows(document: Row, rows: int, planted: Collection[str], found: Mapping[str, Row]) -> Iterable[str]:
    if len(document["rows"]) != rows or len(found) != rows:
        yield f"{len(found)} of {rows} rows were compared"
    for side in ("only_before", "only_after"):
        if document[side]:
            yield f"{len(document[side])} rows are {side.replace('_', ' ')}"
    if not document["interleaved"]:
        yield "the commands did not take turns"
    if not planted or len(planted) >= rows:
        yield f"{len(planted)} of {rows} rows are planted: there must be both kinds"
    for key, row in found.items():
        if row["worse"]:
            yield _told(key, found)


def _of_builds(planted: Collection[str], found: Mapping[str, Row], before: Builds, after: Builds) -> Iterable[str]:
    for key in found:
        one, other = before.get(key), after.get(key)
        if one is None or other is None:
            yield f"{_told(key, found)}; the row did not pass its check {'before' if one is None else 'after'} the change"
        elif key in planted and one == other:
            yield f"{_told(key, found)}; planted, but its kernel did not change"
        elif key not in planted and one != other:
            yield f"{_told(key, found)}; untouched, but its kernel changed"


def _of_pages(document: Row, pages: tuple[Shown, ...]) -> Iterable[str]:
    if not pages:
        yield "no page was opened"
    for page in pages:
        if not page.drawn or not page.marks:
            yield f"{page.name}: the plots are not drawn"
        yield from (f"{page.name}: {error}" for error in page.errors)
        yield from (f"{page.name} asked for {url}" for url in page.requests)
    for page in pages[:1]:
        if [shown.partition(" ")[0].lower() for shown in page.verdicts] != [_word(row) for row in document["rows"]]:
            yield f"{page.name}: its table has other verdicts than the comparison"
