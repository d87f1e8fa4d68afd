// The members of Composable Kernel's arguments that the assembly kernels' host code reads.

#pragma once
#include <ck_tile/core.hpp>

#include "mask.hpp"

enum class bias_enum { no_bias = 0, elementwise_bias, alibi };
struct FmhaFwdBf16;
struct FmhaFwdFp16;

struct fmha_fwd_traits {
  int hdim_q, hdim_v;
  std::string data_type;
  bool is_group_mode, is_v_rowmajor, has_logits_soft_cap;
  mask_enum mask_type;
  bias_enum bias_type;
  bool has_lse, has_dropout, do_fp8_static_quant, skip_min_seqlen_q;
};
struct fmha_fwd_splitkv_traits {
  int hdim_q, hdim_v;
  std::string data_type;
  bool is_group_mode, is_v_rowmajor, has_logits_soft_cap;
  mask_enum mask_type;
  bias_enum bias_type;
  bool has_lse, do_fp8_static_quant;
};
struct fmha_fwd_args {
  const void *q_ptr, *k_ptr, *v_ptr;
  void *lse_ptr, *o_ptr;
  const void *seqstart_q_ptr, *seqstart_k_ptr;
  ck_tile::index_t seqlen_q, seqlen_k, batch, hdim_q, hdim_v, nhead_q, nhead_k;
  float scale_s;
  ck_tile::index_t stride_q, stride_k, stride_v, stride_o;
  ck_tile::index_t nhead_stride_q, nhead_stride_k, nhead_stride_v, nhead_stride_lse, nhead_stride_o;
  ck_tile::index_t batch_stride_q, batch_stride_k, batch_stride_v, batch_stride_lse, batch_stride_o;
  ck_tile::index_t window_size_left, window_size_right, mask_type;
};
struct fmha_fwd_splitkv_args {};
struct fmha_batch_prefill_args {};
