// PyTorch's tensors without values, as far as flash_api.cpp reads them, and the device that a call describes.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "host/text.h"

#define TORCH_CHECK(CONDITION, ...) \
    if (!(CONDITION)) throw std::runtime_error(text_of(#CONDITION, ": " __VA_OPT__(, ) __VA_ARGS__));

struct Description {
    int major = 9, minor = 0, multiProcessorCount = 132;
};
inline Description described;
inline uint64_t next_address = uint64_t{1} << 50;
struct Allocation {
    uint64_t address;
    int64_t count;
    bool zero;
};
inline std::vector<Allocation> allocated;

namespace torch::indexing {
struct Slice {
    Slice(int64_t, int64_t) {}
};
}  // namespace torch::indexing

namespace at {
enum class ScalarType { Int, Half, Float, BFloat16, Float8_e4m3fn };
inline int64_t item_bytes(ScalarType t) { return t == ScalarType::Float8_e4m3fn ? 1 : t == ScalarType::Half || t == ScalarType::BFloat16 ? 2 : 4; }
constexpr auto kFloat = ScalarType::Float;
struct Options {
    ScalarType type = ScalarType::Float;
    Options dtype(ScalarType wanted) const { return {wanted}; }
};
struct Tensor {
    std::vector<int64_t> lengths, steps;
    ScalarType type = ScalarType::Float;
    uint64_t address = 0;
    bool is_cuda() const { return true; }
    int get_device() const { return 0; }
    ScalarType dtype() const { return type; }
    ScalarType scalar_type() const { return type; }
    Options options() const { return {type}; }
    std::vector<int64_t> sizes() const { return lengths; }
    int64_t at(const std::vector<int64_t> &v, int64_t axis) const { return v.at(axis < 0 ? axis + v.size() : axis); }
    int64_t size(int64_t axis) const { return at(lengths, axis); }
    int64_t stride(int64_t axis) const { return at(steps, axis); }
    bool is_contiguous() const { return true; }
    void *data_ptr() const { return reinterpret_cast<void *>(address); }
    template <typename T>
    T *data_ptr() const { return reinterpret_cast<T *>(address); }
    Tensor index(std::initializer_list<torch::indexing::Slice>) const { return *this; }
    const Tensor &zero_() const { return *this; }
    const Tensor &fill_(double) const { return *this; }
};
namespace cuda {
inline Description *getCurrentDeviceProperties() { return &described; }
struct Stream {
    decltype(nullptr) stream() const { return nullptr; }
};
inline Stream getCurrentCUDAStream() { return {}; }
}  // namespace cuda
}  // namespace at

namespace torch {
using IntArrayRef = std::vector<int64_t>;
constexpr auto kFloat16 = at::ScalarType::Half, kBFloat16 = at::ScalarType::BFloat16, kFloat8_e4m3fn = at::ScalarType::Float8_e4m3fn, kInt32 = at::ScalarType::Int;
inline at::Tensor empty(const std::vector<int64_t> &sizes, at::Options options) {
    at::Tensor made{sizes, std::vector<int64_t>(sizes.size()), options.type, next_address};
    int64_t step = 1;
    for (size_t axis = sizes.size(); axis-- > 0; step *= sizes[axis]) made.steps[axis] = step;
    allocated.push_back({next_address, step, false});
    next_address += (step * at::item_bytes(options.type) / 4096 + 2) * 4096;
    return made;
}
inline at::Tensor empty_like(const at::Tensor &other) { return empty(other.sizes(), other.options()); }
inline at::Tensor zeros(const std::vector<int64_t> &sizes, at::Options options) {
    at::Tensor made = empty(sizes, options);
    allocated.back().zero = true;
    return made;
}
}  // namespace torch
inline int make_cuda_guard_from_tensor(const at::Tensor &) { return 0; }
#define CHECK_DEVICE(x) TORCH_CHECK(x.is_cuda())
#define CHECK_SHAPE(x, ...) TORCH_CHECK(x.sizes() == torch::IntArrayRef({__VA_ARGS__}))
#define CHECK_CONTIGUOUS(x) TORCH_CHECK(x.is_contiguous())
#define PREPARE_VARLEN_MAX_BATCHES_1CTA 992
