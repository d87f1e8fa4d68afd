// CUDA's device code as plain C++: the place of a block is set by the caller, and there is one thread.
#pragma once
#include <climits>
#include <cmath>

#include "cuda_runtime_api.h"

#define __launch_bounds__(...)

using std::signbit;

inline dim3 threadIdx{0, 0, 0}, blockIdx{0, 0, 0}, blockDim, gridDim;

template <typename T>
T __shfl_sync(unsigned, T value, int, int = 32) {
    return value;
}

// Names in the bodies of device functions, which nothing here calls.
void __syncthreads();
int __syncthreads_and(int);
void __syncwarp(unsigned = ~0u);
void __threadfence();
float __shfl_xor_sync(unsigned, float, int);
int atomicMax(int *, int);
unsigned atomicMin(unsigned *, unsigned);
float atomicAdd(float *, float);
int atomicCAS(int *, int, int);
float __int_as_float(int);
float __uint_as_float(unsigned);
int __float_as_int(float);
unsigned __float_as_uint(float);
namespace cutlass::arch {
int LaneId();
}
