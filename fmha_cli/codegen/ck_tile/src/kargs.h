// Names of the members of CK's kernel argument structs, all families. A struct has some of them, through its bases.
#define KARG_MEMBERS(X)                                                                                                \
  X(q_ptr) X(k_ptr) X(v_ptr) X(o_ptr) X(knew_ptr) X(vnew_ptr) X(lse_ptr) X(lse_acc_ptr) X(o_acc_ptr)                   \
  X(do_ptr) X(d_ptr) X(dq_ptr) X(dq_acc_ptr) X(dk_ptr) X(dv_ptr) X(dbias_ptr)                                          \
  X(bias_ptr) X(alibi_slope_ptr) X(rand_val_ptr) X(rotary_cos_ptr) X(rotary_sin_ptr)                                   \
  X(seqstart_q_ptr) X(seqstart_k_ptr) X(seqlen_q_ptr) X(seqlen_k_ptr) X(cu_seqlen_q_ptr) X(cu_seqlen_k_ptr)            \
  X(block_table_ptr) X(cache_batch_idx) X(kv_indptr) X(kv_page_indices)                                                 \
  X(batch) X(seqlen_q) X(seqlen_k) X(seqlen_knew) X(hdim_q) X(hdim_v) X(num_head_q) X(nhead_ratio_qk) X(num_splits)    \
  X(num_total_pages) X(page_block_size) X(batch_stride_block_table) X(is_gappy) X(rotary_dim) X(has_mask)              \
  X(scale_s) X(scale_p) X(scale_o) X(raw_scale) X(scale) X(logits_soft_cap) X(logits_soft_cap_rcp)                     \
  X(stride_q) X(stride_k) X(stride_v) X(stride_o) X(stride_knew) X(stride_vnew) X(stride_o_acc)                        \
  X(row_stride_o_acc) X(row_stride_o) X(stride_do) X(stride_dq) X(stride_dq_acc) X(stride_dk) X(stride_dv)             \
  X(stride_bias) X(stride_dbias) X(stride_randval) X(alibi_slope_stride)                                               \
  X(nhead_stride_q) X(nhead_stride_k) X(nhead_stride_v) X(nhead_stride_o) X(nhead_stride_knew) X(nhead_stride_vnew)    \
  X(nhead_stride_lse) X(nhead_stride_lse_acc) X(nhead_stride_o_acc) X(nhead_stride_do) X(nhead_stride_d)               \
  X(nhead_stride_lsed) X(nhead_stride_dq) X(nhead_stride_dq_acc) X(nhead_stride_dk) X(nhead_stride_dv)                 \
  X(nhead_stride_bias) X(nhead_stride_dbias) X(nhead_stride_randval)                                                   \
  X(batch_stride_q) X(batch_stride_k) X(batch_stride_v) X(batch_stride_o) X(batch_stride_knew) X(batch_stride_vnew)    \
  X(batch_stride_lse) X(batch_stride_lse_acc) X(batch_stride_o_acc) X(batch_stride_do) X(batch_stride_d)               \
  X(batch_stride_lsed) X(batch_stride_dq) X(batch_stride_dq_acc) X(batch_stride_dk) X(batch_stride_dv)                 \
  X(batch_stride_bias) X(batch_stride_dbias) X(batch_stride_randval)                                                   \
  X(split_stride_lse_acc) X(split_stride_o_acc) X(split_stride_dq_acc)                                                 \
  X(window_size_left) X(window_size_right) X(mask_type) X(min_seqlen_q)                                                \
  X(drop_seed) X(drop_offset) X(is_drop_seed_offset_from_host) X(p_undrop) X(rp_undrop) X(scale_rp_undrop)             \
  X(p_undrop_in_uint8_t) X(is_store_randval)

template <typename T>
constexpr int kind_of() {
  if constexpr (std::is_pointer_v<T>) return KIND_POINTER;
  else if constexpr (std::is_same_v<T, bool>) return KIND_BOOL;
  else if constexpr (std::is_floating_point_v<T>) return KIND_FLOAT;
  else if constexpr (std::is_enum_v<T>) return kind_of<std::underlying_type_t<T>>();
  else if constexpr (std::is_integral_v<T>) return std::is_signed_v<T> ? KIND_SIGNED : KIND_UNSIGNED;
  else return KIND_BYTES;
}

// Writes the members of one kernel's arguments to the caller's buffers; padding between them is written as zeros.
template <typename Kargs>
struct Members {
  const Kargs& kargs;
  FmhaCkLaunch& out;

  bool room_for_kargs() const {
    return out.kargs != nullptr && out.kargs_room >= static_cast<int64_t>(sizeof(Kargs));
  }

  template <typename T>
  void operator()(const char* name, const T& member) {
    const auto from = reinterpret_cast<uintptr_t>(&kargs);
    const auto at = reinterpret_cast<uintptr_t>(&member);
    if (at < from || at - from > sizeof(Kargs) - sizeof(T)) return;  // a static member: not passed
    int kind = kind_of<std::remove_cv_t<T>>();
    if constexpr (requires { member.val; member.ptr; }) {
      kind = kargs.is_drop_seed_offset_from_host ? KIND_UNSIGNED : KIND_POINTER;
    }
    if (out.fields != nullptr && out.field_count < out.fields_room) {
      static_cast<FmhaCkKarg*>(out.fields)[out.field_count] = {
          const_cast<char*>(name), static_cast<uint32_t>(at - from), static_cast<uint32_t>(sizeof(T)), kind};
    }
    if (room_for_kargs()) {
      std::memcpy(static_cast<char*>(out.kargs) + (at - from), &member, sizeof(T));
    }
    ++out.field_count;
  }
};

template <typename Kargs>
void write_members(const Kargs& kargs, FmhaCkLaunch& out) {
  Members<Kargs> write{kargs, out};
  if (write.room_for_kargs()) std::memset(out.kargs, 0, sizeof(Kargs));
#define KARG_MEMBER(name) \
  if constexpr (requires { kargs.name; }) write(#name, kargs.name);
  KARG_MEMBERS(KARG_MEMBER)
#undef KARG_MEMBER
}
