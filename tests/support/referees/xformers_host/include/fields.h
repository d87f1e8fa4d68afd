// The fields of upstream's two parameter structs, in their order.
#pragma once
#define FORWARD_FIELDS(FIELD)                                                                                          \
    FIELD(query_ptr) FIELD(key_ptr) FIELD(value_ptr) FIELD(attn_bias_ptr) FIELD(seqstart_q_ptr) FIELD(seqstart_k_ptr)   \
    FIELD(causal_diagonal_ptr) FIELD(seqlen_k_ptr) FIELD(causal_diagonal_offset) FIELD(output_ptr)                      \
    FIELD(output_accum_ptr) FIELD(logsumexp_ptr) FIELD(window_size) FIELD(scale) FIELD(head_dim) FIELD(head_dim_value)  \
    FIELD(num_queries) FIELD(num_keys) FIELD(num_keys_absolute) FIELD(custom_mask_type) FIELD(q_strideM)                \
    FIELD(k_strideM) FIELD(v_strideM) FIELD(bias_strideM) FIELD(o_strideM) FIELD(q_strideH) FIELD(k_strideH)            \
    FIELD(v_strideH) FIELD(bias_strideH) FIELD(q_strideB) FIELD(k_strideB) FIELD(v_strideB) FIELD(bias_strideB)         \
    FIELD(num_batches) FIELD(num_heads) FIELD(use_dropout) FIELD(dropout_batch_head_rng_offset) FIELD(dropout_prob)     \
    FIELD(rng_engine_inputs) FIELD(extragraph_offset) FIELD(seed)
#define BACKWARD_FIELDS(FIELD)                                                                                         \
    FIELD(query_ptr) FIELD(key_ptr) FIELD(value_ptr) FIELD(bias_ptr) FIELD(logsumexp_ptr) FIELD(output_ptr)             \
    FIELD(grad_output_ptr) FIELD(delta_ptr) FIELD(cu_seqlens_q_ptr) FIELD(cu_seqlens_k_ptr) FIELD(grad_query_ptr)       \
    FIELD(grad_key_ptr) FIELD(grad_value_ptr) FIELD(grad_bias_ptr) FIELD(workspace) FIELD(workspace_gv)                 \
    FIELD(workspace_gq) FIELD(scale) FIELD(window_size) FIELD(head_dim) FIELD(head_dim_value) FIELD(num_queries)        \
    FIELD(num_keys) FIELD(num_heads) FIELD(custom_mask_type) FIELD(q_strideM) FIELD(k_strideM) FIELD(v_strideM)         \
    FIELD(bias_strideM) FIELD(gO_strideM) FIELD(gB_strideM) FIELD(gQKV_strideM_multiplier) FIELD(rng_engine_inputs)     \
    FIELD(dropout_batch_head_rng_offset) FIELD(dropout_prob) FIELD(o_strideH) FIELD(q_strideH) FIELD(k_strideH)         \
    FIELD(v_strideH) FIELD(bias_strideH) FIELD(o_strideB) FIELD(q_strideB) FIELD(k_strideB) FIELD(v_strideB)            \
    FIELD(bias_strideB) FIELD(lse_strideB) FIELD(lse_strideH) FIELD(delta_strideB) FIELD(delta_strideH)                 \
    FIELD(num_batches) FIELD(num_splits_key) FIELD(gO_strideB) FIELD(gQ_strideB) FIELD(gK_strideB) FIELD(gV_strideB)    \
    FIELD(gB_strideB) FIELD(gO_strideH) FIELD(gQ_strideH) FIELD(gK_strideH) FIELD(gV_strideH) FIELD(gB_strideH)
