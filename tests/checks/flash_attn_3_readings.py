"""What reading the PTX says of faults of order that nothing caught (``flash_attn_3_faults.py``), by kernel and line.

The lines are those of NVRTC 13.0.88. Another compiler's text has other lines, and then no reading.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.support.planted.outcomes import EXPLAINED, Caught

ONE_BLOCK = "the cluster has one block, whose threads bar.sync orders; no other block sees the mbarriers"
FEWER = "PTX has no numbers of registers: ptxas would give these warps fewer"
UNUSED = "keys are appended through this mbarrier, and this kernel appends none"
LAST = "a block has one tile: nobody waits for what this arrival says"
FIRST = "the first pass through the stages: the slot is empty, and its mbarrier lets everybody pass"

READINGS = {
    "forward d64 causal": {354: ONE_BLOCK, 524: ONE_BLOCK, 424: UNUSED, 532: FEWER, 4818: LAST, 6004: FIRST,
                           1950: "the phase is over when it is asked for, in all orders tried, so the loop in line 1962 waits for it rightly"},
    "forward d64 pages by cp.async": {254: ONE_BLOCK, 425: ONE_BLOCK, 326: UNUSED, 432: FEWER},
    "forward d64 packed": {350: ONE_BLOCK, 520: ONE_BLOCK, 420: UNUSED, 528: FEWER, 4546: LAST},
    "backward d128 causal": {248: ONE_BLOCK, 267: FEWER, 3933: FIRST, 4274: "the last tile of rows: nobody waits for its sums to be stored",
                             3172: "all of its threads take the other number, and no other barrier has it",
                             4232: "the last tile of rows: nobody writes this shared memory again"},
    "combine d64": {412: "a word's writer and its readers are lanes of one warp, between which no race is looked for"},
}  # fmt: skip


def reading(row: Mapping[str, Any]) -> str:
    """What reading says of a fault that is executed and not caught; empty for the others."""
    if row["caught"] not in EXPLAINED or row["caught"] == Caught.NEVER_EXECUTED:
        return ""
    return READINGS.get(row["kernel"], {}).get(row["line"], "")
