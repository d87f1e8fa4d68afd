"""Reads the attention of a model from its configuration: ``config.json`` as Hugging Face transformers writes it.

A configuration leaves out what its class fills in; ``arch_specs/_model_types.json`` has these defaults. A member that is null is
null, not missing: ``"sliding_window": null`` switches off the window that the class would have.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fmha_cli.domain.arch import arch_document
from fmha_cli.domain.codec import DecodeError
from fmha_cli.domain.errors import UsageError
from fmha_cli.domain.model import Fact, Model, model_of
from fmha_cli.domain.reading import parsed, regular_bytes

FILE, SCHEMA = "_model_types.json", "fmha.model-types/1"
_NESTED = ("text_config", "llm_config", "language_config")
"""Members that hold the language model of a model for several media."""

_MOST = 4096
"""The most layers: their types are listed one by one."""

_FULL, _SLIDING = "full_attention", "sliding_attention"
_HEADS = ("num_attention_heads", "n_head", "n_heads", "num_heads")
_LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
_WIDTH = ("hidden_size", "n_embd", "d_model")
_KV_HEADS = ("num_key_value_heads", "num_kv_heads")
_PATTERN = ("sliding_window_pattern", "_sliding_window_pattern")


@dataclass(frozen=True)
class Read:
    """What a configuration says.

    Attributes:
        note: a sentence for people about what was assumed; empty if nothing was.
    """

    model: Model
    note: str = ""


def read_config(path: Path, name: str, flag: str = "--model") -> Read:
    """The model of a configuration, or of the folder that holds one.

    Args:
        name: of the model in records.
        flag: where it was given, for errors.

    Raises:
        UsageError: E061, no configuration of a model that problem flags can express.
    """
    file = path / "config.json" if path.is_dir() else path
    try:
        data = parsed(regular_bytes(file))
        if not isinstance(data, Mapping):
            raise DecodeError("not an object")
        config = _Config.of(data)
        title = f"{config.kind or 'model'} of {file}"
        return Read(model_of(name, title, _facts(config)), config.note)
    except (OSError, ValueError) as fault:
        why = (isinstance(fault, OSError) and fault.strerror) or str(fault)
        help = "the config.json of a decoder, as transformers writes it; `fmha models` lists the presets"
        raise UsageError(f"{flag} {path}: no model", code="E061", where=flag, why=why, help=help) from fault


@dataclass(frozen=True)
class _Config:
    """The members of a configuration with the defaults of its class."""

    members: Mapping[str, Any]
    kind: str
    place: str
    defaults: Mapping[str, Any]
    origin: str

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> _Config:
        """Raises ValueError: a member that no flag can express."""
        nested = next((key for key in _NESTED if isinstance(data.get(key), Mapping)), None)
        members = {**data, **data[nested]} if nested else data
        outer = str(data.get("model_type", ""))
        kind = str(data[nested].get("model_type", f"{outer}_text")) if nested else outer
        table = arch_document(FILE, SCHEMA)
        both_ways = members.get("is_causal") is False or members.get("use_bidirectional_attention") in (True, "all")
        if kind in table["encoders"] or both_ways:
            raise ValueError(f"{kind or 'the model'} is an encoder: its queries see the keys behind them too")
        for key, what in table["refused"].items():
            if members.get(key):
                raise ValueError(f"{key} {members[key]!r:.40}: {what}, which no flag expresses")
        known = table["types"].get(kind, {"defaults": {}, "source": ""})
        return cls(members, kind, f"{nested}." if nested else "", known["defaults"], known["source"])

    @property
    def note(self) -> str:
        if self.origin:
            return ""
        said = f"model_type {self.kind}" if self.kind else "a configuration without model_type"
        return f"{said}: the defaults of its class are not known, so only what the configuration says counts"

    def get(self, *keys: str) -> Fact | None:
        """The first member that is there and not null; else the default of one that is missing."""
        for key in keys:
            if self.members.get(key) is not None:
                return Fact(self.members[key], f"{self.place}{key}")
        for key in keys:
            if key not in self.members and self.defaults.get(key) is not None:
                return Fact(self.defaults[key], f"{key}, default of {self.kind} ({self.origin})")
        return None

    def whole(self, *keys: str) -> Fact | None:
        """The first member as a whole number. Raises ValueError: it is none."""
        found = self.get(*keys)
        if found is not None and (type(found.value) is not int or found.value < 0):
            raise ValueError(f"{found.source} {found.value!r:.40}: not a whole number")
        return found

    def number(self, *keys: str) -> Fact | None:
        """The first member as a positive number. Raises ValueError: it is none."""
        found = self.get(*keys)
        if found is not None and (type(found.value) not in (int, float) or found.value <= 0):
            raise ValueError(f"{found.source} {found.value!r:.40}: not a positive number")
        return found

    def on(self, key: str) -> bool:
        """Whether a switch is on."""
        found = self.get(key)
        return found is not None and found.value is True


def _facts(config: _Config) -> dict[str, Fact]:
    """The facts of ``domain.model``. Raises ValueError: a member is missing, or cannot be read."""
    heads, layers = _needed(config.whole(*_HEADS), _HEADS), _needed(config.whole(*_LAYERS), _LAYERS)
    if layers.value > _MOST:
        raise ValueError(f"{layers.source} {layers.value}: more than {_MOST} layers")
    facts = {"heads": heads, **_layers(config, layers), **_shapes(config, heads)}
    softcap, scale = config.number("attn_logit_softcapping"), _scale(config)
    facts |= {"softcap": softcap} if softcap is not None else {}
    facts |= {"scale": scale} if scale is not None else {}
    facts |= {"sink_logits": _shown(config, "attention_sinks")} if config.on("attention_sinks") else {}
    facts |= {"alibi": _shown(config, "alibi")} if config.on("alibi") else {}
    return facts


def _needed(found: Fact | None, keys: Sequence[str]) -> Fact:
    if found is None:
        raise ValueError(f"lacks {keys[0]}")
    return found


def _shown(config: _Config, key: str) -> Fact:
    return _needed(config.get(key), (key,))


def _shapes(config: _Config, heads: Fact) -> dict[str, Fact]:
    """Head dims and key/value heads."""
    rank = config.whole("kv_lora_rank")
    if rank is not None:
        nope, rope = (_needed(config.whole(key), (key,)) for key in ("qk_nope_head_dim", "qk_rope_head_dim"))
        value = _needed(config.whole("v_head_dim"), ("v_head_dim",))
        both = Fact(nope.value + rope.value, f"{nope.source} + {rope.source}")
        return {
            "kv_heads": Fact(heads.value, f"{heads.source}: every head has keys of its own"),
            "hdim": both,
            "hdim_v": value,
            "latent": rank,
            "latent_rope": rope,
        }
    kv_heads = config.whole(*_KV_HEADS) or Fact(heads.value, f"{heads.source}: no member for key/value heads")
    if config.on("multi_query") and not config.on("new_decoder_architecture"):
        kv_heads = Fact(1, f"{config.place}multi_query")
    hdim = config.whole("head_dim") or _quotient(_needed(config.whole(*_WIDTH), _WIDTH), heads)
    facts = {"kv_heads": kv_heads, "hdim": hdim}
    far_hdim, far_kv = config.whole("global_head_dim"), config.whole("num_global_key_value_heads")
    facts |= {"global_hdim": far_hdim} if far_hdim is not None else {}
    return facts | ({"global_kv_heads": far_kv} if far_kv is not None and config.on("attention_k_eq_v") else {})


def _quotient(width: Fact, heads: Fact) -> Fact:
    """The head dim of a configuration without one. Raises ValueError: the heads do not divide the width."""
    if not heads.value or width.value % heads.value:
        raise ValueError(f"lacks head_dim, and {width.source} {width.value} is not a multiple of {heads.value} heads")
    return Fact(width.value // heads.value, f"{width.source} / {heads.source}")


def _layers(config: _Config, layers: Fact) -> dict[str, Fact]:
    """The numbers of layers by kind, and the window."""
    window, (kinds, source) = config.whole("sliding_window"), _kinds(config, int(layers.value))
    others = arch_document(FILE, SCHEMA)["others"]
    strange = sorted(set(kinds) - {_FULL, _SLIDING, *others})
    if strange:
        raise ValueError(f"{source}: {', '.join(map(str, strange))}, which no flag expresses")
    counts = {kind: kinds.count(kind) for kind in (_FULL, _SLIDING)}
    attending = sum(counts.values())
    if not attending:
        raise ValueError("no layer has softmax attention")
    facts = {"layers": Fact(attending, layers.source if attending == len(kinds) else source)}
    if counts[_SLIDING]:
        facts |= {"local_layers": Fact(counts[_SLIDING], source), "window": _needed(window, ("sliding_window",))}
    return facts | ({"other_layers": Fact(len(kinds) - attending, source)} if attending < len(kinds) else {})


def _kinds(config: _Config, layers: int) -> tuple[list[str], str]:
    """The type of each layer, and what decides it. Raises ValueError: as many types as there are not layers."""
    given = config.get("layer_types")
    if given is not None:
        listed: Any = given.value
        if not isinstance(listed, list) or len(listed) != layers:
            raise ValueError(f"{given.source}: not a type for each of {layers} layers")
        return listed, given.source
    interval = config.whole("full_attention_interval")
    if interval is not None:
        return _every(int(interval.value), layers, "linear_attention"), interval.source
    window, switch = config.whole("sliding_window"), config.get("use_sliding_window")
    if window is None or (switch is not None and switch.value is False):
        return [_FULL] * layers, "no sliding_window" if window is None else switch.source if switch else ""
    pattern, first = config.whole(*_PATTERN), config.whole("max_window_layers")
    if pattern is not None:
        return _every(
            int(pattern.value), layers, _SLIDING
        ), f"{pattern.source}: every {pattern.value}th layer is global"
    if first is not None:
        begin = min(int(first.value), layers)
        return [_FULL] * begin + [_SLIDING] * (layers - begin), f"{first.source}: those from {begin} on"
    return [_SLIDING] * layers, f"{window.source}: every layer"


def _every(step: int, layers: int, between: str) -> list[str]:
    if step < 1:
        raise ValueError(f"every {step}th layer is global")
    return [between if (i + 1) % step else _FULL for i in range(layers)]


def _scale(config: _Config) -> Fact | None:
    """The softmax scale, where it is not that of the head dim."""
    direct = config.number("attention_multiplier")
    if direct is not None:
        return Fact(float(direct.value), direct.source)
    scalar = config.number("query_pre_attn_scalar")
    if scalar is not None:
        return Fact(float(scalar.value**-0.5), f"{scalar.source} {scalar.value}, to the power -0.5")
    return _stretched(config)


def _stretched(config: _Config) -> Fact | None:
    """The scale of latent attention under YaRN: 1/sqrt(hdim) times the square of mscale (transformers,
    ``DeepseekV3Attention``)."""
    rope = config.get("rope_scaling", "rope_parameters")
    if config.get("kv_lora_rank") is None or rope is None or not isinstance(rope.value, Mapping):
        return None
    kind = rope.value.get("rope_type", rope.value.get("type", "default"))
    factor, everywhere = rope.value.get("factor"), rope.value.get("mscale_all_dim")
    if kind == "default" or not factor or not everywhere:
        return None
    if not all(type(one) in (int, float) and one > 0 for one in (factor, everywhere)):
        raise ValueError(f"{rope.source}: factor and mscale_all_dim are positive numbers")
    hdim = sum(int(_needed(config.whole(key), (key,)).value) for key in ("qk_nope_head_dim", "qk_rope_head_dim"))
    mscale = 0.1 * everywhere * math.log(factor) + 1 if factor > 1 else 1.0
    return Fact(hdim**-0.5 * mscale**2, f"{rope.source}: mscale_all_dim {everywhere}, factor {factor}")
