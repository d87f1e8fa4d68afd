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
from dataclasses import replace
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

from tests.support.model_classes import hooks
from tests.support.model_classes.hooks import SEQLEN, Call, NotRecorded, place
from tests.support.model_classes.inputs import inputs

NAME = "fmha_record"

_calls: list[Call] = []
_places: dict[str, str] = {}


def places() -> dict[str, str]:
    """File and class of the modules whose calls were recorded since the last time that this was asked: by the interface of attention
    functions, or by hooks."""
    found = dict(_places)
    _places.clear()
    return found


def _record(
    module: Any, query: Any, key: Any, value: Any, attention_mask: Any = None, **given: Any
) -> tuple[Any, None]:
    """The attention function: notes its arguments, and gives an output of the right shape."""
    _places[place(module)] = "interface"
    scale = given.get("scaling")
    heads, queries, hdim = query.shape[1:]
    alibi, other, seen = _seen(module, attention_mask, queries, key.shape[2], given)
    unread = [
        name
        for name, value in given.items()
        if value is not None and name not in _READ and not name.startswith(("output_", "return_", "use_"))
    ]
    if unread:
        other = _ARGUMENTS.get(unread[0], f"the argument {unread[0]} of its attention")
    elif query.shape[0] != 1:
        other = "windows that are laid into the batch"
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
            other=other,
        )
    )
    return value.new_zeros(query.shape[0], queries, heads, value.shape[3]), None


_ARGUMENTS = {
    **dict.fromkeys(("indices", "block_indices"), "sparse attention, to the keys that an indexer picks"),
    "position_bias": "a bias of positions that is added to the scores",
    "sinks": "a sink of each token's own",
}
_READ = {
    *("scaling", "softcap", "s_aux", "sliding_window", "is_causal"),
    *("dropout", "position_ids", "deterministic"),
    *(
        "cu_seq_lens_q",
        "cu_seq_lens_k",
        "max_length_q",
        "max_length_k",
    ),  # of sequences that are packed; a mask or a call has each
}
"""Arguments that are recorded, or that decide nothing about the attention of one prompt."""


def _seen(
    module: Any, mask: Any, queries: int, keys: int, given: Mapping[str, Any]
) -> tuple[bool, str, tuple[int, ...]]:
    """Whether the mask has the standard slopes, what else no flag expresses, and how many keys each query sees.

    Raises:
        NotRecorded: a mask on the meta device.
    """
    if torch.is_tensor(mask) and mask.device.type != "meta":
        with torch.device("cpu"):
            return _open(mask, queries, keys)
    if torch.is_tensor(mask):
        raise NotRecorded("a mask without values")
    causal = given.get("is_causal")
    causal = getattr(module, "is_causal", True) if causal is None else causal
    window = given.get("sliding_window") or keys
    if causal and queries == keys:
        return False, "", tuple(min(row + 1, window) for row in range(queries))
    return False, "", (keys,) * queries


def _open(mask: Any, queries: int, keys: int) -> tuple[bool, str, tuple[int, ...]]:
    """What a mask with values says, as ``_seen``."""
    flat = mask.expand(*(mask.shape[:2] if mask.dim() == 4 else (1, 1)), queries, keys)
    open_ = flat if flat.dtype == torch.bool else flat > -1e3
    other, seen = hooks.seen_by(open_)
    if flat.dtype == torch.bool or not bool((flat[open_] != 0).any()):
        return False, other, seen
    slopes = torch.from_numpy(hooks.standard_slopes(flat.shape[1]))[:, None, None] * torch.arange(keys)
    even = hooks.uneven(flat.float() - slopes, open_.expand_as(flat))
    alibi = float(even.abs().max()) < 1e-3
    return alibi, other if alibi else "a bias that is added to the scores", seen


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
        if wanted in (None, config_class(kind).__name__) or not _modeling(kind):
            return found  # a type without its own classes uses another's
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
def _modeling(kind: str) -> Any:
    """The module of a type's classes; None if it has no classes."""
    try:
        return importlib.import_module(config_class(kind).__module__.replace("configuration_", "modeling_"))
    except ImportError:
        return None


@cache
def classes_of(kind: str) -> list[type]:
    """The classes of models that take the configuration of a model_type, in the order of the source."""
    config, module = config_class(kind), _modeling(kind)
    if module is None:
        return []
    own = [one for one in vars(module).values() if inspect.isclass(one) and one.__module__ == module.__name__]
    models = [
        one
        for one in own
        if issubclass(one, transformers.PreTrainedModel) and not one.__name__.endswith("PreTrainedModel")
    ]
    return [one for one in models if (_config_of(one) or "") == config.__name__]


@cache
def source_of(kind: str) -> str:
    """The source of a type's configuration and of its classes."""
    source = inspect.getsource(inspect.getmodule(config_class(kind)))
    model = model_class(kind)
    return source + (inspect.getsource(inspect.getmodule(model)) if model is not None else "")


