// Every member of upstream's parameter structs, in the order of csrc/flash_attn/src/flash.h.
#pragma once
#define FORWARD_FIELDS(F)                                                                                              \
    F(q_ptr) F(k_ptr) F(v_ptr)                                                                                         \
    F(q_batch_stride) F(k_batch_stride) F(v_batch_stride) F(q_row_stride) F(k_row_stride) F(v_row_stride)              \
    F(q_head_stride) F(k_head_stride) F(v_head_stride)                                                                 \
    F(h) F(h_k) F(h_h_k_ratio)                                                                                         \
    F(o_ptr) F(oaccum_ptr) F(o_batch_stride) F(o_row_stride) F(o_head_stride)                                          \
    F(p_ptr) F(softmax_lse_ptr) F(softmax_lseaccum_ptr)                                                                \
    F(b) F(seqlen_q) F(seqlen_k) F(seqlen_knew) F(d) F(seqlen_q_rounded) F(seqlen_k_rounded) F(d_rounded)              \
    F(rotary_dim) F(total_q) F(scale_softmax) F(scale_softmax_log2)                                                    \
    F(cu_seqlens_q) F(cu_seqlens_k) F(leftpad_k) F(seqused_k) F(blockmask)                                             \
    F(knew_ptr) F(vnew_ptr) F(knew_batch_stride) F(vnew_batch_stride) F(knew_row_stride) F(vnew_row_stride)            \
    F(knew_head_stride) F(vnew_head_stride) F(rotary_cos_ptr) F(rotary_sin_ptr)                                        \
    F(cache_batch_idx) F(block_table) F(block_table_batch_stride) F(page_block_size)                                   \
    F(p_dropout) F(p_dropout_in_uint8_t) F(rp_dropout) F(scale_softmax_rp_dropout)                                     \
    F(window_size_left) F(window_size_right) F(softcap) F(philox_args) F(rng_state)                                    \
    F(is_bf16) F(is_causal) F(is_seqlens_k_cumulative) F(is_rotary_interleaved) F(num_splits)                          \
    F(alibi_slopes_ptr) F(alibi_slopes_batch_stride) F(unpadded_lse) F(seqlenq_ngroups_swapped)

#define BACKWARD_FIELDS(F)                                                                                             \
    F(do_ptr) F(dq_ptr) F(dk_ptr) F(dv_ptr) F(dq_accum_ptr) F(dk_accum_ptr) F(dv_accum_ptr)                            \
    F(do_batch_stride) F(do_row_stride) F(do_head_stride) F(dq_batch_stride) F(dk_batch_stride) F(dv_batch_stride)     \
    F(dq_row_stride) F(dk_row_stride) F(dv_row_stride) F(dq_head_stride) F(dk_head_stride) F(dv_head_stride)           \
    F(dsoftmax_sum) F(deterministic) F(dq_accum_split_stride)
