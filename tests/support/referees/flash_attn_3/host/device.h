// CUDA's headers under g++: intrinsics that device code names are declared, and the driver's and runtime's calls recorded.
#pragma once
#include <cuda.h>
#include <cuda_runtime.h>
#include <device_launch_parameters.h>

template <typename T>
T __shfl_sync(unsigned, T, int, int = 32);
template <typename T>
T __shfl_up_sync(unsigned, T, unsigned, int = 32);
template <typename T>
T __shfl_down_sync(unsigned, T, unsigned, int = 32);
template <typename T>
T __shfl_xor_sync(unsigned, T, int, int = 32);
unsigned __ballot_sync(unsigned, int);
int __popc(unsigned);
void __syncthreads();
void __syncwarp(unsigned = ~0u);
template <typename T, typename U>
T atomicAdd(T *, U);
float __fdividef(float, float);
unsigned __byte_perm(unsigned, unsigned, unsigned);
template <typename T>
T __ldg(const T *);

#include "host/record.h"

namespace {
template <typename T>
std::string list(const T *values, unsigned count) {
    std::string out;
    for (unsigned k = 0; k < count; ++k) out += text_of(k ? ", " : "", values[k]);
    return "[" + out + "]";
}
}  // namespace

CUresult cuTensorMapEncodeTiled(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, void *address,
                                const cuuint64_t *shape, const cuuint64_t *strides, const cuuint32_t *box,
                                const cuuint32_t *steps, CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill) {
    maps.push_back(text_of("{\"type\": ", type, ", \"address\": ", reinterpret_cast<uint64_t>(address), ", \"shape\": ",
                           list(shape, rank), ", \"strides\": ", list(strides, rank - 1), ", \"box\": ", list(box, rank),
                           ", \"steps\": ", list(steps, rank), ", \"interleave\": ", interleave, ", \"swizzle\": ", swizzle,
                           ", \"promotion\": ", promotion, ", \"fill\": ", fill, "}"));
    return CUDA_SUCCESS;
}
extern "C" {
cudaError_t cudaGetDevice(int *device) { return *device = 0, cudaSuccess; }
cudaError_t cudaGetLastError() { return cudaSuccess; }
const char *cudaGetErrorString(cudaError_t) { return ""; }
cudaError_t cudaFuncSetAttribute(const void *, cudaFuncAttribute, int) { return cudaSuccess; }
cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr, int) { return *value = 0, cudaSuccess; }
}
template <typename Params>
cudaError_t cudaFuncSetAttribute(void (*)(Params), cudaFuncAttribute, int) { return cudaSuccess; }
