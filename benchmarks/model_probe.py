"""What the classes of transformers hand to their attention function: recorded on the meta device, or of a tiny model on the CPU.

``calls_of`` builds a class from a configuration, runs one prompt through it and gives each attention call: heads, head dims, scale,
cap, sinks, and the keys that each query sees. Weights and inputs have no values on the meta device; masks are made on the CPU.
"""

from __future__ import annotations

import importlib
import inspect
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "critical")

import torch
import transformers
from transformers import masking_utils
from transformers.integrations.moe import ExpertsInterface
from transformers.modeling_utils import AttentionInterface
from transformers.models.auto import configuration_auto, modeling_auto

SEQLEN = 24
"""Tokens of the prompt."""

NAME = "fmha_record"


@dataclass(frozen=True)
class Call:
    """One attention call; ``seen`` has the number of keys that each query sees. ``sparse``: to chosen keys, or within windows that
    are laid into the batch."""

    heads: int
    kv_heads: int
    hdim: int
    hdim_v: int
    scale: float
    softcap: float
    sink_logits: bool
    alibi: bool
    seen: tuple[int, ...]
    sparse: bool = False


class NotRecorded(Exception):
    """The class cannot be run so."""


_calls: list[Call] = []
_places: dict[str, None] = {}


def places() -> list[str]:
    """File and class of the modules whose calls were recorded since the last time that this was asked."""
    found = list(_places)
    _places.clear()
    return found


def _record(
    module: Any, query: Any, key: Any, value: Any, attention_mask: Any = None, **given: Any
) -> tuple[Any, None]:
    """The attention function: notes its arguments, and gives an output of the right shape."""
    cls = type(module)
    _places[f"{cls.__module__.removeprefix('transformers.').replace('.', '/')}.py, {cls.__name__}"] = None
    scale = given.get("scaling")
    heads, queries, hdim = query.shape[1:]
    alibi, seen = _seen(module, attention_mask, queries, key.shape[2], given)
    if queries != SEQLEN and queries == key.shape[2] and set(seen) == {queries}:
        seen = (SEQLEN,) * SEQLEN  # a tower has as many tokens as its input makes
    _calls.append(
        Call(
            heads=heads,
            kv_heads=key.shape[1],
            hdim=hdim,
            hdim_v=value.shape[3],
            scale=round(float(scale if scale is not None else hdim**-0.5), 9),
            softcap=float(given.get("softcap") or 0.0),
            sink_logits=given.get("s_aux") is not None,
            alibi=alibi,
            seen=seen,
            sparse=given.get("indices") is not None or given.get("block_indices") is not None or query.shape[0] != 1,
        )
    )
    return value.new_zeros(query.shape[0], queries, heads, value.shape[3]), None


def _seen(module: Any, mask: Any, queries: int, keys: int, given: Mapping[str, Any]) -> tuple[bool, tuple[int, ...]]:
    """Whether the mask has slopes, and how many keys each query sees. A mask without values is taken for the one of its flags."""
    if torch.is_tensor(mask) and mask.device.type != "meta":
        flat = mask.expand(-1, max(mask.shape[1], 1), -1, -1)[0]
        open_ = flat if flat.dtype == torch.bool else flat > -1e3
        sloped = flat.dtype != torch.bool and bool((flat[open_] != 0).any())
        return sloped, tuple(int(row.sum()) for row in open_[0])
    causal = given.get("is_causal")
    causal = getattr(module, "is_causal", True) if causal is None else causal
    window = given.get("sliding_window") or keys
    if causal and queries == keys:
        return False, tuple(min(row + 1, window) for row in range(queries))
    return False, (keys,) * queries


def _mask(*args: Any, **given: Any) -> Any:
    """The mask in full, with values, wherever the inputs are."""
    skips = {"allow_is_causal_skip": False, "allow_is_bidirectional_skip": False, "use_vmap": False, "device": "cpu"}
    return masking_utils.sdpa_mask(*args, **{**given, **skips})


def _install() -> None:
    AttentionInterface.register(NAME, _record)
    masking_utils.AttentionMaskInterface.register(NAME, _mask)
    ExpertsInterface.register(NAME, lambda self, hidden, *_, **__: torch.zeros_like(hidden))
    masking_utils.find_packed_sequence_indices = lambda position_ids: None  # reads values
    masking_utils.padding_mask_function = lambda padding: (
        lambda b, h, q, k: torch.ones((), dtype=torch.bool, device="cpu")
    )


_install()


def config_class(kind: str) -> type:
    return getattr(transformers, configuration_auto.CONFIG_MAPPING_NAMES[kind])


def kinds() -> list[str]:
    """Every model_type of the release."""
    return sorted(configuration_auto.CONFIG_MAPPING_NAMES)


