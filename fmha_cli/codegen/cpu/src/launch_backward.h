// A launch: the numbers of all rows, then each group (a sequence and a key/value head) with its heads and slabs of rows,
// then dBias. With many groups a thread takes whole groups. With few, all threads share them: rounds of one slab for each
// group, chunks of keys side by side. Both ways add the same numbers in the same order.
enum { PIECE = 128 };  // keys in an item of preparation

struct Job {
  Context x;
  i64 threads, groups, ratio, next;
  i64 most_tiles, most_keys, chunks;  // of the longest sequences
  i64* first_number;                  // of each sequence, in the numbers of rows
  float *top, *base, *delta, *rooms, *stores;
  i64 room_step, store_step;
  i64 turn, i0;  // of a round: number of the head in its group, first row
};

INLINE bool draw(Job& job, i64 end, i64& item) {
  return (item = __atomic_fetch_add(&job.next, 1, __ATOMIC_RELAXED)) < end;
}
INLINE Head head_at(const Job& job, i64 b, i64 h) {
  const Sequence s = sequence_of(job.x, b);
  const i64 at = job.first_number[b] + h * whole_tiles(s.nq);
  return {&job.x, s, b, h, job.top + at, job.base + at, job.delta + at};
}
INLINE Head group_head(const Job& job, i64 g, i64 n) {
  const FmhaCpuArgs& a = *job.x.a;
  return head_at(job, g / a.kv_heads, head_of(a, g % a.kv_heads, n));
}
INLINE i64 tile_floats(const FmhaCpuArgs& a) { return BQ * padded(a.hdim); }
INLINE i64 patch_floats() { return scores_floats() + NL * BQ; }

NOINLINE void numbers_task(void* context, i64 thread) {
  Job& job = *(Job*)context;
  const FmhaCpuArgs& a = *job.x.a;
  configure_tiles();
  for (i64 item; draw(job, a.batch * a.heads * job.most_tiles, item);) {
    const i64 row = item % job.most_tiles * BQ, h = item / job.most_tiles;
    const Head head = head_at(job, h / a.heads, h % a.heads);
    if (row < head.s.nq) find_numbers(head, row, job.rooms + thread * job.room_step);
  }
  release_tiles();
}

// Whole groups, one thread each.
INLINE i64 own_floats(const FmhaCpuArgs& a, i64 keys) {
  return group_floats(a, keys) + OWN_TILES * (rows_floats(a) + 2 * tile_floats(a)) + patch_floats();
}
static void own_head(const Head& head, i64 hk, const Group& g, float* room) {
  const FmhaCpuArgs& a = *head.x->a;
  const Blocks blocks = blocks_of(head.s.nk);
  float *part = room + OWN_TILES * rows_floats(a), *sum = part + OWN_TILES * tile_floats(a);
  for (i64 i0 = 0; i0 < head.s.nq; i0 += OWN_TILES * BQ) {
    const Slab slab = {i0, min64(OWN_TILES, tiles_of(head.s.nq - i0)), room, rows_floats(a)};
    bool any[OWN_TILES] = {};
    for (i64 n = 0; n < slab.tiles; ++n) prepare_rows(head, i0 + n * BQ, rows_at(a, slab.rows + n * slab.row_step));
    for (i64 chunk = 0; chunk < blocks.chunks; ++chunk)
      attend_chunk(head, g, blocks, chunk, slab, part, sum + OWN_TILES * tile_floats(a), sum, any);
    for (i64 n = 0; n < slab.tiles; ++n) finish_tile(head, hk, i0 + n * BQ, sum + n * tile_floats(a), any[n]);
  }
}
NOINLINE void own_task(void* context, i64 thread) {
  Job& job = *(Job*)context;
  const FmhaCpuArgs& a = *job.x.a;
  configure_tiles();
  for (i64 item; draw(job, job.groups, item);) {
    const Head first = group_head(job, item, 0);
    const i64 hk = item % a.kv_heads, keys = first.s.nk;
    float* room = job.rooms + thread * job.room_step;
    const Group g = group_at(a, keys, room);
    prepare_keys(job.x, first.s, first.b, hk, g, 0, keys);
    for (i64 n = 0; n < job.ratio; ++n) own_head(group_head(job, item, n), hk, g, room + group_floats(a, keys));
    finish_keys(first, hk, g, 0, keys);
  }
  release_tiles();
}

