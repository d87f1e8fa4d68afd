"""The faults: what each wrong kernel does, and the problem on which it shows."""

from __future__ import annotations

from enum import StrEnum

from fmha_cli import api

SMALL = "-b 1 -H 4 --kv-heads 2 -s 40 --seqlen-k 72 -d 32 --mask window:24,4 --softcap 30 --lse --dtype fp16"
LONG = "-b 1 -H 2 -s 24 --seqlen-k 640 -d 128 --lse --dtype fp16"
BF16 = "-b 1 -H 2 -s 64 -d 32 --lse --dtype bf16"
MANY = "-b 1 -H 5 -s 2000 --seqlen-k 24 -d 8 --lse --dtype fp16"
"""10,000 rows."""


class Fault(StrEnum):
    """One planted fault."""

    NONE = "none"
    LAST_TILE = "last_tile"
    LAST_KEY = "last_key"
    HALF_TILE = "half_tile"
    WINDOW_EDGE = "window_edge"
    GQA_GROUP = "gqa_group"
    LSE_HEAD = "lse_head"
    LSE_ROW = "lse_row"
    SOFTCAP_TILE = "softcap_tile"
    FP16_QK = "fp16_qk"
    FP16_PV = "fp16_pv"
    ONE_ROW = "one_row"
    ONE_ELEMENT = "one_element"
    TRUNCATED_FP16 = "truncated_fp16"
    TRUNCATED_BF16 = "truncated_bf16"
    STALE_BUFFER = "stale_buffer"
    STALE_LAUNCH = "stale_launch"
    STALE_MODULE = "stale_module"
    SKIPS_LATER = "skips_later"
    SEVENS_LATER = "sevens_later"
    GUARD_LATER = "guard_later"
    INPUT_LATER = "input_later"
    LATE_THREAD = "late_thread"
    NO_TIME = "no_time"
    ONE_NS = "one_ns"
    SOME_ONE_NS = "some_one_ns"
    HUGE_TIME = "huge_time"
    NAN_TIME = "nan_time"
    NEGATIVE_TIME = "negative_time"
    HALF_TIME = "half_time"
    WAITS_BEFORE = "waits_before"
    GUARD_SAME_BITS = "guard_same_bits"
    HIDDEN_ORACLE = "hidden_oracle"

    @property
    def text(self) -> str:
        """The kernel's behaviour."""
        return _TEXTS[self]

    @property
    def problem(self) -> api.Problem:
        """The problem on which it does it."""
        return api.Problem.from_cli(_PROBLEMS.get(self, SMALL))


_PROBLEMS = {
    Fault.FP16_QK: LONG,
    Fault.FP16_PV: LONG,
    Fault.ONE_ROW: MANY,
    Fault.TRUNCATED_BF16: BF16,
}

_TEXTS = {
    Fault.NONE: "right",
    Fault.LAST_TILE: "drops the last tile of keys",
    Fault.LAST_KEY: "drops the last key",
    Fault.HALF_TILE: "drops half a tile of keys",
    Fault.WINDOW_EDGE: "window's left edge off by one",
    Fault.GQA_GROUP: "reads another group's K and V for one head",
    Fault.LSE_HEAD: "LSE off by ln 2 in one head",
    Fault.LSE_ROW: "LSE off by ln 2 in one row",
    Fault.SOFTCAP_TILE: "softcap skipped on one tile of keys",
    Fault.FP16_QK: "adds up QK in fp16",
    Fault.FP16_PV: "adds up PV in fp16",
    Fault.ONE_ROW: "one wrong row of 10,000",
    Fault.ONE_ELEMENT: "one wrong element",
    Fault.TRUNCATED_FP16: "truncates O to fp16 instead of rounding",
    Fault.TRUNCATED_BF16: "truncates O to bf16 instead of rounding",
    Fault.STALE_BUFFER: "copies its first result again, from a buffer",
    Fault.STALE_LAUNCH: "returns what it computed in the launch before",
    Fault.STALE_MODULE: "copies its first result again, in every session of the process",
    Fault.SKIPS_LATER: "skips all work after its first launch",
    Fault.SEVENS_LATER: "writes sevens after its first launch",
    Fault.GUARD_LATER: "writes one element behind O after its first launch",
    Fault.INPUT_LATER: "zeroes K after its first launch",
    Fault.LATE_THREAD: "leaves a thread that writes to O after the launch has returned",
    Fault.NO_TIME: "reports 0 ns",
    Fault.ONE_NS: "reports 1 ns",
    Fault.SOME_ONE_NS: "reports 1 ns for every third launch",
    Fault.HUGE_TIME: "reports 1e30 ns",
    Fault.NAN_TIME: "reports nan",
    Fault.NEGATIVE_TIME: "reports a negative time",
    Fault.HALF_TIME: "reports half of its time",
    Fault.WAITS_BEFORE: "waits before the timed part",
    Fault.GUARD_SAME_BITS: "rewrites a guard with the bits that it holds",
    Fault.HIDDEN_ORACLE: "asks an oracle of its own for the answer",
}
