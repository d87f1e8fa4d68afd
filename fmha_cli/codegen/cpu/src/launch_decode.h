// Splits, where the caller leaves the choice: enough items for an even load, none too short to be worth it.
static i64 choose_splits(const Job& job, i64 threads) {
  enum { ITEMS = 4, LEAST_BLOCKS = 4 };  // items for each thread; blocks in an item
  if (job.x.a->splits > 0) return job.x.a->splits;
  const i64 items = job.x.a->batch * bands(job);
  if (threads == 1 || items >= ITEMS * threads) return 1;
  return max64(1, min64(ceil_div(ITEMS * threads, items), job.longest / LEAST_BLOCKS));
}

static int launch(const FmhaCpuArgs* args) {
  Job job;
  if (!measure_job(job, args)) return STATUS_BAD_ARGUMENT;
  if (!job.groups || !job.rows) return STATUS_OK;
  if (!tiles_permitted()) return STATUS_NOT_PERMITTED;
  const i64 threads = threads_for(job);
  job.splits = choose_splits(job, threads);
  job.threads = min64(threads, items_of(job));
  const i64 own = job.threads * scratch_floats(job), parts = job.splits > 1 ? all_parts(job) : 0;
  Lease lease = lease_scratch((size_t)(own + parts) * sizeof(float));
  if (!lease.memory) {
    end_lease(lease);
    return STATUS_OUT_OF_MEMORY;
  }
  job.scratch = (float*)lease.memory;
  job.parts = parts ? job.scratch + own : nullptr;
  run_on(job.threads, lease.pooled, attend_task, &job);
  if (parts) {
    job.next = 0;
    run_on(job.threads, lease.pooled, merge_task, &job);
  }
  end_lease(lease);
  return STATUS_OK;
}