// Shared groups: what belongs to one is in its store.
INLINE i64 shared_floats(const FmhaCpuArgs& a, i64 keys, i64 tiles, i64 chunks) {
  return group_floats(a, keys) + tiles * (rows_floats(a) + chunks * tile_floats(a));
}
struct Share {
  Head head;
  i64 hk;
  Group g;
  Blocks blocks;
  Slab slab;
  float* parts;  // [chunk][tile]
};
static Share share_of(const Job& job, i64 group) {
  const FmhaCpuArgs& a = *job.x.a;
  const Head head = group_head(job, group, job.turn);
  float *store = job.stores + group * job.store_step, *rows = store + group_floats(a, head.s.nk);
  const i64 tiles = clamp64(tiles_of(head.s.nq - job.i0), 0, SHARED_TILES);
  return {head, group % a.kv_heads, group_at(a, head.s.nk, store), blocks_of(head.s.nk),
          {job.i0, tiles, rows, rows_floats(a)}, rows + tiles * rows_floats(a)};
}
NOINLINE void keys_task(void* context, i64) {
  Job& job = *(Job*)context;
  for (i64 item; draw(job, job.groups * ceil_div(job.most_keys, PIECE), item);) {
    const Share share = share_of(job, item % job.groups);
    const i64 j = item / job.groups * PIECE, end = min64(j + PIECE, share.head.s.nk);
    if (j < end) prepare_keys(job.x, share.head.s, share.head.b, share.hk, share.g, j, end);
  }
}
NOINLINE void rows_task(void* context, i64) {
  Job& job = *(Job*)context;
  for (i64 item; draw(job, job.groups * SHARED_TILES, item);) {
    const Share share = share_of(job, item % job.groups);
    const i64 n = item / job.groups;
    if (n < share.slab.tiles)
      prepare_rows(share.head, job.i0 + n * BQ, rows_at(*job.x.a, share.slab.rows + n * share.slab.row_step));
  }
}
NOINLINE void chunks_task(void* context, i64 thread) {
  Job& job = *(Job*)context;
  configure_tiles();
  for (i64 item; draw(job, job.groups * job.chunks, item);) {
    const Share share = share_of(job, item % job.groups);
    const i64 chunk = item / job.groups;
    if (chunk < share.blocks.chunks)
      attend_chunk(share.head, share.g, share.blocks, chunk, share.slab,
                   share.parts + chunk * share.slab.tiles * tile_floats(*job.x.a), job.rooms + thread * job.room_step, nullptr,
                   nullptr);
  }
  release_tiles();
}
NOINLINE void sums_task(void* context, i64) {
  Job& job = *(Job*)context;
  for (i64 item; draw(job, job.groups * SHARED_TILES, item);) {
    const Share share = share_of(job, item % job.groups);
    const i64 n = item / job.groups, i0 = job.i0 + n * BQ, step = share.slab.tiles * tile_floats(*job.x.a);
    if (n >= share.slab.tiles) continue;
    float* sum = share.parts + n * tile_floats(*job.x.a);
    bool any = false;
    for (i64 chunk = 0; chunk < share.blocks.chunks; ++chunk)
      add_part(share.head, share.blocks, i0, chunk, sum + chunk * step, sum, any);
    finish_tile(share.head, share.hk, i0, sum, any);
  }
}
NOINLINE void finish_task(void* context, i64) {
  Job& job = *(Job*)context;
  for (i64 item; draw(job, job.groups * ceil_div(job.most_keys, PIECE), item);) {
    const Share share = share_of(job, item % job.groups);
    const i64 j = item / job.groups * PIECE;
    finish_keys(share.head, share.hk, share.g, j, min64(j + PIECE, share.head.s.nk));
  }
}

struct BiasPlanes {
  i64 batches, heads;  // planes along each axis; an axis of one plane may stand for several
};
INLINE BiasPlanes planes_of(const FmhaCpuArgs& a) {
  return {a.dbias_batch_stride ? a.batch : 1, a.dbias_head_stride ? a.heads : 1};
}
NOINLINE void bias_task(void* context, i64 thread) {
  Job& job = *(Job*)context;
  const FmhaCpuArgs& a = *job.x.a;
  const BiasPlanes planes = planes_of(a);
  const i64 batches = a.batch / planes.batches, heads = a.heads / planes.heads;
  const bool rows = a.dbias_row_stride != 0;  // else all rows share an element, and threads take chunks of keys
  const i64 parts = rows ? tiles_of(a.seqlen_q) : ceil_div(a.seqlen_k, BIAS_CHUNK);
  const auto get = [&](i64 b, i64 h) { return head_at(job, b, h); };
  configure_tiles();
  for (i64 item; draw(job, planes.batches * planes.heads * parts, item);) {
    const i64 plane = item / parts, b = plane / planes.heads * batches, h = plane % planes.heads * heads, n = item % parts;
    BiasPart part = {b, b + batches, h, h + heads, 0, a.seqlen_q, 0, a.seqlen_k};
    if (rows)
      part.i0 = n * BQ, part.i1 = part.i0 + BQ;
    else
      part.j0 = n * BIAS_CHUNK, part.j1 = min64(part.j0 + BIAS_CHUNK, a.seqlen_k);
    sum_bias(job.x, get, part, job.rooms + thread * job.room_step);
  }
  release_tiles();
}

