"""Classes of instructions by their mnemonics; the patterns are data (``arch_specs/_instruction_classes.json``)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum

from fmha_cli.domain.arch import arch_document


class Isa(StrEnum):
    """The vendor whose mnemonics they are."""

    AMDGPU = "amdgpu"
    SASS = "sass"


def classes_of(isa: Isa) -> dict[str, re.Pattern[str]]:
    """Class -> the pattern that the beginning of its mnemonics matches, in the order of the data file.

    Raises:
        InternalError: the data file is damaged.
    """
    patterns = arch_document("_instruction_classes.json", "fmha.instruction-classes/1")[isa.value]
    return {name: re.compile(pattern) for name, pattern in patterns.items()}


def count_classes(counts: Mapping[str, int], isa: Isa) -> dict[str, int]:
    """Class -> number of instructions, from the counts of their mnemonics; one may be in several classes."""
    found = {name: pattern.match for name, pattern in classes_of(isa).items()}
    return {name: sum(n for mnemonic, n in counts.items() if match(mnemonic)) for name, match in found.items()}
