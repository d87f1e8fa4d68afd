// Items of a launch into their parts; without splits, straight into O.
INLINE i64 scratch_floats(const Job& job) { return job.together * decode_floats(*job.x.a, job.rows); }

NOINLINE void attend_task(void* context, i64 thread) {
  Job& job = *(Job*)context;
  const FmhaCpuArgs& a = *job.x.a;
  DecodeScratch work = scratch_at(a, job.scratch + thread * scratch_floats(job), job.together, job.rows);
  configure_tiles();
  const i64 items = items_of(job), own = part_floats(a, job.rows);
  for (i64 item; (item = draw(job)) < items;) {
    const i64 split = item % job.splits, band = item / job.splits % bands(job), b = item / job.splits / bands(job);
    const i64 hk = band * job.together, heads = min64(job.together, a.kv_heads - hk);
    Group g = group_at(job.x, b * a.kv_heads + hk);
    if (g.rows == 0) continue;
    const i64 blocks = blocks_of(g);
    if (job.parts) work.parts = job.parts + ((b * a.kv_heads + hk) * job.splits + split) * own, work.part_stride = job.splits * own;
    (form_of(job.x) ? attend<true> : attend<false>)(
        g, heads, blocks * split / job.splits, blocks * (split + 1) / job.splits, split == 0, work);
    for (i64 h = 0; h < heads && !job.parts; ++h, ++g.hk) finish(g, part_in(work.parts + h * own, job.rows));
  }
  release_tiles();
}