static void run_all(Job& job, bool pooled, Task task) {
  job.next = 0;
  run_on(job.threads, pooled, task, &job);
}

static void run_shared(Job& job, bool pooled) {
  job.turn = job.i0 = 0;
  run_all(job, pooled, keys_task);
  for (; job.turn < job.ratio; ++job.turn)
    for (job.i0 = 0; job.i0 < job.most_tiles * BQ; job.i0 += SHARED_TILES * BQ) {
      run_all(job, pooled, rows_task);
      run_all(job, pooled, chunks_task);
      run_all(job, pooled, sums_task);
    }
  job.turn = job.i0 = 0;
  run_all(job, pooled, finish_task);
}

COLD int launch(const FmhaCpuArgs* args) {
  const FmhaCpuArgs& a = *args;
  if (!tiles_permitted()) return STATUS_NOT_PERMITTED;
  Job job;
  job.x = make_context(args);
  job.groups = a.batch * a.kv_heads;
  job.ratio = a.heads / a.kv_heads;
  job.most_tiles = job.most_keys = 0;
  i64 work = 0, numbers = 0;
  for (i64 b = 0; b < a.batch; ++b) {
    const Sequence s = sequence_of(job.x, b);
    job.most_tiles = max64(job.most_tiles, tiles_of(s.nq));
    job.most_keys = max64(job.most_keys, s.nk);
    numbers += whole_tiles(s.nq) * a.heads;
    work += (s.nq + 1) * (s.nk + 1) * a.heads * (a.hdim + a.hdim_v);
  }
  job.chunks = blocks_of(job.most_keys).chunks;
  job.threads = clamp64(min64(a.threads, 1 + (work >> 19)), 1, MAX_THREADS);
  // Whole groups where they fill the threads evenly.
  const bool even = job.groups % job.threads == 0 && !a.q_len && !a.k_len;
  const bool own = job.threads == 1 || even || job.groups >= 4 * job.threads;
  const i64 tiles = min64(job.most_tiles, SHARED_TILES);
  job.room_step = max64(own ? own_floats(a, job.most_keys) : patch_floats(), numbers_floats(a));
  if (a.dbias) job.room_step = max64(job.room_step, bias_floats(a));
  job.room_step = ceil_div(job.room_step, 64) * 64;
  job.store_step = own ? 0 : ceil_div(shared_floats(a, job.most_keys, tiles, job.chunks), 64) * 64;
  const i64 floats = 3 * ceil_div(numbers, 64) * 64 + job.threads * job.room_step + job.groups * job.store_step;
  Lease lease = lease_scratch((size_t)floats * sizeof(float) + (size_t)(a.batch + 1) * sizeof(i64));
  if (!lease.memory) {
    end_lease(lease);
    return STATUS_OUT_OF_MEMORY;
  }
  job.rooms = (float*)lease.memory;
  job.stores = job.rooms + job.threads * job.room_step;
  job.top = job.stores + job.groups * job.store_step;
  job.base = job.top + ceil_div(numbers, 64) * 64;
  job.delta = job.base + ceil_div(numbers, 64) * 64;
  job.first_number = (i64*)(job.rooms + floats);
  numbers = 0;
  for (i64 b = 0; b < a.batch; ++b) {
    job.first_number[b] = numbers;
    numbers += whole_tiles(sequence_of(job.x, b).nq) * a.heads;
  }
  run_all(job, lease.pooled, numbers_task);
  if (own)
    run_all(job, lease.pooled, own_task);
  else
    run_shared(job, lease.pooled);
  if (a.dbias) run_all(job, lease.pooled, bias_task);
  end_lease(lease);
  return STATUS_OK;
}
