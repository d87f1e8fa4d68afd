// The random state in the layout of the product's stand-in for PyTorch's, and a generator that a test configures.
#pragma once
#include <cstdint>
#include <mutex>
#include <optional>

namespace at {
struct PhiloxCudaState {
    uint64_t seed = 0, offset = 0;
};

struct Generator {};

struct CUDAGeneratorImpl {
    std::mutex mutex_;
    PhiloxCudaState philox_cuda_state(uint64_t increment);
};

template <typename Impl>
Impl *get_generator_or_default(const std::optional<Generator> &, Impl *found) {
    return found;
}

namespace cuda::detail {
CUDAGeneratorImpl *getDefaultCUDAGenerator();
}
}  // namespace at
