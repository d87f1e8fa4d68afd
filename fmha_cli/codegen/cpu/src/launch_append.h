struct Job {
  Context x;
  i64 items, next;  // for each sequence its new rows, then its queries
};

NOINLINE void append_task(void* context, i64) {
  Job& job = *(Job*)context;
  const FmhaCpuArgs& a = *job.x.a;
  const i64 each = a.append + (a.q_rotated ? a.seqlen_q : 0);
  Angles angles;
  for (i64 item; (item = __atomic_fetch_add(&job.next, 1, __ATOMIC_RELAXED)) < job.items;) {
    const i64 b = item / each, n = item % each, i = n - a.append;
    const Sequence s = sequence_of(job.x, b);
    if (i >= s.nq) continue;
    set_angles(a, (a.block_table ? 0 : s.k0) + (i < 0 ? s.nk + i : s.nk - s.nq + i), angles);
    i < 0 ? append_row(job.x, s, b, n, angles) : rotate_query(job.x, s, b, i, angles);
  }
}

extern "C" EXPORT int fmha_cpu_append(const FmhaCpuArgs* args) {
  const FmhaCpuArgs& a = *args;
  const bool sizes = a.batch >= 0 && a.heads >= 1 && a.kv_heads >= 1 && a.heads % a.kv_heads == 0 && a.seqlen_q >= 0 &&
                     a.append >= 0 && a.seqlen_k >= a.append && a.hdim >= 1 && a.hdim <= MAX_HDIM && a.hdim_v >= 1 &&
                     a.hdim_v <= MAX_HDIM && a.threads >= 1 && (!a.block_table || a.page >= 1);
  const bool rotary = a.rotary_dim >= 0 && a.rotary_dim % 2 == 0 && a.rotary_dim <= a.hdim && !a.q_rotated == !a.rotary_dim &&
                      !a.rotary_cos == !a.rotary_sin;
  if (!sizes || !rotary || !a.k || !a.v || !a.k_new || (!a.v_new && a.v != a.k))
    return STATUS_BAD_ARGUMENT;
  Job job;
  job.x = make_context(args);
  job.items = a.batch * (a.append + (a.q_rotated ? a.seqlen_q : 0));
  job.next = 0;
  const i64 work = job.items * (a.heads + a.kv_heads) * (a.hdim + a.hdim_v);
  Lease lease = lease_scratch(sizeof(float));
  if (!lease.memory) {
    end_lease(lease);
    return STATUS_OUT_OF_MEMORY;
  }
  run_on(clamp64(min64(a.threads, 1 + (work >> 17)), 1, MAX_THREADS), lease.pooled, append_task, &job);
  end_lease(lease);
  return STATUS_OK;
}
