"""Validators of the published schemas."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from jsonschema import Draft202012Validator
from referencing import Registry, Resource

from fmha_cli.report import schemas


def validator_of(schema: dict[str, Any]) -> Draft202012Validator:
    """A validator of a schema that holds all others it refers to.

    Its registry has seen the whole schema. Without one, ``jsonschema`` searches the schema again at every reference.
    """
    known: Registry[Any] = Registry().with_resource(schema["$id"], Resource.from_contents(schema))
    return Draft202012Validator(schema, registry=known.crawl())


@cache
def validator(name: str) -> Draft202012Validator:
    """The validator of a published schema, by the name that ``fmha schema`` takes."""
    return validator_of(json.loads(schemas.text(name)))
