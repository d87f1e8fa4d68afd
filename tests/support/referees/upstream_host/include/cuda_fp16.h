#pragma once
#include "cuda_runtime_api.h"
struct __half_raw {
    unsigned short x;
    __half_raw() = default;
    __half_raw(unsigned short bits) : x(bits) {}
};
struct __half {
    unsigned short x;
    __half() = default;
    __half(__half_raw raw) : x(raw.x) {}
    operator __half_raw() const { return {x}; }
};
struct __half2 {
    __half x, y;
};
using half = __half;
using half2 = __half2;
float __half2float(__half);
__half __float2half(float);
