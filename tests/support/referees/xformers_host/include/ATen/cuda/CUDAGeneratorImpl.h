// The random state in the layout of the product's stand-in for PyTorch's, and a generator that a test configures.
#pragma once
#include <cstdint>
#include <mutex>
#include <optional>
#include <tuple>

namespace at {
struct PhiloxCudaState {
    uint64_t seed = 0, offset = 0;
    bool captured_ = false;

    PhiloxCudaState() = default;
    PhiloxCudaState(uint64_t seed, uint64_t offset) : seed(seed), offset(offset) {}
    // Of a captured graph, which no call here is.
    PhiloxCudaState(int64_t *, int64_t *, uint32_t) : captured_(true) {}
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

namespace cuda {
namespace detail {
CUDAGeneratorImpl *getDefaultCUDAGenerator();
}
namespace philox {
inline std::tuple<uint64_t, uint64_t> unpack(PhiloxCudaState state) { return {state.seed, state.offset}; }
}  // namespace philox
}  // namespace cuda
}  // namespace at
