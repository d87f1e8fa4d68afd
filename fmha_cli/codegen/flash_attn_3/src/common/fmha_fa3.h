// What every translation unit needs before upstream's headers.
#pragma once

#include <fmha_std.h>

// softmax.h needs it; the functions of <cmath> are built into NVRTC, its constants are not.
#ifndef M_LN2
#define M_LN2 0.69314718055994530942
#endif

// Data that is read from the cubin and that no kernel uses.
#define FMHA_EXPORT extern "C" __attribute__((used)) __device__ const
