// The declarations of the CUDA runtime and driver that upstream's engines use; host.cpp has the functions.
#pragma once

#include <cstddef>
#include <cstdint>

#define CUDART_VERSION 13000
#define CUDAAPI

enum cudaError_t { cudaSuccess, cudaErrorNotSupported = 801 };
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };
enum cudaMemcpyKind { cudaMemcpyHostToDevice = 1 };
enum cudaDriverEntryPointQueryResult { cudaDriverEntryPointSuccess };
enum CUresult { CUDA_SUCCESS, CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_NOT_FOUND = 500, CUDA_ERROR_NOT_SUPPORTED = 801 };
enum CUtensorMapDataType { CU_TENSOR_MAP_DATA_TYPE_FLOAT16 = 6, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 = 9 };
enum CUtensorMapInterleave { CU_TENSOR_MAP_INTERLEAVE_NONE };
enum CUtensorMapSwizzle { CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_SWIZZLE_128B = 3 };
enum CUtensorMapL2promotion { CU_TENSOR_MAP_L2_PROMOTION_NONE };
enum CUtensorMapFloatOOBfill { CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA };
constexpr unsigned cudaEnableDefault = 0;

using cudaStream_t = struct FakeStream*;
using cudaLibrary_t = struct FakeLibrary*;
using cudaKernel_t = struct FakeKernel*;
using cudaJitOption = int;
using cudaLibraryOption = int;
using cuuint32_t = uint32_t;
using cuuint64_t = uint64_t;

struct cudaDeviceProp {
  int multiProcessorCount;
};
struct dim3 {
  unsigned x, y, z;
  dim3(unsigned x, unsigned y, unsigned z) : x(x), y(y), z(z) {}
};
struct CUtensorMap {
  alignas(64) uint64_t opaque[16];
};

cudaError_t cudaGetDevice(int* device);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* out, int device);
cudaError_t cudaGetLastError();
cudaError_t cudaMemsetAsync(void* at, int value, size_t size, cudaStream_t stream);
cudaError_t cudaMemcpyAsync(void*, const void*, size_t, cudaMemcpyKind, cudaStream_t);
cudaError_t cudaLibraryLoadData(cudaLibrary_t*, const void*, cudaJitOption*, void**, unsigned, cudaLibraryOption*, void**, unsigned);
cudaError_t cudaLibraryGetKernel(cudaKernel_t*, cudaLibrary_t, const char* name);
cudaError_t cudaLibraryUnload(cudaLibrary_t);
cudaError_t cudaKernelSetAttributeForDevice(cudaKernel_t, cudaFuncAttribute, int value, int device);
cudaError_t cudaLaunchKernel(const void*, dim3 grid, dim3 block, void** arguments, size_t shared, cudaStream_t);
cudaError_t cudaGetDriverEntryPointByVersion(const char*, void** out, unsigned, unsigned, cudaDriverEntryPointQueryResult*);
