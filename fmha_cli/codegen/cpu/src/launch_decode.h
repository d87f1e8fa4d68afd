// A launch: groups times splits of their keys, drawn by the threads; the parts of a group are merged after.
struct Job {
  Context x;
  i64 threads, splits, groups, next;
  float *scratch, *parts;
};

// Splits, where the caller leaves the choice: enough items for an even load, none too short to be worth it.
static i64 choose_splits(const FmhaCpuArgs& a, i64 groups, i64 longest, i64 threads) {
  if (a.splits > 0) return a.splits;
  enum { ITEMS = 4, LEAST_BLOCKS = 4 };  // items for each thread; blocks in an item
  if (threads == 1 || groups >= ITEMS * threads) return 1;
  return max64(1, min64(ceil_div(ITEMS * threads, groups), longest / LEAST_BLOCKS));
}

INLINE DecodeScratch scratch_of(const Job& job, i64 thread) {
  const FmhaCpuArgs& a = *job.x.a;
  DecodeScratch work;
  work.q = job.scratch + thread * decode_floats(a);
  work.p = work.q + MAX_ROWS * q_stride_of(a);
  work.part = (Part*)(work.p + MAX_ROWS * BC);
  return work;
}
INLINE Part* part_at(const Job& job, i64 item) { return (Part*)(job.parts + item * part_floats(*job.x.a)); }

static void attend_task(void* context, i64 thread) {
  Job& job = *(Job*)context;
  DecodeScratch work = scratch_of(job, thread);
  const i64 items = job.groups * job.splits;
  for (i64 item; (item = __atomic_fetch_add(&job.next, 1, __ATOMIC_RELAXED)) < items;) {
    const Group g = group_at(job.x, item / job.splits);
    if (g.rows == 0) continue;
    const i64 blocks = blocks_of(g), split = item % job.splits;
    if (job.splits > 1) work.part = part_at(job, item);
    (job.x.a->prefetch_far > 0 ? attend<true> : attend<false>)(g, blocks * split / job.splits,
                                                               blocks * (split + 1) / job.splits, split == 0, work);
    if (job.splits == 1) finish(g, *work.part);
  }
}

static void merge_task(void* context, i64) {
  Job& job = *(Job*)context;
  for (i64 n; (n = __atomic_fetch_add(&job.next, 1, __ATOMIC_RELAXED)) < job.groups;) {
    const Group g = group_at(job.x, n);
    if (g.rows == 0) continue;
    Part& whole = *part_at(job, n * job.splits);
    for (i64 split = 1; split < job.splits; ++split) merge(g, whole, *part_at(job, n * job.splits + split));
    finish(g, whole);
  }
}

static int launch(const FmhaCpuArgs* args) {
  const FmhaCpuArgs& a = *args;
  Job job;
  job.x = make_context(args);
  job.groups = a.batch * a.kv_heads;
  i64 longest = 0, work = 0;
  for (i64 b = 0; b < a.batch; ++b) {
    const Group g = group_at(job.x, b * a.kv_heads);
    if (g.rows > MAX_ROWS) return STATUS_BAD_ARGUMENT;
    longest = max64(longest, g.rows ? blocks_of(g) : 0);
    work += g.rows ? blocks_of(g) * BC * a.kv_heads * (a.hdim + a.hdim_v) : 0;
  }
  if (!job.groups) return STATUS_OK;
  job.threads = clamp64(min64(a.threads, 1 + (work >> 17)), 1, MAX_THREADS);  // 2^17 elements: about 10 us
  job.splits = max64(1, choose_splits(a, job.groups, longest, job.threads));
  job.threads = min64(job.threads, job.groups * job.splits);
  const i64 parts = job.splits > 1 ? job.groups * job.splits * part_floats(a) : 0;
  Lease lease = lease_scratch((size_t)(job.threads * decode_floats(a) + parts) * sizeof(float));
  if (!lease.memory) {
    end_lease(lease);
    return STATUS_OUT_OF_MEMORY;
  }
  job.scratch = (float*)lease.memory;
  job.parts = job.scratch + job.threads * decode_floats(a);
  job.next = 0;
  run_on(job.threads, lease.pooled, attend_task, &job);
  if (job.splits > 1) {
    job.next = 0;
    run_on(job.threads, lease.pooled, merge_task, &job);
  }
  end_lease(lease);
  return STATUS_OK;
}
