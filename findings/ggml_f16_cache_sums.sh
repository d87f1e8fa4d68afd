#!/usr/bin/env bash
# llama.cpp's ggml_flash_attn_ext over an f16 cache on the CPU: many keys of equal weight.
#
# Documented (ggml.h, ops.cpp): GGML_PREC_F32, and the default too, "uses F32 accumulators".
# Guessed: the average of values that are all 1 is 1, whatever the number of keys, queries and threads.
# Seen:    (ggml 0.9.7 to 0.26.0) for fewer than 64 queries, the products with V are added in fp16. The sum of 1s stops at 2048 for each thread, so 4096
#          keys give 0.5 on one thread and 1 on two, 8192 keys 0.25 and 0.5. Values of 40 overflow: 2048 keys give inf.
#          GGML_PREC_F32 changes nothing. With 64 queries, with a bf16 cache, and without the fused operator, it is 1 and 40.
# Needs python3 with pip and a package index, on x86-64. Fails if a release does otherwise than stated here.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install -q numpy==2.4.6
cat > "$folder/look.py" <<'PY'
import ctypes as c
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np

library = c.CDLL(str(next(Path(find_spec("xllamacpp").submodule_search_locations[0]).glob("*.so"))))
Init = type("Init", (c.Structure,), {"_fields_": [("size", c.c_size_t), ("buffer", c.c_void_p), ("no_alloc", c.c_bool)]})
F32, F16, BF16 = 0, 1, 30


def call(name, result, kinds, *arguments):
    function = getattr(library, f"ggml_{name}")
    kind = {"p": c.c_void_p, "i": c.c_int, "l": c.c_int64, "f": c.c_float, "m": Init}
    function.restype, function.argtypes = result, [kind[k] for k in kinds]
    return function(*arguments)


def average(keys, value, queries=1, threads=1, cache=F16, exact=False, fused=True):
    """The first element of O for Q = K = 0 and V = value."""
    context = call("init", c.c_void_p, "m", Init(1 << 27, None, False))

    def tensor(kind, rows, columns, filled):
        made = call("new_tensor_4d", c.c_void_p, "pillll", context, kind, columns, rows, 1, 1)
        bits = np.float32(filled).view(np.uint32) >> 16
        array = np.full(rows * columns, bits if kind == BF16 else filled, {F32: "f4", F16: "f2", BF16: "u2"}[kind])
        c.memmove(call("get_data", c.c_void_p, "p", made), array.ctypes.data, array.nbytes)
        return made

    q, k = tensor(F32, queries, 64, 0), tensor(cache, keys, 64, 0)
    if fused:
        o = call("flash_attn_ext", c.c_void_p, "pppppfff", context, q, k, tensor(cache, keys, 64, value), None, 1, 0, 0)
        if exact:
            call("flash_attn_ext_set_prec", None, "pi", o, 10)
    else:
        s = call("mul_mat", c.c_void_p, "ppp", context, k, q)
        w = call("soft_max_ext", c.c_void_p, "pppff", context, s, None, 1, 0)
        o = call("mul_mat", c.c_void_p, "ppp", context, tensor(cache, 64, keys, value), w)
    graph = call("new_graph", c.c_void_p, "p", context)
    call("build_forward_expand", None, "pp", graph, o)
    assert call("graph_compute_with_ctx", c.c_int, "ppi", context, graph, threads) == 0
    found = c.cast(call("get_data", c.c_void_p, "p", o), c.POINTER(c.c_float))[0]
    call("free", None, "p", context)
    return found


rows = {
    "4096 keys": (average(4096, 1), 0.5), "GGML_PREC_F32": (average(4096, 1, exact=True), 0.5),
    "2 threads": (average(4096, 1, threads=2), 1), "8192 keys": (average(8192, 1), 0.25),
    "8192 keys, 2 threads": (average(8192, 1, threads=2), 0.5), "63 queries": (average(4096, 1, queries=63), 0.5),
    "64 queries": (average(4096, 1, queries=64), 1), "bf16": (average(4096, 1, cache=BF16), 1),
    "unfused": (average(4096, 1, fused=False), 1), "V = 40": (average(2048, 40), np.inf), "V = 40, unfused": (average(2048, 40, fused=False), 40),
}
print(sys.argv[1], "ggml", call("version", c.c_char_p, "").decode(), {name: found for name, (found, _) in rows.items()})
sys.exit(any(abs(found - stated) > 1e-3 for found, stated in rows.values() if found != stated))
PY
for release in 0.2.14 2026.10.11549; do
  "$folder/env/bin/pip" install -q "xllamacpp==$release"
  "$folder/env/bin/python" "$folder/look.py" "xllamacpp $release"
done
