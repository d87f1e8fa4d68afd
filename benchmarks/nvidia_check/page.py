"""The page of a check for ``results``: the system, what ran on it, and the figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from nvidia_check.results import NOT_RUN, Result
from nvidia_check.speed_points import GOAL
from nvidia_check.subjects import KNOWN

TITLES = {
    "cases": "Every family and feature, all fills",
    "random": "Random problems",
    "ceilings": "The machine's own ceilings",
    "speed": "Beside PyTorch",
    "decode": "Decoding, beside PyTorch",
    "sanitizer": "compute-sanitizer",
}
NAME = 120
"""Characters of a kernel's name: those of templates are long."""


def page(document: Mapping[str, Any], results: Sequence[Result]) -> str:
    """The page in Markdown. Rows that did not run are marked, with their reason."""
    return "\n".join(_lines(document, results)) + "\n"


def _lines(document: Mapping[str, Any], results: Sequence[Result]) -> Iterator[str]:
    device, notes = document["device"], document["notes"]
    yield "# Attention on an NVIDIA GPU"
    yield ""
    yield "What the check for NVIDIA GPUs found."
    yield ""
    yield from ("| | |", "|---|---|")
    where = "no NVIDIA GPU" if device is None else f"{device['name']} ({', '.join(device['archs'])})"
    yield f"| measured | {len(results)} rows in {document['seconds']:.0f} s |"
    yield f"| processor | {where} |"
    yield "| revision | that of the commit that records this page |"
    yield "| command | `PYTHONPATH=. python3 benchmarks/gpu_check.py --vendor nvidia --results results` |"
    yield "| data | [nvidia.json.xz](data/nvidia.json.xz) |"
    yield ""
    if device is None:
        yield "**NOT_RUN: there was no GPU.** The rest of this page shows what was checked without one."
        yield ""
    yield from _environment(notes)
    titles = {subject.backend: subject.title for subject in KNOWN}
    for backend in dict.fromkeys(r.backend for r in results):
        of = f"{titles.get(backend, backend)}: " if backend else ""
        for part, title in TITLES.items():
            mine = [r for r in results if (r.backend, r.part) == (backend, part)]
            if mine:
                yield f"## {of}{title[0].lower() if of else title[0]}{title[1:]}"
                yield ""
                raced = part in ("speed", "decode") and any(r.figures for r in mine)
                yield from _speeds(mine) if raced else _verdicts(mine)
                yield ""


def _environment(notes: Mapping[str, Any]) -> Iterator[str]:
    environment = notes.get("environment")
    if not environment:
        return
    versions = ", ".join(f"{name} {version}" for name, version in sorted(environment["versions"].items()))
    yield f"- Python {environment['python']}, {environment['cores']} cores; {versions}"
    yield from (f"- {line}" for line in environment["nvidia_smi"].splitlines())
    yield from (f"- {backend}: {found['text']}" for backend, found in notes.get("kernels", {}).items())
    if "archive" in notes:
        yield f"- the archive of kernels has {notes['archive']['bytes'] / 1e6:.1f} MB"
    yield ""


def _verdicts(results: Sequence[Result]) -> Iterator[str]:
    """Counts, and a line for everything that did not pass; equal reasons appear once."""
    counts = ", ".join(f"{n} {verdict}" for verdict, n in sorted(Counter(r.verdict for r in results).items()))
    used = max((r.used for r in results if r.used is not None), default=None)
    yield f"{len(results)} rows: {counts}." + (
        f" The largest share of an error budget that was used: {used:.0%}." if used else ""
    )
    for (verdict, why), n in Counter((r.verdict, r.why) for r in results if r.why).most_common():
        first = next(r.name for r in results if (r.verdict, r.why) == (verdict, why))
        yield f"- {first}{f' and {n - 1} more' if n > 1 else ''}: {verdict}: {why}"
    yield from (f"- {r.name}: {r.figures['line'].strip()}" for r in results if r.figures.get("line"))


def _speeds(results: Sequence[Result]) -> Iterator[str]:
    raced = [r for r in results if "ratio" in r.figures]
    met = sum(r.figures["goal_met"] for r in raced)
    yield f"PyTorch's time / ours; above 1 we are faster. At least {GOAL} is the goal: {met} of {len(raced)} points meet it."
    yield ""
    yield "| point | ours [us] | 95 % | PyTorch [us] | ours TFLOP/s | ours GB/s | ratio | 95 % | also [us] |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for r in raced:
        f = r.figures
        own, ratio = (_ends(f["ours_ci95"], 1e3, 1), _ends(f["ratio_ci95"], 1, 3))
        cells = (
            f"{f['ours_ns'] / 1e3:.1f}",
            own,
            f"{f['torch_ns'] / 1e3:.1f} {f['against']}",
            f"{f['tflops']:.0f}",
            f"{f['gbps']:.0f}",
        )
        also = ", ".join(f"{name} {_time(ns)}" for name, ns in f.get("beside", {}).items())
        yield f"| {r.name} | {' | '.join(cells)} | {f['ratio']:.3f} | {ratio} | {also} |"
    yield from _kernels(raced)
    rest = [r for r in results if r not in raced]
    if rest:
        yield ""
        yield from _verdicts(rest)
    if any(r.verdict not in ("PASSED", NOT_RUN) for r in results):
        yield ""
        yield "A point whose outputs differ from PyTorch's is no fair race: see its reason."


def _kernels(raced: Sequence[Result]) -> Iterator[str]:
    """The kernels that ran: our kernels' names in upstream next to the names that PyTorch's profiler recorded. Equal
    pairs appear once.
    """
    pairs: dict[tuple[str, str], list[str]] = {}
    for r in raced:
        sides = r.figures["kernels"]
        named = [name.partition("(")[0].removeprefix("void ")[:NAME] for name in sides["torch"]]
        pair = (", ".join(map(str, sides["ours"])), ", ".join(named) or "named by no profiler")
        pairs.setdefault(pair, []).append(r.name)
    if pairs:
        yield ""
        yield "| our kernels | PyTorch's, by its profiler | points |"
        yield "|---|---|---|"
    for (ours, theirs), names in pairs.items():
        yield f"| {ours} | {theirs} | {names[0]}{f' and {len(names) - 1} more' if len(names) > 1 else ''} |"


def _time(found: float | str) -> str:
    return "cannot" if isinstance(found, str) else f"{found / 1e3:.1f}"


def _ends(interval: Sequence[float] | None, unit: float, digits: int) -> str:
    return "" if not interval else "-".join(f"{end / unit:.{digits}f}" for end in interval)