@cache
def model_class(kind: str) -> type | None:
    """The class that writes token after token, else the last one that takes this configuration."""
    name = modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.get(kind)
    if name is not None and hasattr(transformers, name):
        found = getattr(transformers, name)
        wanted = _config_of(found)
        if wanted in (None, config_class(kind).__name__):
            return found
    name = modeling_auto.MODEL_MAPPING_NAMES.get(kind)
    for one in name if isinstance(name, tuple | list) else [name]:
        found = getattr(transformers, one, None) if one else None
        if found is not None and _config_of(found) in (None, config_class(kind).__name__):
            return found
    own = [one for one in classes_of(kind) if not one.__name__.endswith(("MultipleChoice", "Backbone"))]
    return own[-1] if own else None


def _config_of(model: type) -> str | None:
    said = inspect.get_annotations(model).get("config")
    if said is None:
        config = getattr(model, "config_class", None)
        return None if config is None else config.__name__
    return (said if isinstance(said, str) else said.__name__).split(".")[-1]


@cache
def classes_of(kind: str) -> list[type]:
    """The classes of models that take the configuration of a model_type, in the order of the source."""
    config = config_class(kind)
    try:
        module = importlib.import_module(config.__module__.replace("configuration_", "modeling_"))
    except ImportError:
        return []
    own = [one for one in vars(module).values() if inspect.isclass(one) and one.__module__ == module.__name__]
    models = [
        one
        for one in own
        if issubclass(one, transformers.PreTrainedModel) and not one.__name__.endswith("PreTrainedModel")
    ]
    return [one for one in models if (_config_of(one) or "") == config.__name__]


@cache
def members_of(kind: str) -> dict[str, Any]:
    """The members that a class of configurations has, or that its source asks a configuration for, with their defaults."""
    config = config_class(kind)
    found = {name: getattr(config, name, None) for name in getattr(config, "__dataclass_fields__", {})}
    source = inspect.getsource(inspect.getmodule(config))
    model = model_class(kind)
    if model is not None:
        source += inspect.getsource(inspect.getmodule(model))
    asked = re.findall(r"getattr\(\w*config, \"(\w+)\"", source) + re.findall(r"kwargs\.(?:get|pop)\(\"(\w+)\"", source)
    return {**dict.fromkeys(asked), **found}


def calls_of(
    kind: str, members: Mapping[str, Any], devices: tuple[str, ...] = ("meta", "cpu"), model: type | None = None
) -> list[Call]:
    """The attention calls of one prompt, in their order.

    Raises:
        NotRecorded: the class refuses the configuration, or cannot be run.
    """
    said = []
    for device in devices:
        try:
            return _run(kind, members, device, model or model_class(kind))
        except Exception as fault:  # noqa: BLE001 - any class may fail in any way; all are reported
            said.append(f"{device}: {type(fault).__name__}: {str(fault)[:200]}")
    raise NotRecorded("; ".join(said))


def _run(kind: str, members: Mapping[str, Any], device: str, model: Any) -> list[Call]:
    config = config_class(kind)(**members)
    config._attn_implementation = NAME
    config._experts_implementation = NAME
    _calls.clear()
    with torch.device(device), torch.no_grad():
        made = model(config).eval()
        takes = inspect.signature(made.forward).parameters
        given: dict[str, Any] = (
            {"use_cache": False} if "input_ids" in takes and ("use_cache" in takes or "kwargs" in takes) else {}
        )
        made(**_input(config, takes), **given)
    return list(_calls)


def _input(config: Any, takes: Mapping[str, Any]) -> dict[str, Any]:
    """One prompt of tokens, one image, or a piece of sound, as a class takes it. Raises NotRecorded: it takes something else."""
    if "input_ids" in takes:
        return {"input_ids": torch.ones(1, SEQLEN, dtype=torch.long)}
    if "pixel_values" in takes:
        size = getattr(config, "image_size", None) or 32
        height, width = size if isinstance(size, list | tuple) else (size, size)
        return {"pixel_values": torch.zeros(1, getattr(config, "num_channels", 3) or 3, height, width)}
    bins = next(
        (
            value
            for name in ("num_mel_bins", "n_mels", "input_feat_per_channel")
            if (value := getattr(config, name, None))
        ),
        None,
    )
    if "input_features" in takes and bins:
        frames = 2 * (getattr(config, "max_source_positions", None) or 32)
        return {"input_features": torch.zeros(1, bins, frames)}
    if "input_values" in takes:
        return {"input_values": torch.zeros(1, 4000)}
    raise NotRecorded(f"takes {', '.join(list(takes)[:3])}")
