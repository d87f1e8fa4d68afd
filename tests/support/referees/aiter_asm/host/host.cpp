// Upstream's choice of a forward kernel and its launch, called with numbers.

#include "asm_fmha_fwd_v3_gfx942.cpp"
#include "asm_fmha_fwd_v3_gfx950.cpp"

struct Asked {
  uint64_t q, k, v, lse, o, seqstart_q, seqstart_k;
  int32_t units, rows, keys, batch, hdim, hdim_v, heads, kv_heads, left, right, mask, cvt, group, has_lse;
  int32_t row[4], head[5], sequence[5];  // of q, k, v, o, and of lse
  float scale;
};

// 1 where a kernel is launched, 0 where upstream takes none.
extern "C" __attribute__((visibility("default"))) int fmha_aiter_forward(const char* arch, const Asked* a, Launched* out) {
  units = a->units;
  launched = {};
  setenv("AITER_ASM_DIR", "", 1);
  auto to = [](uint64_t address) { return reinterpret_cast<void*>(address); };
  aiter::mha_fwd_traits traits(a->hdim, a->hdim_v, "bf16", a->group, false, mask_enum(a->mask), bias_enum::no_bias,
                               a->has_lse, false, true, a->cvt, false);
  fmha_fwd_args args{};
  args.q_ptr = to(a->q), args.k_ptr = to(a->k), args.v_ptr = to(a->v), args.lse_ptr = to(a->lse), args.o_ptr = to(a->o);
  args.seqstart_q_ptr = to(a->seqstart_q), args.seqstart_k_ptr = to(a->seqstart_k);
  args.seqlen_q = a->rows, args.seqlen_k = a->keys, args.batch = a->batch, args.hdim_q = a->hdim, args.hdim_v = a->hdim_v;
  args.nhead_q = a->heads, args.nhead_k = a->kv_heads, args.scale_s = a->scale;
  args.stride_q = a->row[0], args.stride_k = a->row[1], args.stride_v = a->row[2], args.stride_o = a->row[3];
  args.nhead_stride_q = a->head[0], args.nhead_stride_k = a->head[1], args.nhead_stride_v = a->head[2];
  args.nhead_stride_o = a->head[3], args.nhead_stride_lse = a->head[4];
  args.batch_stride_q = a->sequence[0], args.batch_stride_k = a->sequence[1], args.batch_stride_v = a->sequence[2];
  args.batch_stride_o = a->sequence[3], args.batch_stride_lse = a->sequence[4];
  args.window_size_left = a->left, args.window_size_right = a->right, args.mask_type = a->mask;
  bool newer = std::string(arch) == "gfx950";
  float time = newer ? aiter::gfx950::fmha_fwd_v3(traits, args, {}) : aiter::gfx942::fmha_fwd_v3(traits, args, {});
  *out = launched;
  return time >= 0;
}
