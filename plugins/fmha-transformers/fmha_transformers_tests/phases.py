"""The phases of a model's work, each as the logits of all real tokens."""

from __future__ import annotations

from typing import Any

import torch
from transformers import StaticCache

from fmha_transformers_tests.families import VOCABULARY

BATCH, LENGTH, PADS = 2, 14, 5
Tensor = torch.Tensor


def tokens(length: int) -> Tensor:
    return torch.randint(3, VOCABULARY, (BATCH, length), generator=torch.Generator().manual_seed(length))


def padded(length: int, *, left: bool = True) -> Tensor:
    """An attention mask: the first sequence has pads on one side."""
    mask = torch.ones(BATCH, length, dtype=torch.int64)
    mask[0, slice(PADS) if left else slice(-PADS, None)] = 0
    return mask


def chunks(model: Any, parts: tuple[int, ...], mask: Tensor | None, cache: Any) -> Tensor:
    """The logits of a sequence that comes in parts, each on the cache of those before it; pads have none."""
    ids, done, out = tokens(sum(parts)), 0, []
    learned = not hasattr(model.config, "rope_parameters")  # then the model finds the positions by the mask
    for part in parts:
        end = done + part
        seen = None if mask is None else mask[:, :end]
        at = None if seen is None or learned else (seen.cumsum(1) - 1).clamp(min=0)[:, done:]
        found = model(ids[:, done:end], attention_mask=seen, cache=cache, use_cache=True, position_ids=at)
        cache, done = found.cache, end
        out.append(found.logits)
    logits = torch.cat(out, 1)
    return logits.flatten(0, 1) if mask is None else logits[mask.bool()]


def translated(model: Any, parts: tuple[int, ...], mask: Tensor | None) -> Tensor:
    """The same of an encoder-decoder model; the pads are the encoder's."""
    encoded = model.get_encoder()(tokens(LENGTH), attention_mask=mask)
    ids, done, cache, out = tokens(sum(parts)), 0, None, []
    for part in parts:
        result = model(
            encoder_outputs=encoded,
            attention_mask=mask,
            decoder_input_ids=ids[:, done : done + part],
            cache=cache,
            use_cache=True,
        )
        cache, done = result.cache, done + part
        out.append(result.logits)
    return torch.cat(out, 1).flatten(0, 1)


PARTS = {"prefill": (LENGTH,), "decode": (LENGTH, 1, 1, 1), "continuation": (LENGTH, 5)}
_MIXED = (LENGTH, 1, 4, 1)
PADDED = ("left padding", "static cache, padded")
STATIC = ("static cache", "static cache, padded")


def phases_of(family: str) -> tuple[str, ...]:
    """The phases that a family has."""
    if family == "vit":
        return ("prefill",)
    if family in ("bert", "t5"):
        return (*(("prefill",) if family == "bert" else PARTS), "left padding", "right padding")
    packed = () if family == "opt" else ("packed",)  # it finds positions by the attention mask alone
    return (*PARTS, *PADDED, "static cache", *packed)


def logits(model: Any, family: str, phase: str) -> Tensor:
    """The logits of a phase: (tokens, vocabulary), or (images, labels)."""
    with torch.no_grad():
        if family == "vit":
            pixels = torch.randn(BATCH, 3, 32, 32, generator=torch.Generator().manual_seed(5))
            return model(pixels.to(model.dtype)).logits
        if family == "bert":
            mask = padded(LENGTH, left=phase == "left padding") if "padding" in phase else None
            found = model(tokens(LENGTH), attention_mask=mask).logits
            return found.flatten(0, 1) if mask is None else found[mask.bool()]
        if family == "t5":
            mask = padded(LENGTH, left=phase == "left padding") if "padding" in phase else None
            return translated(model, PARTS.get(phase, _MIXED), mask)
        if phase == "packed":
            positions = torch.cat([torch.arange(n) for n in (5, 8, 1)])[None]
            return model(tokens(LENGTH)[:1], position_ids=positions, use_cache=False).logits[0]
        parts = PARTS.get(phase, _MIXED)
        mask = padded(sum(parts)) if phase in PADDED else None
        cache = StaticCache(config=model.config, max_cache_len=32) if phase in STATIC else None
        return chunks(model, parts, mask, cache)
