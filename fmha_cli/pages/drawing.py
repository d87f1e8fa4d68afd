"""The libraries that draw, which the extra ``report`` brings: Altair describes charts, vl-convert has Vega and makes SVG."""

from __future__ import annotations

from functools import cache
from typing import Any

from fmha_cli.domain.errors import EnvironmentProblem

HELP = "pip install 'fmha[report]'"


def check_libraries(where: str) -> None:
    """Refuse a page before any work if a library is missing.

    Args:
        where: the option or command that asks for it.

    Raises:
        EnvironmentProblem: X052.
    """
    try:
        import altair as alt  # noqa: F401 - is it here?
        import vl_convert  # noqa: F401
    except ImportError as fault:
        what = "pages and SVG files need Altair and vl-convert"
        raise EnvironmentProblem(what, code="X052", where=where, why=str(fault), help=HELP) from fault


@cache
def vega_bundle() -> str:
    """JavaScript of Vega, Vega-Lite and Vega-Embed, which sets ``window.vegaEmbed``; about 900 kB. Making it takes half a second."""
    import vl_convert

    return str(vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", vl_version=_version()))


def svg_of(spec: dict[str, Any], config: dict[str, Any]) -> str:
    """A Vega-Lite chart as SVG. Nothing is fetched.

    Raises:
        ValueError: not a chart.
    """
    import vl_convert

    drawn = vl_convert.vegalite_to_svg(spec, vl_version=_version(), config=config, allowed_base_urls=[])
    return str(drawn)


def _version() -> str:
    """The version of Vega-Lite that Altair writes, in the words of vl-convert: ``6.4``."""
    import altair as alt

    return ".".join(alt.SCHEMA_VERSION.removeprefix("v").split(".")[:2])
