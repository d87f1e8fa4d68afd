// What every translation unit needs before upstream's headers.
#pragma once

#if defined(__CUDACC_RTC__)
#include <fmha_std.h>

// NVRTC refuses functions that are explicitly for the host. Upstream's are small, so they are compiled for the device.
#undef __host__
#define __host__ __device__
#else
#include <cstddef>
#include <cstdint>
#endif

// Upstream's own form for NVRTC takes two arguments, and the backward kernel passes more.
#define TORCH_CHECK(condition, ...) \
  if (!(condition)) return false

#include <ATen/cuda/CUDAGeneratorImpl.h>

#include <cutlass/aligned_buffer.h>

namespace cutlass {
// Kernels without dropout that preload have a buffer of no elements. NVRTC refuses an array of length 0, and with nvcc the
// shared memory of both must be laid out alike.
template <typename T, int Align>
struct AlignedBuffer<T, 0, Align> {
  using Storage = uint8_t;
  static int const kCount = 0;
  __host__ __device__ T* data() { return reinterpret_cast<T*>(this); }
  __host__ __device__ T const* data() const { return reinterpret_cast<T const*>(this); }
};
}  // namespace cutlass

// Data that is read from the cubin and that no kernel uses.
#define FMHA_EXPORT extern "C" __attribute__((used)) __device__ const
