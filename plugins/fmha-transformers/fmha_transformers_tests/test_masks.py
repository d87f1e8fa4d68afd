"""Masks as flags: they leave exactly the keys of the mask, whatever function of transformers made it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from random import Random
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (extra: peers)")
os.environ["HF_HUB_OFFLINE"] = "1"
pytest.importorskip("transformers", reason="transformers is not installed (extra: peers)")
pytest.importorskip("fmha_transformers", reason="plugins/fmha-transformers is not installed")

from fmha_transformers import masks  # noqa: E402 - transformers may not be installed
from fmha_transformers.masks import FlagMask, flags_of, mask_of  # noqa: E402
from transformers import masking_utils as hf  # noqa: E402

from fmha_cli.domain.mask import Align, Mask  # noqa: E402

Tensor = Any


def left_visible(flags: Mapping[str, Any], batch: int, rows: int, keys: int) -> Tensor:
    """The keys that the flags of an operator leave, by the program's own definition of masks: (batch, rows, keys)."""
    left, right = flags.get("window", (-1, -1))
    mask = Mask.make(Align.BOTTOM_RIGHT, left if left >= 0 else None, right if right >= 0 else None)
    mask = Mask.make(Align.TOP_LEFT, None, 0) if flags.get("is_causal") else mask
    out = torch.zeros(batch, rows, keys, dtype=torch.bool)
    if "packed" in flags:
        first = 0
        for n in flags["packed"]:
            at = torch.arange(n)
            out[0, first : first + n, first : first + n] = mask.visible(at[:, None], at, n, n)
            first += n
        return out
    starts, lengths = flags.get("key_starts", [0] * batch), flags.get("key_lengths", [keys] * batch)
    for b, (start, n) in enumerate(zip(starts, lengths, strict=True)):
        out[b, :, start : start + n] = mask.visible(torch.arange(rows)[:, None], torch.arange(n), rows, n)
    return out


def check(mask: Tensor, right: Tensor) -> None:
    """A mask of ours against the booleans of transformers."""
    if not isinstance(mask, FlagMask):
        assert torch.equal(mask == 0, right)
        assert torch.equal(torch.isinf(mask), ~right)
        return
    ranges = mask.ranges
    batch, _, rows, keys = right.shape
    assert torch.equal(ranges.visible(), right)
    whole = torch.zeros(batch, rows, keys, dtype=torch.bool)
    width = ranges.end - ranges.first
    whole[:, :, ranges.first : ranges.end] = left_visible(ranges.flags, batch, rows, width)
    assert torch.equal(whole[:, None], right)


def packed_positions(rng: Random, rows: int) -> Tensor:
    cuts = sorted(rng.sample(range(1, rows), min(rows - 1, rng.randint(0, 3))))
    return torch.cat([torch.arange(b - a) for a, b in zip((0, *cuts), (*cuts, rows), strict=True)])[None]


def drawn(seed: int) -> dict[str, Any]:
    """Arguments as transformers calls a mask function: causal, windowed, packed or not, with caches and pads."""
    rng = Random(seed)
    batch, rows, past = rng.choice([1, 1, 2, 3]), rng.choice([1, 2, 5, 9]), rng.choice([0, 0, 3, 8])
    room = rng.choice([0, 0, 4])
    window = rng.randint(1, 7)
    functions: list[Callable[..., Any]] = [
        hf.causal_mask_function,
        hf.bidirectional_mask_function,
        hf.sliding_window_causal_mask_function(window),
        hf.sliding_window_bidirectional_mask_function(window),
        hf.chunked_causal_mask_function(window, torch.zeros(batch, dtype=torch.int64)),
    ]
    function, keys, pads = rng.choice(functions), past + rows + room, None
    if rng.random() < 0.3 and not past and not room:
        positions = packed_positions(rng, rows).expand(batch, -1)
        packed = hf.find_packed_sequence_indices(positions)
        if packed is not None:
            function = hf.remap_positions_for_packed_sequence(function, positions)
            function = hf.and_masks(function, hf.packed_sequence_mask_function(packed))
    elif rng.random() < 0.6:
        pads = torch.ones(batch, past + rows, dtype=torch.bool)
        for b in range(batch):
            n = rng.randint(0, past + rows - 1)
            where = slice(n) if rng.random() < 0.7 else slice(past + rows - n, None)
            pads[b, where] = False
        if rng.random() < 0.1:
            pads[0, rng.randrange(past + rows)] = False
    return {
        "batch_size": batch,
        "q_length": rows,
        "kv_length": keys,
        "q_offset": past,
        "mask_function": function,
        "attention_mask": pads,
    }


