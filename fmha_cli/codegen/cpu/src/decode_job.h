// A launch: groups times splits of their keys, drawn by the threads.
struct Job {
  Context x;
  i64 threads, splits, groups, next;
  i64 rows;     // the most rows of a group
  i64 longest;  // the most blocks of keys of a group
  i64 work;     // elements of K and V, about
  i64 together; // key/value heads of an item
  float *scratch, *parts;
};

// Heads whose rows are neighbours in memory share an item, as many as the kernel holds rows for.
INLINE i64 heads_together(const FmhaCpuArgs& a, i64 rows) {
  const bool neighbours = a.kv_heads > 1 && a.k_head_stride < a.k_row_stride && a.v_head_stride < a.v_row_stride;
  return neighbours ? clamp64(MAX_ROWS / max64(rows, 1), 1, a.kv_heads) : 1;
}

// What a launch has to do; false if a group has more rows than a kernel holds.
static bool measure_job(Job& job, const FmhaCpuArgs* args) {
  const FmhaCpuArgs& a = *args;
  job.x = make_context(args);
  job.groups = a.batch * a.kv_heads;
  job.rows = job.longest = job.work = job.next = 0;
  for (i64 b = 0; b < a.batch; ++b) {
    const Group g = group_at(job.x, b * a.kv_heads);
    job.rows = max64(job.rows, g.rows);
    job.longest = max64(job.longest, g.rows ? blocks_of(g) : 0);
    job.work += g.rows ? blocks_of(g) * BC * a.kv_heads * (a.hdim + a.hdim_v) : 0;
  }
  job.together = heads_together(a, job.rows);
  return job.rows <= MAX_ROWS;
}

INLINE i64 bands(const Job& job) { return ceil_div(job.x.a->kv_heads, job.together); }  // items of a sequence and split
INLINE i64 items_of(const Job& job) { return job.x.a->batch * bands(job) * job.splits; }

INLINE i64 draw(Job& job) { return __atomic_fetch_add(&job.next, 1, __ATOMIC_RELAXED); }
INLINE Part part_at(const Job& job, i64 item) { return part_in(job.parts + item * part_floats(*job.x.a, job.rows), job.rows); }
INLINE i64 all_parts(const Job& job) { return job.groups * job.splits * part_floats(*job.x.a, job.rows); }

// Threads for the work: 2^17 elements take about 10 us.
INLINE i64 threads_for(const Job& job) { return clamp64(min64(job.x.a->threads, 1 + (job.work >> 17)), 1, MAX_THREADS); }
