// Items of a launch into their parts; without splits, straight into O.
INLINE DecodeScratch scratch_of(const Job& job, i64 thread) {
  const FmhaCpuArgs& a = *job.x.a;
  DecodeScratch work;
  work.q = job.scratch + thread * decode_floats(a, job.rows);
  work.p = work.q + job.rows * q_stride_of(a);
  work.part = part_in(work.p + job.rows * BC, job.rows);
  return work;
}

static void attend_task(void* context, i64 thread) {
  Job& job = *(Job*)context;
  DecodeScratch work = scratch_of(job, thread);
  const FmhaCpuArgs& a = *job.x.a;
  const i64 items = job.groups * job.splits;
  for (i64 item; (item = draw(job)) < items;) {
    const Group g = group_at(job.x, item / job.splits);
    if (g.rows == 0) continue;
    const i64 blocks = blocks_of(g), split = item % job.splits;
    if (job.parts) work.part = part_at(job, item);
    (a.block_table ? attend<PAGES> : a.prefetch_far > 0 ? attend<FAR> : attend<NEAR>)(
        g, blocks * split / job.splits, blocks * (split + 1) / job.splits, split == 0, work);
    if (!job.parts) finish(g, work.part);
  }
}
