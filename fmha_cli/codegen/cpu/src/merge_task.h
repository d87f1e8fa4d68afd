// The parts of each group into O and LSE. The first part of a group takes in the others.
NOINLINE void merge_task(void* context, i64) {
  Job& job = *(Job*)context;
  for (i64 n; (n = draw(job)) < job.groups;) {
    const Group g = group_at(job.x, n);
    if (g.rows == 0) continue;
    const Part whole = part_at(job, n * job.splits);
    for (i64 split = 1; split < job.splits - FAULT_SPLIT_LOST; ++split) merge(g, whole, part_at(job, n * job.splits + split));
    finish(g, whole);
  }
}
