// The part of PyTorch's random state that kernels see: a seed, and where in its stream a launch begins.
#pragma once

namespace at {
struct PhiloxCudaState {
  unsigned long long seed = 0;
  unsigned long long offset = 0;
  bool captured_ = false;

  __host__ __device__ constexpr PhiloxCudaState() {}
  __host__ __device__ constexpr PhiloxCudaState(unsigned long long seed_, unsigned long long offset_)
      : seed(seed_), offset(offset_) {}
};
}  // namespace at