def test_a_thousand_masks_leave_the_keys_of_transformers() -> None:
    flagged = 0
    for seed in range(1000):
        given = drawn(seed)
        mask = mask_of(**given)
        check(mask, hf.sdpa_mask(**given, allow_is_causal_skip=False))
        flagged += isinstance(mask, FlagMask)
    assert flagged > 600


PADS = torch.tensor([[0] * 3 + [1] * 7, [1] * 10]).bool()
WINDOW = hf.sliding_window_causal_mask_function(4)
FORMS: dict[str, tuple[dict[str, Any], Any]] = {
    "causal": ({}, {"window": (-1, 0)}),
    "decode": ({"q_length": 1, "q_offset": 9}, {}),
    "continuation": ({"q_length": 3, "q_offset": 7}, {"window": (-1, 0)}),
    "static cache": ({"kv_length": 32, "q_length": 3, "q_offset": 7}, {"window": (-1, 0)}),
    "window": ({"mask_function": WINDOW}, {"window": (3, 0)}),
    "window that hides nothing": ({"mask_function": hf.sliding_window_causal_mask_function(10)}, {"window": (-1, 0)}),
    "decode in a window": ({"mask_function": WINDOW, "q_length": 1, "q_offset": 9}, {}),
    "left padding": ({"attention_mask": PADS}, {"window": (-1, 0), "key_starts": [3, 0], "key_lengths": [7, 10]}),
    "right padding": (
        {"attention_mask": PADS.flip(1), "mask_function": hf.bidirectional_mask_function},
        {"key_starts": [0, 0], "key_lengths": [7, 10]},
    ),
    "both directions": ({"mask_function": hf.bidirectional_mask_function}, {}),
    "chunks": ({"mask_function": hf.chunked_causal_mask_function(4, torch.zeros(2, dtype=torch.int64))}, None),
    "a hole": ({"attention_mask": torch.tensor([[1] * 4 + [0] + [1] * 5] * 2).bool()}, None),
}


@pytest.mark.parametrize("name", FORMS)
def test_the_form_of_a_mask(name: str) -> None:
    more, flags = FORMS[name]
    given = {"batch_size": 2, "q_length": 10, "kv_length": 10, **more}
    mask = mask_of(**given, dtype=torch.bfloat16)
    check(mask, hf.sdpa_mask(**given, allow_is_causal_skip=False))
    assert (mask.ranges.flags if isinstance(mask, FlagMask) else None) == flags
    assert isinstance(mask, FlagMask) or mask.dtype == torch.bfloat16


def test_a_mask_is_looked_at_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"batch_size": 2, "q_length": 10, "kv_length": 12, "q_offset": 2, "mask_function": WINDOW}
    whole = mask_of(**given)
    monkeypatch.setattr(masks, "_ELEMENTS", 50)
    parts = mask_of(**given)
    assert isinstance(parts, FlagMask)
    assert isinstance(whole, FlagMask)
    assert parts.ranges.flags == whole.ranges.flags
    assert torch.equal(parts.ranges.visible(), whole.ranges.visible())


def test_flags_that_leave_other_keys_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the comparison of what the flags leave, random ranges would get flags that are not theirs."""
    rng = torch.Generator().manual_seed(1)
    low = torch.randint(0, 6, (2, 5), generator=rng)
    high = low + torch.randint(0, 5, (2, 5), generator=rng)
    assert flags_of(low, high, 12) is None
    monkeypatch.setattr(masks, "_leaves", lambda *_: True)
    ranges = flags_of(low, high, 12)
    assert ranges is not None
    with pytest.raises(AssertionError):
        check(FlagMask.of(ranges), ranges.visible())


def test_a_mask_of_flags_has_no_numbers() -> None:
    mask = mask_of(1, 4, 4)
    assert tuple(mask.shape) == (1, 1, 4, 4)
    assert not hasattr(mask[..., :2], "ranges")
    with pytest.raises((RuntimeError, NotImplementedError)):
        mask.sum().item()
