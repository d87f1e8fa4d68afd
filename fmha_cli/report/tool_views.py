"""Tables of the documents about the installation: doctor, devices, plugins, archs, profiles, sources, build, cache."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

from fmha_cli.report.kernel_views import SHORT
from fmha_cli.report.table import Table
from fmha_cli.report.units import cell, duration, size

Document = Mapping[str, Any]


def counted(count: int, word: str) -> str:
    """``1 device``, ``2 devices``."""
    return f"{count} {word}" if count == 1 else f"{count} {word[:-1] + 'ies' if word.endswith('y') else word + 's'}"


def doctor_view(document: Document) -> Table:
    """One line a check; why and help below."""
    rows = [[c["state"], c["name"], c["subject"], c["what"], duration(c["time_ns"])] for c in document["checks"]]
    details = [
        f"  {check['name']} {check['subject']}: {text}"
        for check in document["checks"]
        for text in (check["why"], f"help: {check['help']}" if check["help"] else None)
        if text
    ]
    states = [check["state"] for check in document["checks"]]
    tally = ", ".join(f"{states.count(state)} {state}" for state in dict.fromkeys(states))
    return Table(
        ["state", "check", "subject", "finding", "time"], rows, f"{counted(len(rows), 'check')}: {tally}", details
    )


def devices_view(document: Document) -> Table:
    """One line a device and backend; backends without one below."""
    rows = [
        [
            d["id"],
            d["backend"],
            d["name"],
            " ".join(d["archs"]),
            str(d["units"]),
            size(d["memory_bytes"]),
            size(d["llc_bytes"]),
        ]
        for d in document["devices"]
    ]
    details = [
        f"  {name}: {found['state']}"
        + (f": {found['why']}" if found["why"] else "")
        + (f" (help: {found['help']})" if found["help"] else "")
        for name, found in document["backends"].items()
        if found["state"] != "ok"
    ]
    headers = ["device", "backend", "name", "archs", "units", "memory", "last-level cache"]
    return Table(headers, rows, counted(len(rows), "device"), details, frozenset(["units"])).narrowed(["device"])


_BROUGHT = ("backends", "emulators", "archs", "commands", "fills")


def plugins_view(document: Document) -> Table:
    """One line a plugin; faults below."""
    rows, details = [], []
    for plugin in document["plugins"]:
        origin = (
            "built in" if plugin["builtin"] else " ".join(filter(None, (plugin["distribution"], plugin["version"])))
        )
        brought = [f"{kind} {' '.join(plugin[kind])}" for kind in _BROUGHT if plugin[kind]]
        rows.append([plugin["name"], plugin["state"], origin, "; ".join(brought)])
        details += [f"  {plugin['name']}: {f['what']} (help: {f['help']})" for f in plugin["faults"]]
    return Table(["plugin", "state", "from", "brings"], rows, counted(len(rows), "plugin"), details)


def archs_view(document: Document) -> Table:
    """One line an architecture."""
    rows = [
        [a["name"], a["vendor"], a["title"], " ".join(a["backends"]), cell(a["kernels"])] for a in document["archs"]
    ]
    headers = ["arch", "vendor", "title", "backends", "kernels"]
    return Table(headers, rows, counted(len(rows), "architecture"), (), frozenset(["kernels"])).narrowed()


def profiles_view(document: Document) -> Table:
    """One line a profile."""
    rows = [
        [p["name"], " ".join(p["aliases"]), p["backend"], p["title"], " ".join(p["archs"]), cell(p["kernels"])]
        for p in document["profiles"]
    ]
    headers = ["profile", "aliases", "backend", "title", "archs", "kernels"]
    return Table(headers, rows, counted(len(rows), "profile"), (), frozenset(["kernels"])).narrowed()


def sources_view(document: Document) -> Table:
    """One line a source tree; the Composable Kernel in force below."""
    rows = [
        [s["name"], s["revision"], s["state"], cell(s["license"]), size(s["bytes"]), cell(s["path"] or s["file"])]
        for s in document["sources"]
    ]
    details = [f"  {s['name']}: {s['why']}" for s in document["sources"] if s["why"]]
    if ck := document["ck"]:
        which = f"{ck['revision']} from {ck['origin']}, headers in {ck['include']}" if ck["include"] else ck["state"]
        details += [f"  Composable Kernel: {which}", *(f"  note: {note}" for note in ck["notes"])]
        details += [f"  {label}: {ck[key]}" for label, key in (("why", "why"), ("help", "help")) if ck[key]]
    headers = ["source", "revision", "state", "license", "size", "where"]
    return Table(headers, rows, counted(len(rows), "source"), details).narrowed()


_MOST_DIGESTS = 4


def build_view(document: Document) -> Table:
    """One line a kernel; below, each error once with the kernels that it stands for."""
    rows = []
    errors: dict[tuple[str, ...], list[str]] = {}
    for build in document["builds"]:
        artifact, kernel, error = build["artifact"], build["kernel"], build["error"]
        took = "" if error else duration(artifact["build_ns"])
        named = kernel["upstream_name"] or ""
        rows.append(
            [kernel["digest"][:SHORT], kernel["family"], build["backend"], build["arch"], build["state"], took, named]
        )
        if error:
            what = error["what"].replace(kernel["name"], "this kernel")
            parts = (f"error[{error['code']}]: {what}", error["where"], error["why"], error["help"])
            own = (kernel["name"], kernel["digest"])
            general = tuple(part for part in parts if part and part not in own)
            errors.setdefault(general, []).append(kernel["digest"][:SHORT])
    brought = Counter(by for b in document["builds"] if b["artifact"] and (by := b["artifact"]["prebuilt_by"]))
    details = [f"  {counted(n, 'kernel')} prebuilt by {by}" for by, n in sorted(brought.items())]
    for lines, digests in errors.items():
        who = " ".join(digests[:_MOST_DIGESTS]) + (
            f" and {len(digests) - _MOST_DIGESTS} more" if len(digests) > _MOST_DIGESTS else ""
        )
        details += [f"  {who}: {line}" for line in lines]
    states = ("compiled", "cached", "failed", "refused", "not_run")
    shown = [key for key in states if document[key] or key in states[:3]]
    tally = ", ".join(f"{document[key]} {key.replace('_', ' ')}" for key in shown)
    headers = ["digest", "family", "backend", "arch", "state", "build time", "upstream name"]
    return Table(headers, rows, f"{counted(len(rows), 'kernel')}: {tally}", details).narrowed(["build time"])


def cache_view(document: Document) -> Table:
    """The entries, or the figures of what an action did."""
    action = document["action"]
    if action == "ls":
        return _entries(document, counted(document["count"], "entry") + f", {size(document['bytes'])}")
    figures = document[action]
    if action == "prune":
        return _entries(
            document,
            f"{counted(document['count'], 'entry')} and {counted(len(figures['others']), 'leftover')}: {size(figures['freed_bytes'])} freed",
        )
    rows = [[_label(key), _figure(key, value)] for key, value in figures.items() if not _listed(value)]
    details = [f"  {key}: {line}" for key, value in figures.items() if _listed(value) for line in _lines(value)]
    return Table([action, "value"], rows, f"cache: {document['root']}", details)


def _entries(document: Document, summary: str) -> Table:
    rows = [
        [
            e["digest"][:SHORT],
            cell(e["kernel"]),
            cell(e["toolchain"]),
            size(e["bytes"]),
            duration(e["build_ns"]),
            _date(e["used_ns"]),
            "; ".join(e["damage"]),
        ]
        for e in document["entries"]
    ]
    headers = ["digest", "kernel", "toolchain", "size", "build time", "last used (UTC)", "damage"]
    return Table(headers, rows, f"{summary} in {document['root']}").narrowed()


def _listed(value: Any) -> bool:
    return isinstance(value, list) and any(isinstance(item, Mapping | str) for item in value)


def _lines(values: list[Any]) -> list[str]:
    return [cell(dict(value)) if isinstance(value, Mapping) else str(value) for value in values]


def _label(key: str) -> str:
    return key.removesuffix("_ns").replace("_bytes", " size").replace("_", " ")


def _figure(key: str, value: Any) -> str:
    if key.endswith("bytes"):
        return size(value)
    if key in ("oldest_ns", "newest_ns"):
        return _date(value)
    return duration(value) if key.endswith("_ns") else cell(value)


def _date(nanoseconds: int | None) -> str:
    if not nanoseconds:
        return ""
    return datetime.fromtimestamp(nanoseconds / 1e9, UTC).strftime("%Y-%m-%d %H:%M")


VIEWS: Mapping[str, Callable[[Document], Table]] = MappingProxyType(
    {
        "archs": archs_view,
        "build": build_view,
        "cache": cache_view,
        "devices": devices_view,
        "doctor": doctor_view,
        "plugins": plugins_view,
        "profiles": profiles_view,
        "sources": sources_view,
    }
)
"""Schema name -> view."""
