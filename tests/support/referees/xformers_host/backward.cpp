// Upstream's backward host function, unmodified but for the launch, and what tests ask of its kernels.
#include "attention_backward_generic.cpp"
#include "kernels.h"
#include "ways.h"

namespace host {
Tensors backward(const Call &c) {
    const auto many = [&](const char *name) {
        return c.values.contains(name) ? std::optional<int64_t>(c.integer(name)) : std::nullopt;
    };
    // The host function reads both words from the memory of these tensors.
    static int64_t seed, offset;
    seed = std::stoll(c.text("seed"));
    offset = std::stoll(c.text("offset"));
    const auto word = [](int64_t &value) {
        return at::Tensor{{1}, {1}, at::ScalarType::Long, reinterpret_cast<uint64_t>(&value)};
    };
    at::globalContext().deterministic = c.flag("deterministic");
    auto [dq, dk, dv, dbias] = mem_efficient_attention_backward_cutlass(
        c.tensor("grad_out"), c.tensor("query"), c.tensor("key"), c.tensor("value"), c.maybe("bias"), c.tensor("out"),
        c.maybe("cu_seqlens_q"), c.maybe("cu_seqlens_k"), c.integer("max_seqlen_q"), c.integer("max_seqlen_k"),
        c.tensor("logsumexp"), c.real("dropout_p"), word(seed), word(offset), c.integer("custom_mask_type"),
        c.flag("bias_requires_grad"), c.real("scale"), many("num_splits_key"), many("window_size"));
    return {dq, dk, dv, dbias};
}

std::string backward_kernels(const Call &call) {
    std::vector<std::string> found;
    const auto each = [&](auto kernel, auto function) { found.push_back(facts<decltype(kernel)>(function)); };
    for_type(call, [&](auto type) { dispatch_cutlassB<decltype(type)>(each, call.integer("cc")); });
    return list(found, [](const auto &text) { return text; });
}

std::string backward_examine(const Call &call) {
    std::string found = "null";
    const auto each = [&, wanted = call.text("kernel") + "("](auto kernel, auto function) {
        if (name_of(reinterpret_cast<const void *>(function)).starts_with(wanted))
            found = examine<decltype(kernel)>(call);
    };
    for_type(call, [&](auto type) { dispatch_cutlassB<decltype(type)>(each, call.integer("cc")); });
    return found;
}

std::string backward_layout() {
    return layout<AttentionBackwardKernel<cutlass::arch::Sm80, float, true, false, false, 64, 64, 64>::Params>();
}
}  // namespace host
