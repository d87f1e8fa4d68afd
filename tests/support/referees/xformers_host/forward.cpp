// Upstream's forward host function, unmodified but for the launch, and what tests ask of its kernels.
#include "attention_forward_generic.cpp"
#include "kernels.h"
#include "ways.h"

namespace host {
Tensors forward(const Call &c) {
    const auto many = [&](const char *name) {
        return c.values.contains(name) ? std::optional<int64_t>(c.integer(name)) : std::nullopt;
    };
    auto [out, lse, seed, offset, queries, keys] = efficient_attention_forward_cutlass(
        c.tensor("query"), c.tensor("key"), c.tensor("value"), c.maybe("bias"), c.maybe("seqstart_q"),
        c.maybe("seqstart_k"), many("max_seqlen_q"), many("max_seqlen_k"), c.real("dropout_p"),
        c.integer("custom_mask_type"), c.flag("compute_logsumexp"), c.real("scale"), c.maybe("seqlen_k"),
        many("window_size"));
    return {out, lse};
}

std::string forward_kernels(const Call &call) {
    std::vector<std::string> found;
    const auto each = [&](auto kernel, auto function) { found.push_back(facts<decltype(kernel)>(function)); };
    for_type(call, [&](auto type) { dispatch_cutlassF<decltype(type)>(each, call.integer("cc")); });
    return list(found, [](const auto &text) { return text; });
}

std::string forward_examine(const Call &call) {
    std::string found = "null";
    const auto each = [&, wanted = call.text("kernel") + "("](auto kernel, auto function) {
        if (name_of(reinterpret_cast<const void *>(function)).starts_with(wanted))
            found = examine<decltype(kernel)>(call);
    };
    for_type(call, [&](auto type) { dispatch_cutlassF<decltype(type)>(each, call.integer("cc")); });
    return found;
}

std::string forward_layout() {
    return layout<AttentionKernel<float, cutlass::arch::Sm80, true, 64, 64, 64, true, true>::Params>();
}
}  // namespace host
