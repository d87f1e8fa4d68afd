#!/usr/bin/env bash
# JAX's jax.nn.dot_product_attention with float16 arrays on the CPU.
#
# Documented: no limit of types; the CPU's implementation is "xla".
# Guessed: jax.jit(dot_product_attention) computes what dot_product_attention does.
# Seen:    with 0.10.2, and with 0.12.0.1, the call alone returns an array. Under jax.jit it raises ValueError: "The precision
#          'F16_F16_F32' is not supported by dot_general on CPU". The function tries that precision and falls back when it fails,
#          but under jit it fails later, when the whole is compiled. bfloat16 works both ways.
# Needs python3 with pip and a package index. Fails if a release does otherwise than stated here.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
release=$("$folder/env/bin/python" -c 'import sys; print("0.12.0.1" if sys.version_info >= (3, 12) else "0.10.2")')
"$folder/env/bin/pip" install -q "jax==$release"
"$folder/env/bin/python" - <<'PY'
import sys

import jax
import jax.numpy as jnp

jax.config.update("jax_platforms", "cpu")
found = {}
for kind in ("bfloat16", "float16"):
    q = jnp.ones((1, 4, 2, 8), kind)
    for name, function in (("alone", jax.nn.dot_product_attention), ("jit", jax.jit(jax.nn.dot_product_attention))):
        try:
            found[kind, name] = str(function(q, q, q).dtype)
        except ValueError as fault:
            found[kind, name] = str(fault).splitlines()[0]
print("jax", jax.__version__, found)
right = found.pop(("float16", "jit")).startswith("The precision 'F16_F16_F32' is not supported")
sys.exit(not right or any(kind != dtype for (kind, _), dtype in found.items()))
PY
