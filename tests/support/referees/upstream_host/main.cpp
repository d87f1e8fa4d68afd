// Reads one call per line, makes it with upstream's host code, and writes one JSON object per line (``host/call.h``).
#include <cxxabi.h>

#include <memory>

#include "flash_api.cpp"
#include "fields.h"
#include "host/call.h"

namespace {
using host::Call, host::Tensors, host::number;

Tensors fwd(const Call &c) {
    auto q = c.tensor("q");
    auto out = c.maybe("out"), slopes = c.maybe("alibi_slopes");
    return flash::mha_fwd(q, c.tensor("k"), c.tensor("v"), out, slopes, c.real("p_dropout"), c.real("softmax_scale"),
                          c.flag("is_causal"), c.integer("window_size_left"), c.integer("window_size_right"),
                          c.real("softcap"), c.flag("return_softmax"), std::nullopt);
}

Tensors varlen_fwd(const Call &c) {
    auto q = c.tensor("q");
    auto out = c.maybe("out"), seqused = c.maybe("seqused_k"), table = c.maybe("block_table"),
         slopes = c.maybe("alibi_slopes");
    auto leftpad = c.maybe<const at::Tensor>("leftpad_k");
    return flash::mha_varlen_fwd(q, c.tensor("k"), c.tensor("v"), out, c.tensor("cu_seqlens_q"),
                                 c.tensor("cu_seqlens_k"), seqused, leftpad, table, slopes, c.integer("max_seqlen_q"),
                                 c.integer("max_seqlen_k"), c.real("p_dropout"), c.real("softmax_scale"),
                                 c.flag("zero_tensors"), c.flag("is_causal"), c.integer("window_size_left"),
                                 c.integer("window_size_right"), c.real("softcap"), c.flag("return_softmax"),
                                 std::nullopt);
}

Tensors fwd_kvcache(const Call &c) {
    auto q = c.tensor("q");
    auto k = c.maybe<const at::Tensor>("k"), v = c.maybe<const at::Tensor>("v"),
         lengths = c.maybe<const at::Tensor>("seqlens_k"), cos = c.maybe<const at::Tensor>("rotary_cos"),
         sin = c.maybe<const at::Tensor>("rotary_sin"), index = c.maybe<const at::Tensor>("cache_batch_idx"),
         leftpad = c.maybe<const at::Tensor>("leftpad_k");
    auto table = c.maybe("block_table"), slopes = c.maybe("alibi_slopes"), out = c.maybe("out");
    return flash::mha_fwd_kvcache(q, c.tensor("kcache"), c.tensor("vcache"), k, v, lengths, cos, sin, index, leftpad,
                                  table, slopes, out, c.real("softmax_scale"), c.flag("is_causal"),
                                  c.integer("window_size_left"), c.integer("window_size_right"), c.real("softcap"),
                                  c.flag("is_rotary_interleaved"), c.integer("num_splits"));
}

Tensors bwd(const Call &c) {
    auto dq = c.maybe("dq"), dk = c.maybe("dk"), dv = c.maybe("dv"), slopes = c.maybe("alibi_slopes"),
         rng = c.maybe("rng_state");
    return flash::mha_bwd(c.tensor("dout"), c.tensor("q"), c.tensor("k"), c.tensor("v"), c.tensor("out"),
                          c.tensor("softmax_lse"), dq, dk, dv, slopes, c.real("p_dropout"), c.real("softmax_scale"),
                          c.flag("is_causal"), c.integer("window_size_left"), c.integer("window_size_right"),
                          c.real("softcap"), c.flag("deterministic"), std::nullopt, rng);
}

Tensors varlen_bwd(const Call &c) {
    auto dq = c.maybe("dq"), dk = c.maybe("dk"), dv = c.maybe("dv"), slopes = c.maybe("alibi_slopes"),
         rng = c.maybe("rng_state");
    return flash::mha_varlen_bwd(c.tensor("dout"), c.tensor("q"), c.tensor("k"), c.tensor("v"), c.tensor("out"),
                                 c.tensor("softmax_lse"), dq, dk, dv, c.tensor("cu_seqlens_q"),
                                 c.tensor("cu_seqlens_k"), slopes, c.integer("max_seqlen_q"),
                                 c.integer("max_seqlen_k"), c.real("p_dropout"), c.real("softmax_scale"),
                                 c.flag("zero_tensors"), c.flag("is_causal"), c.integer("window_size_left"),
                                 c.integer("window_size_right"), c.real("softcap"), c.flag("deterministic"),
                                 std::nullopt, rng);
}

template <typename Params>
std::string layout(const char *) {
    std::string out;
#define FIELD(NAME)                                                                                        \
    out += host::text_of(out.empty() ? "" : ", ", "[\"" #NAME "\", ", offsetof(Params, NAME), ", ", \
                         sizeof(Params::NAME), "]");
    FORWARD_FIELDS(FIELD)
    if constexpr (std::is_same_v<Params, flash::Flash_bwd_params>) {
        BACKWARD_FIELDS(FIELD)
    }
#undef FIELD
    return host::text_of("{\"bytes\": ", sizeof(Params), ", \"fields\": [", out, "]}");
}

std::string answer(const Call &c) {
    static const std::map<std::string, Tensors (*)(const Call &)> apis{
        {"mha_fwd", fwd}, {"mha_varlen_fwd", varlen_fwd}, {"mha_fwd_kvcache", fwd_kvcache}, {"mha_bwd", bwd},
        {"mha_varlen_bwd", varlen_bwd},
    };
    const auto what = c.text("call");
    if (what == "num_splits_heuristic")
        return number(flash::num_splits_heuristic(c.integer("blocks"), c.integer("multiprocessors"),
                                                  c.integer("key_blocks"), c.integer("most")));
    if (what == "demangle") {
        int status = 0;
        std::unique_ptr<char, void (*)(void *)> found(
            abi::__cxa_demangle(c.text("symbol").c_str(), nullptr, nullptr, &status), free);
        return host::quoted(status == 0 ? found.get() : "");
    }
    if (what == "layout")
        return host::text_of("{\"forward\": ", layout<flash::Flash_fwd_params>(""), ", \"backward\": ",
                             layout<flash::Flash_bwd_params>(""), "}");
    return host::effects(c, apis.at(what));
}
}  // namespace

int main() {
    std::ios::sync_with_stdio(false);
    for (std::string line; std::getline(std::cin, line);) std::cout << answer(Call(line)) << '\n';
}
