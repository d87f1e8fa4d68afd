"""The page: one HTML file that fetches nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from html import escape
from importlib import resources
from string import Template

from fmha_cli import __version__
from fmha_cli.pages.content import PageContent
from fmha_cli.pages.drawing import vega_bundle
from fmha_cli.pages.facts import facts, untimed
from fmha_cli.pages.packing import packed, script_text
from fmha_cli.pages.plot import Plot
from fmha_cli.pages.plots import forest, history, regret, roofline, samples, throughput, verdicts
from fmha_cli.pages.rows import rows_of
from fmha_cli.pages.tables import PageTable, tables
from fmha_cli.pages.theme import DARK, HATCH_PATTERN, LIGHT
from fmha_cli.report.documents.report import summary
from fmha_cli.report.escaping import cleaned, escaped
from fmha_cli.report.lines import counted

POLICY = "default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval'; style-src 'unsafe-inline'; img-src data: blob:"
"""Even a text that became code could fetch nothing. Vega makes functions of the expressions in charts (``unsafe-eval``)."""

_PLOTS = (throughput, roofline, regret, history, forest, samples, verdicts)


def plots(content: PageContent) -> tuple[Plot, ...]:
    """The seven plots, in the order of the page; the comparison comes first if there is one."""
    found = [_cleaned(module.plot(content)) for module in _PLOTS]
    return tuple(sorted(found, key=lambda plot: content.comparison is None or plot.id != forest.ID))


def _cleaned(plot: Plot) -> Plot:
    """A plot without control characters, for which SVG has no place; in charts and data alike, which must agree."""
    panels = tuple(replace(panel, title=escaped(panel.title), spec=cleaned(panel.spec)) for panel in plot.panels)
    return replace(plot, panels=panels, data=cleaned(plot.data))


def page(content: PageContent) -> str:
    """The page as text. NaN, infinity and markup in its data do no harm."""
    drawn, listed = plots(content), tables(content)
    return Template(_part("page.html")).substitute(
        policy=POLICY,
        version=_html(__version__),
        title=_html(content.title),
        css=_part("page.css"),
        hatch=HATCH_PATTERN,
        summary=_html(_summary(content)),
        links=" ".join(f'<a href="#{id}">{_html(title)}</a>' for id, title in _sections(drawn, listed)),
        sections="\n".join((*map(_plot, drawn), *map(_table, listed), _untimed(content), _environment(content))),
        data=script_text(_data(content, drawn, listed)),
        bundle=vega_bundle().replace("</script", "<\\/script"),
        script=_part("page.js"),
    )


def _part(name: str) -> str:
    return resources.files("fmha_cli.pages").joinpath(name).read_text("utf-8").rstrip()


def _html(text: str) -> str:
    """Text for an element or an attribute; control characters in it are shown."""
    return escape(escaped(text))


def _data(content: PageContent, drawn: Sequence[Plot], listed: Sequence[PageTable]) -> dict[str, object]:
    return {
        "rows": packed(cleaned(rows_of(content.records, content.run_of))),
        "plots": [
            {
                "id": plot.id,
                "panels": [panel.spec for panel in plot.panels],
                "data": {name: packed(rows) for name, rows in plot.data.items()},
                "signal": None if plot.chooser is None else plot.chooser.signal,
            }
            for plot in drawn
        ],
        "tables": [table.packed() for table in listed],
        "light": LIGHT,
        "dark": DARK,
    }


def _summary(content: PageContent) -> str:
    names = ", ".join(dict.fromkeys(run.name for run in content.runs))
    return f"{counted(len(content.runs), 'run')} ({names}), {summary(content.records)}. fmha {__version__}."


def _sections(drawn: Iterable[Plot], listed: Iterable[PageTable]) -> Iterable[tuple[str, str]]:
    yield from ((plot.id, plot.title) for plot in drawn)
    yield from ((table.id, table.title) for table in listed)
    yield from (("untimed", "Rows without a time"), ("environment", "Environment"))


def _section(id: str, title: str, *parts: str) -> str:
    inner = "\n".join(filter(None, parts))
    return f'<section id="{id}">\n<h2>{_html(title)}</h2>\n{inner}\n</section>'


def _plot(plot: Plot) -> str:
    if plot.missing is not None:
        caption = f'<p class="soft">{_html(plot.caption)}</p>' if plot.caption else ""
        return _section(plot.id, plot.title, caption, f'<p class="missing">{_html(plot.missing)}</p>')
    panels = "\n".join(
        f'<div class="panel">{f"<h3>{_html(panel.title)}</h3>" if panel.title else ""}'
        f'<div class="wide"><div class="chart" id="{plot.id}-{number}" style="min-height:{panel.height}px;min-width:{panel.least}px">'
        "</div></div></div>"
        for number, panel in enumerate(plot.panels)
    )
    notes = "".join(f'<p class="soft">{_html(note)}</p>' for note in plot.notes)
    caption = f'<p class="soft">{_html(plot.caption)}</p>'
    return _section(plot.id, plot.title, caption, _chooser(plot), f'<div class="panels">\n{panels}\n</div>', notes)


def _chooser(plot: Plot) -> str:
    if plot.chooser is None:
        return ""
    options = "".join(
        f'<option value="{value}">{_html(words)}</option>' for value, words in plot.chooser.options.items()
    )
    return f'<label>{_html(plot.chooser.title)} <select data-signal="{plot.chooser.signal}">{options}</select></label>'


def _table(table: PageTable) -> str:
    notes = "".join(f"<li>{_html(note)}</li>" for note in table.notes)
    return _section(
        table.id,
        table.title,
        f'<p class="soft">{_html(table.summary)}. A header sorts, upwards and then downwards.</p>',
        '<label>filter <input type="search" placeholder="words, all of which a row must have"> <output></output></label>',
        '<div class="scroll" tabindex="0"><table></table></div>',
        f'<ul class="notes">{notes}</ul>' if notes else "",
    )


def _untimed(content: PageContent) -> str:
    lines = "".join(f"<li>{_html(line)}</li>" for line in untimed(content))
    return _section(
        "untimed",
        "Rows without a time",
        f'<ul class="notes">{lines}</ul>' if lines else '<p class="missing">Every row has a time.</p>',
    )


def _environment(content: PageContent) -> str:
    lists = "".join(
        f"<h3>{_html(name)}</h3><dl>{''.join(f'<dt>{_html(what)}</dt><dd>{_html(value)}</dd>' for what, value in known)}</dl>"
        for name, known in facts(content)
    )
    return _section("environment", "Environment", lists)
