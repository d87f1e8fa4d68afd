"""The facts are what upstream's templates and generator say, read again from its sources."""

from __future__ import annotations

from pathlib import Path

import pytest

from fmha_cli.backends.flash_attn_3.catalogue import FAMILIES
from fmha_cli.backends.flash_attn_3.upstream import UPSTREAM
from fmha_cli.codegen.flash_attn_3.facts import document
from tests.support.referees.flash_attn_3.program import sources_or_skip
from tests.support.referees.flash_attn_3.tables import FACTS, tables, text_of


@pytest.mark.slow
@pytest.mark.ci
def test_the_tables_are_those_of_upstreams_sources(shared_cache: Path) -> None:
    found = tables(sources_or_skip(shared_cache))
    assert {key: document()[key] for key in found} == found


def test_the_compiles_of_every_family_were_measured() -> None:
    for family in FAMILIES:
        least, most = UPSTREAM.compile_seconds(family)
        assert 1 < least < most < 120
    assert set(document()["compile seconds"]) == {"source", *(family.value for family in FAMILIES)}


def test_the_file_is_as_its_writer_writes_it() -> None:
    assert FACTS.read_text("utf-8") == text_of(document())
