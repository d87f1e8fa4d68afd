// The part of PyTorch's random state that kernels see: a seed, and where in its stream a launch begins.
#pragma once

namespace at {
struct PhiloxCudaState {
  unsigned long long seed;
  unsigned long long offset;
};
}  // namespace at
