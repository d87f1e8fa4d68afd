"""``Case``: one run of an upstream example program, as its settings.

Source of the options and their defaults: composable_kernel ``example/ck_tile/01_fmha/example_fmha_fwd.cpp`` and
``example_fmha_bwd.cpp``, ``create_args``, of the baseline revision.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType


class Program(StrEnum):
    """The two example programs."""

    FWD = "fwd"
    BWD = "bwd"

    @property
    def binary(self) -> str:
        """The file name of its executable."""
        return f"tile_example_fmha_{self.value}"


_COMMON = {
    "v": "1", "mode": "0", "b": "2", "h": "8", "h_k": "-1", "s": "3328", "s_k": "-1", "s_qpad": "-1", "s_kpad": "-1",
    "d": "128", "d_v": "-1", "iperm": "1", "operm": "1", "bias": "n", "prec": "fp16", "mask": "0", "kname": "0",
    "init": "uf", "seed": "11939", "p_drop": "0", "drop_seed": "1", "drop_offset": "0", "drop_prefs": "0",
    "timer": "gpu", "warmup": "5", "repeat": "20", "json": "0",
}  # fmt: skip

DEFAULTS: Mapping[Program, Mapping[str, str]] = MappingProxyType(
    {
        Program.FWD: MappingProxyType(
            {
                **_COMMON, "s_knew": "0", "scale_s": "0", "logits_soft_cap": "0", "squant": "auto", "vlayout": "r",
                "lse": "0", "rotary_dim": "0", "rotary_interleaved": "1", "num_splits": "1", "page_block_size": "0",
                "cache_batch_idx": "0", "jsonfile": "fmha_fwd.json", "q_eff_lens": "", "kv_eff_lens": "",
            }
        ),
        Program.BWD: MappingProxyType(
            {**_COMMON, "scale": "0", "dbias": "0", "deterministic": "0", "jsonfile": "fmha_bwd.json"}
        ),
    }
)  # fmt: skip
"""Program -> option -> default."""


@dataclass(frozen=True)
class Case:
    """One case: ``settings`` are the options that are given, in the order of the command line.

    ``name`` tells it from the other cases of its suite; ``group`` says which part of the suite it comes from.
    """

    name: str
    program: Program
    settings: Mapping[str, str] = field(hash=False)
    group: str = ""

    def value(self, option: str) -> str:
        """The value in force; ``""`` where the program has no such option."""
        return self.settings.get(option, DEFAULTS[self.program].get(option, ""))

    def number(self, option: str) -> int:
        """An integer option, read as the program reads it (``atoi``: what is no number counts as 0)."""
        values = self.numbers(option)
        return values[0] if values else 0

    def numbers(self, option: str) -> tuple[int, ...]:
        """A comma list of integers; empty where nothing is given."""
        text = self.value(option)
        return tuple(_atoi(part) for part in text.split(",")) if text else ()

    def real(self, option: str) -> float:
        """A number, 0 where the text is none."""
        try:
            return float(self.value(option))
        except ValueError:
            return 0.0

    def on(self, option: str) -> bool:
        """A switch: ``1``, ``t`` or ``true``."""
        text = self.value(option)
        return text in ("t", "true") or (text not in ("f", "false") and _atoi(text) != 0)

    def argv(self, **instead: str) -> tuple[str, ...]:
        """``-name=value`` for every setting; ``instead`` replaces values, and adds those that are not given."""
        return tuple(f"-{name}={value}" for name, value in {**self.settings, **instead}.items() if value)


def _atoi(text: str) -> int:
    text = text.strip()
    sign, digits = (text[:1], text[1:]) if text[:1] in ("+", "-") else ("", text)
    end = next((i for i, c in enumerate(digits) if not c.isdecimal()), len(digits))
    return int(sign + digits[:end]) if end else 0
