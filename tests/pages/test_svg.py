"""SVG files: one for each plot, whole, with what they refer to."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

import pytest

from fmha_cli.domain.problem import Problem
from fmha_cli.pages.content import PageContent
from fmha_cli.pages.svg import svg_files
from tests.support.generators.page_contents import HOSTILE, bare_content, timed


@pytest.mark.slow
@pytest.mark.ci
def test_each_plot_is_a_file_that_needs_nothing_else(whole: PageContent) -> None:
    files = dict(svg_files(whole))
    assert sorted(files) == [
        "compare.svg",
        "history.svg",
        "regret.svg",
        "roofline.svg",
        "samples.svg",
        "throughput.svg",
        "verdicts.svg",
    ]
    for text in files.values():
        ET.fromstring(text)
        assert set(re.findall(r"https?://[^\"' )]+", text)) <= {
            "http://www.w3.org/2000/svg",
            "http://www.w3.org/1999/xlink",
        }
        for name in re.findall(r"url\(#([\w-]+)\)", text):
            assert f'id="{name}"' in text


def test_plots_without_data_have_no_file_and_hostile_texts_stay_texts() -> None:
    files = dict(svg_files(bare_content(timed(Problem.of(dtype="fp32"), HOSTILE))))
    assert sorted(files) == ["roofline.svg", "samples.svg", "throughput.svg", "verdicts.svg"]
    for text in files.values():
        assert not [one for one in ET.fromstring(text).iter() if one.tag.endswith("script")]
