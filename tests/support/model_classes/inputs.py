"""Inputs of one prompt, one image, one video or one piece of sound, in the forms that classes of transformers take."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from inspect import Parameter
from typing import Any

import torch

from tests.support.model_classes.hooks import SEQLEN

_NAMES = (
    "pixel_values",
    "pixel_values_videos",
    "hidden_states",
    "input_features",
    "input_values",
    "inputs_embeds",
    "image",
)
_MOST = 24
"""Forms that are tried."""


def inputs(config: Any, takes: Mapping[str, Parameter], times: int = 1) -> Iterator[dict[str, Any]]:
    """The forms of an input that a class may take, the likeliest first; none where it takes something else.

    Args:
        times: how much higher and wider images are, and longer sounds; prompts have one length.
    """
    needed = [
        name
        for name, one in takes.items()
        if one.default is Parameter.empty and one.kind not in (Parameter.VAR_KEYWORD, Parameter.VAR_POSITIONAL)
    ]
    if "input_ids" in takes:
        needed = ["input_ids", *(name for name in needed if name != "input_ids")]
    elif not needed:
        needed = [name for name in _NAMES if name in takes][:1]
        needed += [name for name in takes if name in ("grid_thw", "image_grid_thw", "feature_lens", "spatial_shapes")]
    forms = [list(_forms(name, config, times)) for name in needed]
    if not needed or not all(forms):
        return
    more = {"use_cache": False} if "input_ids" in takes and ("use_cache" in takes or "kwargs" in takes) else {}
    for given in itertools.islice(itertools.product(*forms), _MOST):
        yield {**dict(zip(needed, given, strict=True)), **more}
    if needed == ["input_ids"] and "inputs_embeds" in takes:
        yield {"inputs_embeds": next(_forms("inputs_embeds", config, times)), **more}


def _of(config: Any, *names: str) -> Any:
    return next((value for name in names if (value := getattr(config, name, None))), None)


def _forms(name: str, config: Any, times: int) -> Iterator[Any]:
    width = _of(config, "hidden_size", "d_model", "embed_dim", "n_embd", "encoder_hidden_size") or 64
    channels = _of(config, "num_channels", "in_channels", "in_chans") or 3
    size = _of(config, "image_size", "img_size") or 32
    height, wide = (times * one for one in (size if isinstance(size, list | tuple) else (size, size)))
    side = 4 * times
    patch = _of(config, "patch_size") or 8
    patch = patch if isinstance(patch, int) else patch[-1]
    frames = _of(config, "temporal_patch_size", "tubelet_size", "num_frames", "frames_per_clip") or 1
    frames = frames if isinstance(frames, int) else frames[0]
    bins = (
        _of(config, "num_mel_bins", "n_mels", "input_feat_per_channel", "feature_size", "input_dim", "input_size") or 80
    )
    long = 2 * times * (_of(config, "max_source_positions") or 32)
    if name == "input_ids":
        yield (
            torch.arange(SEQLEN)[None] % 90 + 3
            if torch.get_default_device().type == "cpu"
            else torch.ones(1, SEQLEN, dtype=torch.long)
        )
    elif name in ("attention_mask", "input_features_mask", "padding_mask", "pixel_attention_mask"):
        yield torch.ones(1, SEQLEN, dtype=torch.long)
        yield None
    elif name in ("grid_thw", "image_grid_thw"):
        yield torch.tensor([[1, side, side]], device="cpu")
    elif name in ("spatial_shapes",):
        yield torch.tensor([[side, side]], device="cpu")
    elif name in ("pixel_values", "pixel_values_videos", "hidden_states", "image", "videos", "pixel_patches"):
        packed = channels * patch * patch
        images = [torch.rand(1, channels, height, wide)]
        patches = [
            torch.rand(side * side, frames * packed),
            torch.rand(side * side, packed),
            torch.rand(1, side * side, packed),
        ]
        video = [torch.rand(1, frames, channels, height, wide), torch.rand(1, channels, frames, height, wide)]
        words = [torch.rand(1, SEQLEN, width), torch.rand(SEQLEN, width)]
        yield from {
            "hidden_states": [*patches, *words, *images],
            "pixel_values_videos": [*video, *patches, *images],
        }.get(name, [*images, *patches, *video])
    elif name in ("inputs_embeds", "query_embeds", "embeddings", "features", "hidden_state"):
        yield torch.rand(1, SEQLEN, width)
    elif name == "input_features":
        yield from (torch.rand(1, bins, long), torch.rand(1, long, bins), torch.rand(bins, long))
    elif name in ("feature_lens", "feature_lengths"):
        yield torch.tensor([long], device="cpu")
    elif name in ("aftercnn_lens",):
        yield torch.tensor([long // 2], device="cpu")
    elif name == "input_values":
        yield from (
            torch.rand(1, 4000 * times),
            torch.rand(1, 1, 4000 * times),
            torch.rand(1, long, bins),
            torch.rand(1, 1024, 128),
        )
    elif name == "bbox":
        yield torch.zeros(1, SEQLEN, 4, dtype=torch.long)
