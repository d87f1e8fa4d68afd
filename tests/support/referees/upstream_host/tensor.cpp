// PyTorch's rules for views, copies and new tensors, without any values.
#include <algorithm>
#include <numeric>

#include "torch/nn/functional.h"
#include "torch/python.h"

namespace {
using Extents = std::vector<int64_t>;

int64_t product(const Extents &sizes) {
    return std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
}

// Strides of a dense tensor with the axes in the given order (outermost first).
Extents dense(const Extents &sizes, const std::vector<size_t> &order) {
    Extents out(sizes.size());
    int64_t step = 1;
    for (auto axis = order.rbegin(); axis != order.rend(); ++axis) {
        out[*axis] = step;
        step *= std::max<int64_t>(sizes[*axis], 1);
    }
    return out;
}

std::vector<size_t> in_order(size_t count) {
    std::vector<size_t> out(count);
    std::iota(out.begin(), out.end(), 0);
    return out;
}

at::Tensor fresh(const Extents &sizes, const Extents &steps, at::ScalarType type, const char *how) {
    const auto bytes = static_cast<uint64_t>(product(sizes) * item_bytes(type));
    return {sizes, steps, type, host::allocate(bytes, how, static_cast<int>(type), sizes)};
}

// Strides that give the same memory other sizes; nothing if only a copy can have these sizes.
std::optional<Extents> view(const at::Tensor &tensor, const Extents &sizes) {
    if (tensor.numel() == 0) return dense(sizes, in_order(sizes.size()));
    Extents out(sizes.size());
    auto into = static_cast<int64_t>(sizes.size()) - 1;
    int64_t base = tensor.steps.empty() ? 1 : tensor.steps.back(), held = 1, made = 1;
    for (int64_t axis = tensor.dim() - 1; axis >= 0; --axis) {
        held *= tensor.lengths[axis];
        const bool ends = axis == 0 || (tensor.lengths[axis - 1] != 1 && tensor.steps[axis - 1] != held * base);
        if (!ends) continue;
        while (into >= 0 && (made < held || sizes[into] == 1)) {
            out[into] = made * base;
            made *= sizes[into--];
        }
        if (made != held) return std::nullopt;
        if (axis > 0) {
            base = tensor.steps[axis - 1];
            held = made = 1;
        }
    }
    return into == -1 ? std::optional(out) : std::nullopt;
}
}  // namespace

namespace at {
int64_t Tensor::numel() const { return product(lengths); }

bool Tensor::is_contiguous() const {
    int64_t step = 1;
    for (int64_t axis = dim() - 1; axis >= 0; --axis) {
        if (lengths[axis] != 1 && steps[axis] != step) return numel() == 0;
        step *= lengths[axis];
    }
    return true;
}

Tensor Tensor::transpose(int64_t a, int64_t b) const {
    Tensor out = *this;
    a += a < 0 ? dim() : 0;
    b += b < 0 ? dim() : 0;
    std::swap(out.lengths.at(a), out.lengths.at(b));
    std::swap(out.steps.at(a), out.steps.at(b));
    return out;
}

Tensor Tensor::reshape(const IntArrayRef &sizes) const {
    TORCH_CHECK(product(sizes) == numel(), "shape is invalid for input of size ", numel());
    if (auto steps = view(*this, sizes)) return {sizes, *steps, type, address};
    return fresh(sizes, dense(sizes, in_order(sizes.size())), type, "copy");
}

Tensor Tensor::index(std::initializer_list<torch::indexing::TensorIndex> indices) const {
    Tensor out = *this;
    out.lengths.back() = std::min(out.lengths.back(), (indices.end() - 1)->stop.value());
    return out;
}

Tensor Tensor::select(int64_t axis, int64_t index) const {
    Tensor out = *this;
    out.address += index * steps.at(axis) * item_bytes(type);
    out.lengths.erase(out.lengths.begin() + axis);
    out.steps.erase(out.steps.begin() + axis);
    return out;
}

Tensor Tensor::slice(int64_t axis, int64_t start, int64_t stop) const {
    Tensor out = *this;
    axis += axis < 0 ? dim() : 0;
    out.address += start * steps.at(axis) * item_bytes(type);
    out.lengths.at(axis) = std::min(stop, lengths.at(axis)) - start;
    return out;
}

Tensor Tensor::contiguous() const {
    return is_contiguous() ? *this : fresh(lengths, dense(lengths, in_order(lengths.size())), type, "copy");
}

Tensor Tensor::to(ScalarType wanted) const {
    return wanted == type ? *this : fresh(lengths, dense(lengths, in_order(lengths.size())), wanted, "convert");
}

Tensor Tensor::sum(int64_t axis) const {
    auto sizes = lengths;
    sizes.erase(sizes.begin() + axis + (axis < 0 ? dim() : 0));
    return fresh(sizes, dense(sizes, in_order(sizes.size())), type, "sum");
}

Tensor operator*(const Tensor &a, const Tensor &) {
    return fresh(a.lengths, dense(a.lengths, in_order(a.lengths.size())), a.type, "product");
}

Tensor empty(const IntArrayRef &sizes, const c10::TensorOptions &options) {
    return fresh(sizes, dense(sizes, in_order(sizes.size())), options.type, "empty");
}

const Tensor &Tensor::copy_(const Tensor &from) const {
    host::note(host::text_of("copy ", address, " ", from.address));
    return *this;
}

Tensor &Tensor::zero_() { return fill_(0); }

Tensor &Tensor::fill_(double value) {
    host::note(host::text_of("fill ", address, " ", value));
    return *this;
}

Tensor reshape(const Tensor &tensor, const IntArrayRef &sizes) { return tensor.reshape(sizes); }

void sum_out(Tensor &out, const Tensor &tensor, const IntArrayRef &axes) {
    host::note(host::text_of("sum ", out.address, " ", tensor.address, " ", axes.at(0)));
}
}  // namespace at

namespace torch {
Tensor zeros(const IntArrayRef &sizes, const TensorOptions &options) {
    return fresh(sizes, dense(sizes, in_order(sizes.size())), options.type, "zeros");
}

Tensor empty_like(const Tensor &tensor) {
    auto order = in_order(tensor.lengths.size());
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return tensor.steps[a] > tensor.steps[b]; });
    return fresh(tensor.lengths, dense(tensor.lengths, order), tensor.type, "empty");
}

namespace nn::functional {
Tensor pad(const Tensor &tensor, const PadFuncOptions &options) {
    auto sizes = tensor.lengths;
    sizes.back() += options.pad.at(1);
    return fresh(sizes, dense(sizes, in_order(sizes.size())), tensor.type, "pad");
}
}  // namespace nn::functional
}  // namespace torch
