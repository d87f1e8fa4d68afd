// A tensor without values: sizes, strides in elements, element type and address, with PyTorch's rules for views.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

// A block, like PyTorch's: callers may omit the semicolon.
#define TORCH_CHECK(CONDITION, ...)                                                          \
    if (!(CONDITION)) {                                                                      \
        throw host::Refused(host::text_of("" __VA_OPT__(, ) __VA_ARGS__), #CONDITION);       \
    }

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
enum class ScalarType { Int, Long, Half, Float, BFloat16, Byte };
inline int64_t item_bytes(ScalarType type) {
    switch (type) {
        case ScalarType::Byte: return 1;
        case ScalarType::Half:
        case ScalarType::BFloat16: return 2;
        case ScalarType::Long: return 8;
        default: return 4;
    }
}
enum class DeviceType { CPU, CUDA };
struct Device {
    DeviceType type = DeviceType::CUDA;
    int index() const { return 0; }
};

struct IntArrayRef : std::vector<int64_t> {
    using std::vector<int64_t>::vector;
    IntArrayRef(const std::vector<int64_t> &values) : std::vector<int64_t>(values) {}
    template <size_t N>
    IntArrayRef(const int64_t (&values)[N]) : std::vector<int64_t>(values, values + N) {}
    const std::vector<int64_t> &vec() const { return *this; }
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

// No two tensors of a call share memory.
struct Storage {
    uint64_t address;
    bool is_alias_of(const Storage &other) const { return address == other.address; }
};

struct Tensor {
    std::vector<int64_t> lengths, steps;
    ScalarType type = ScalarType::Float;
    uint64_t address = 0;

    bool is_cuda() const { return true; }
    bool is_sparse() const { return false; }
    bool defined() const { return !lengths.empty(); }
    Storage storage() const { return {address}; }
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
    const void *const_data_ptr() const { return data_ptr(); }
    template <typename T>
    T *data_ptr() const {
        return reinterpret_cast<T *>(address);
    }
    Tensor transpose(int64_t a, int64_t b) const;
    Tensor reshape(const IntArrayRef &sizes) const;
    Tensor select(int64_t axis, int64_t index) const;
    Tensor slice(int64_t axis, int64_t start, int64_t stop) const;
    Tensor contiguous() const;
    Tensor to(ScalarType wanted) const;
    Tensor sum(int64_t axis) const;
    Tensor index(std::initializer_list<torch::indexing::TensorIndex> indices) const;
    const Tensor &copy_(const Tensor &from) const;
    Tensor &zero_();
    Tensor &fill_(double value);
};

Tensor operator*(const Tensor &a, const Tensor &b);
Tensor empty(const IntArrayRef &sizes, const c10::TensorOptions &options);
Tensor reshape(const Tensor &tensor, const IntArrayRef &sizes);
void sum_out(Tensor &out, const Tensor &tensor, const IntArrayRef &axes);
}  // namespace at

namespace torch {
using at::Tensor;
using c10::IntArrayRef;
using at::empty;
using c10::TensorOptions;
constexpr c10::ScalarType kFloat16 = c10::ScalarType::Half, kBFloat16 = c10::ScalarType::BFloat16,
                          kFloat32 = c10::ScalarType::Float, kInt32 = c10::ScalarType::Int,
                          kInt64 = c10::ScalarType::Long;
constexpr c10::DeviceType kCUDA = c10::DeviceType::CUDA;
Tensor zeros(const IntArrayRef &sizes, const TensorOptions &options);
Tensor empty_like(const Tensor &tensor);
}  // namespace torch
