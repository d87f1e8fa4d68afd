"""What a launch on an AMD device does not take is refused before the runtime is asked."""

from __future__ import annotations

from typing import Any

import pytest

from fmha_cli.backends.gpu.launching import PackedArguments, Shape
from fmha_cli.backends.hip.runtime import Hip
from fmha_cli.backends.hip.session import HipKernel
from fmha_cli.domain.errors import InternalError


@pytest.mark.parametrize("attribute", [{"cluster": 2}, {"dependent": True}])
def test_an_attribute_that_the_runtime_lacks_is_refused(attribute: dict[str, Any]) -> None:
    kernel = object.__new__(HipKernel)
    arguments = PackedArguments(bytes(8), Hip.arguments_end)
    with pytest.raises(InternalError, match="neither clusters nor a dependence"):
        kernel.launch(Shape((2, 1, 1), (64, 1, 1), **attribute), arguments, 0)
