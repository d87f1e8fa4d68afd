#pragma once
#include "host/tensor.h"
namespace torch::nn::functional {
struct PadFuncOptions {
    std::vector<int64_t> pad;
    PadFuncOptions(std::initializer_list<int64_t> pad) : pad(pad) {}
};
at::Tensor pad(const at::Tensor &tensor, const PadFuncOptions &options);
}  // namespace torch::nn::functional
