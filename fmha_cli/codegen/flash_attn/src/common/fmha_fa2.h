// What every translation unit needs before upstream's headers.
#pragma once

#if defined(__CUDACC_RTC__)
#include <fmha_std.h>
#else
#include <cstddef>
#include <cstdint>
#endif

// Data that is read from the cubin and that no kernel uses.
#define FMHA_EXPORT extern "C" __attribute__((used)) __device__ const
