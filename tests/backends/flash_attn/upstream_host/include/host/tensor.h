// A tensor without values: sizes, strides in elements, element type and address, with PyTorch's rules for views.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#define TORCH_CHECK(CONDITION, ...)                                                          \
    do {                                                                                     \
        if (!(CONDITION)) throw host::Refused(host::text_of("" __VA_OPT__(, ) __VA_ARGS__), #CONDITION); \
    } while (0)

namespace host {
// The exception of a failed TORCH_CHECK.
struct Refused : std::runtime_error {
    Refused(const std::string &text, const char *condition)
        : std::runtime_error(text.empty() ? "Expected " + std::string(condition) + " to be true" : text) {}
};

template <typename... Parts>
std::string text_of(const Parts &...parts) {
    std::ostringstream out;
    (out << ... << parts);
    return out.str();
}

uint64_t allocate(uint64_t bytes, const char *how, int dtype, const std::vector<int64_t> &sizes);
void note(const std::string &event);
}  // namespace host

namespace c10 {
enum class ScalarType { Int, Long, Half, Float, BFloat16 };
inline int64_t item_bytes(ScalarType type) {
    return type == ScalarType::Long ? 8 : type == ScalarType::Half || type == ScalarType::BFloat16 ? 2 : 4;
}
enum class DeviceType { CPU, CUDA };
struct Device {
    DeviceType type = DeviceType::CUDA;
};

struct IntArrayRef : std::vector<int64_t> {
    using std::vector<int64_t>::vector;
    IntArrayRef(const std::vector<int64_t> &values) : std::vector<int64_t>(values) {}
    template <size_t N>
    IntArrayRef(const int64_t (&values)[N]) : std::vector<int64_t>(values, values + N) {}
};

struct TensorOptions {
    ScalarType type = ScalarType::Float;
    TensorOptions dtype(ScalarType wanted) const { return {wanted}; }
    TensorOptions device(DeviceType) const { return *this; }
};
}  // namespace c10

namespace torch::indexing {
struct NoneType {};
inline constexpr NoneType None;
struct Slice {
    int64_t stop;
    Slice(NoneType, int64_t stop) : stop(stop) {}
};
struct TensorIndex {
    std::optional<int64_t> stop;
    TensorIndex(const char *) {}
    TensorIndex(Slice slice) : stop(slice.stop) {}
};
}  // namespace torch::indexing

namespace at {
using c10::IntArrayRef;
using c10::ScalarType;
constexpr ScalarType kFloat = ScalarType::Float;

struct Tensor {
    std::vector<int64_t> lengths, steps;
    ScalarType type = ScalarType::Float;
    uint64_t address = 0;

    bool is_cuda() const { return true; }
    c10::Device device() const { return {}; }
    ScalarType dtype() const { return type; }
    ScalarType scalar_type() const { return type; }
    c10::TensorOptions options() const { return {type}; }
    int64_t dim() const { return static_cast<int64_t>(lengths.size()); }
    IntArrayRef sizes() const { return lengths; }
    int64_t size(int64_t axis) const { return lengths.at(axis < 0 ? axis + dim() : axis); }
    int64_t stride(int64_t axis) const { return steps.at(axis < 0 ? axis + dim() : axis); }
    int64_t numel() const;
    bool is_contiguous() const;
    void *data_ptr() const { return reinterpret_cast<void *>(address); }
    template <typename T>
    T *data_ptr() const {
        return reinterpret_cast<T *>(address);
    }
    Tensor transpose(int64_t a, int64_t b) const;
    Tensor reshape(const IntArrayRef &sizes) const;
    Tensor index(std::initializer_list<torch::indexing::TensorIndex> indices) const;
    const Tensor &copy_(const Tensor &from) const;
    Tensor &zero_();
    Tensor &fill_(double value);
};

Tensor reshape(const Tensor &tensor, const IntArrayRef &sizes);
void sum_out(Tensor &out, const Tensor &tensor, const IntArrayRef &axes);
}  // namespace at

namespace torch {
using at::Tensor;
using c10::IntArrayRef;
using c10::TensorOptions;
constexpr c10::ScalarType kFloat16 = c10::ScalarType::Half, kBFloat16 = c10::ScalarType::BFloat16,
                          kFloat32 = c10::ScalarType::Float, kInt32 = c10::ScalarType::Int,
                          kInt64 = c10::ScalarType::Long;
constexpr c10::DeviceType kCUDA = c10::DeviceType::CUDA;
Tensor empty(const IntArrayRef &sizes, const TensorOptions &options);
Tensor zeros(const IntArrayRef &sizes, const TensorOptions &options);
Tensor empty_like(const Tensor &tensor);
}  // namespace torch