@cache
def takes_tokens(kind: str) -> bool:
    """Whether a class takes a prompt of tokens, not an image or sound."""
    return "input_ids" in inspect.signature(model_class(kind).forward).parameters


def has_interface(kind: str) -> bool:
    """Whether the source of a type's classes has attention functions."""
    return "ALL_ATTENTION_FUNCTIONS" in inspect.getsource(_modeling(kind)) if _modeling(kind) is not None else False


@cache
def members_of(kind: str) -> dict[str, Any]:
    """The members that a class of configurations has, or that its source asks a configuration for, with their defaults."""
    config = config_class(kind)
    found = {name: getattr(config, name, None) for name in getattr(config, "__dataclass_fields__", {})}
    source = source_of(kind)
    asked = re.findall(r"getattr\(\w*config, \"(\w+)\"", source) + re.findall(r"kwargs\.(?:get|pop)\(\"(\w+)\"", source)
    return {**dict.fromkeys(asked), **found}


def calls_of(
    kind: str, members: Mapping[str, Any], devices: tuple[str, ...] = ("meta", "cpu"), times: int = 1
) -> list[Call]:
    """The attention calls of one prompt, in their order; seen by hooks on the CPU where no attention function is called.

    Raises:
        NotRecorded: the class refuses the configuration, or cannot be run.
    """
    said = []
    for device in devices:
        try:
            found, watch = _run(kind, members, device, times)
            if found and watch.found:
                return [_not_plain("attention beside that of the attention function")]
            if found or not watch.found:
                return found
            if device == "meta":
                raise NotRecorded("no attention function is called")
        except Exception as fault:  # noqa: BLE001 - any class may fail in any way; all are reported
            said.append(f"{device}: {type(fault).__name__}: {' '.join(str(fault).split())[:200]}")
            if device == "meta" or "fmha_record" not in str(fault):
                continue
        return hooked(kind, members, times)
    raise NotRecorded("; ".join(said))


def hooked(kind: str, members: Mapping[str, Any], times: int = 1) -> list[Call]:
    """The attention calls of one prompt, seen in the products and the softmax of a model in double precision with random weights.

    Raises:
        NotRecorded: the class cannot be run so, or no flag expresses what it does to its scores.
    """
    said = ""
    for dtype in (torch.float64, torch.float32):  # some classes make tensors of single precision themselves
        try:
            _, watch = _run(kind, members, "cpu", times, "eager", dtype)
            found = hooks.calls_in(watch)
            if takes_tokens(kind) and any(len(call.seen) != SEQLEN for call in found):
                raise NotRecorded("scores that are not of all tokens")
        except NotRecorded as fault:
            if str(fault).startswith("scores"):
                return [_not_plain(str(fault))]
            raise
        except Exception as fault:  # noqa: BLE001 - any class may fail in any way
            said = said or f"hooked: {type(fault).__name__}: {' '.join(str(fault).split())[:200]}"
            continue
        _places.update(dict.fromkeys(watch.places, "hooks"))
        return [whole(call) for call in found]
    raise NotRecorded(said)


def _not_plain(other: str) -> Call:
    """What stands for all calls of a run where no flag expresses them."""
    return Call(1, 1, 1, 1, 1.0, 0.0, False, False, (), other)


def whole(call: Call) -> Call:
    """A call in which all see all, as one of the prompt: a tower has as many tokens as its input makes."""
    tokens = len(call.seen)
    return replace(call, seen=(SEQLEN,) * SEQLEN) if set(call.seen) == {tokens} and tokens != SEQLEN else call


def _run(
    kind: str, members: Mapping[str, Any], device: str, times: int, how: str = NAME, dtype: Any = None
) -> tuple[list[Call], hooks.Watch]:
    model = model_class(kind)
    if model is None:
        raise NotRecorded("no class takes this configuration alone")
    config = config_class(kind)(**members)
    config._attn_implementation = how
    config._experts_implementation = NAME
    torch.manual_seed(0)
    with torch.device(device), torch.no_grad():
        made = model(config).train(mode=False)
        if dtype is not None:
            made = made.to(dtype)
            for (
                name,
                weight,
            ) in made.named_parameters():  # norms near 1, else the tokens of the last layers are nearly equal
                torch.nn.init.normal_(weight, mean=float(weight.dim() == 1 and not name.endswith("bias")), std=0.1)
        takes = inspect.signature(made.forward).parameters
        said = None
        for given in inputs(config, takes, times):
            _calls.clear()
            if dtype is not None:
                given = {
                    name: one.to(dtype) if torch.is_tensor(one) and one.is_floating_point() else one
                    for name, one in given.items()
                }
            try:
                with hooks.Watch() as watch:
                    made(**given)
                return list(_calls), watch
            except Exception as fault:  # noqa: BLE001 - the next form of the input
                said = said or fault
        raise said or NotRecorded(f"takes {', '.join(list(takes)[:3])}")
