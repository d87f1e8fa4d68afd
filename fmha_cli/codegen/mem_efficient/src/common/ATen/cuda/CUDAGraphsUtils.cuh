// How kernels read the random state: as a pair (seed, offset).
#pragma once

#include <tuple>

#include <ATen/cuda/CUDAGeneratorImpl.h>

namespace at {
namespace cuda {
namespace philox {
__device__ inline std::tuple<unsigned long long, unsigned long long> unpack(PhiloxCudaState state) {
  return {state.seed, state.offset};
}
}  // namespace philox
}  // namespace cuda
}  // namespace at
