#pragma once
#include "cuda_runtime_api.h"
struct __nv_bfloat16_raw {
    unsigned short x;
};
struct __nv_bfloat16 {
    unsigned short x;
    __nv_bfloat16() = default;
    __nv_bfloat16(__nv_bfloat16_raw raw) : x(raw.x) {}
    operator __nv_bfloat16_raw() const { return {x}; }
};
struct __nv_bfloat162 {
    __nv_bfloat16 x, y;
};
