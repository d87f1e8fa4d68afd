// The pool: threads that wait for the next launch, and one block of scratch that launches reuse. These are
// the library's only globals. One launch at a time uses the pool; a second one at the same moment runs on
// its caller's thread with scratch of its own. fmha_cpu_release() ends the threads and frees the scratch.
#include <pthread.h>
#include <sched.h>
#include <signal.h>

enum { MAX_THREADS = 256, SPINS = 4000 };
typedef void (*Task)(void* context, i64 thread);

struct Pool {
  pthread_mutex_t busy = PTHREAD_MUTEX_INITIALIZER;  // held by the launch that uses the pool
  pthread_mutex_t sleep = PTHREAD_MUTEX_INITIALIZER;
  pthread_cond_t wake = PTHREAD_COND_INITIALIZER;
  pthread_t threads[MAX_THREADS];
  i64 count = 0;      // threads beside the caller's
  uint64_t word = 0;  // launches so far << 16 | threads that take part; all ones: end
  i64 done = 0;
  Task task = nullptr;
  void* context = nullptr;
  char* scratch = nullptr;
  size_t scratch_bytes = 0;
};
static Pool pool;

// Signals belong to the host's threads: new ones start with all of them held. Windows has none.
#ifdef _WIN32
typedef int SignalMask;
INLINE SignalMask hold_signals() { return 0; }
INLINE void let_signals(SignalMask) {}
#else
typedef sigset_t SignalMask;
INLINE SignalMask hold_signals() {
  sigset_t all, old;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  return old;
}
INLINE void let_signals(SignalMask old) { pthread_sigmask(SIG_SETMASK, &old, nullptr); }
#endif

INLINE void pause_cpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

static void* pool_thread(void* index) {
  const i64 me = (i64)(intptr_t)index;
  uint64_t seen = (__atomic_load_n(&pool.word, __ATOMIC_ACQUIRE) & ~(uint64_t)0xffff) - ((uint64_t)1 << 16);
  for (;;) {
    uint64_t word = 0;
    for (int spin = 0; spin < SPINS; ++spin) {
      word = __atomic_load_n(&pool.word, __ATOMIC_ACQUIRE);
      if ((word & ~(uint64_t)0xffff) != seen) break;
      pause_cpu();
    }
    if ((word & ~(uint64_t)0xffff) == seen) {
      pthread_mutex_lock(&pool.sleep);
      while (((word = __atomic_load_n(&pool.word, __ATOMIC_ACQUIRE)) & ~(uint64_t)0xffff) == seen)
        pthread_cond_wait(&pool.wake, &pool.sleep);
      pthread_mutex_unlock(&pool.sleep);
    }
    if (word == ~(uint64_t)0) return nullptr;
    seen = word & ~(uint64_t)0xffff;
    if (me < (i64)(word & 0xffff)) {
      pool.task(pool.context, me);
      __atomic_fetch_add(&pool.done, 1, __ATOMIC_RELEASE);
    }
  }
}

static void publish(uint64_t word) {
  pthread_mutex_lock(&pool.sleep);
  __atomic_store_n(&pool.word, word, __ATOMIC_RELEASE);
  pthread_cond_broadcast(&pool.wake);
  pthread_mutex_unlock(&pool.sleep);
}

// Runs task(context, 0 .. threads-1), the last indices possibly not at all: work is drawn, never assigned.
static void run_on(i64 threads, bool pooled, Task task, void* context) {
  threads = pooled ? clamp64(threads, 1, MAX_THREADS) : 1;
  if (threads == 1) return task(context, 0);
  pool.task = task;
  pool.context = context;
  __atomic_store_n(&pool.done, 0, __ATOMIC_RELAXED);
  uint64_t next = ((__atomic_load_n(&pool.word, __ATOMIC_RELAXED) >> 16) + 1) << 16;
  if (pool.count + 1 < threads) {
    // A thread starts with whatever launch it finds. This one has no participants, so that nobody waits for
    // it; the real one follows when the number of threads is known.
    __atomic_store_n(&pool.word, next, __ATOMIC_RELEASE);
    next += (uint64_t)1 << 16;
    const SignalMask old = hold_signals();
    while (pool.count + 1 < threads &&
           pthread_create(&pool.threads[pool.count], nullptr, pool_thread, (void*)(intptr_t)(pool.count + 1)) == 0)
      ++pool.count;
    let_signals(old);
  }
  threads = min64(threads, pool.count + 1);
  publish(next | (uint64_t)threads);
  task(context, 0);
  for (int spin = 0; __atomic_load_n(&pool.done, __ATOMIC_ACQUIRE) != threads - 1; ++spin)
    spin < SPINS ? pause_cpu() : (void)sched_yield();
}

extern "C" EXPORT void fmha_cpu_release(void) {
  pthread_mutex_lock(&pool.busy);
  if (pool.count) {
    publish(~(uint64_t)0);
    for (i64 t = 0; t < pool.count; ++t) pthread_join(pool.threads[t], nullptr);
  }
  give_pages(pool.scratch);
  pool.count = 0;
  pool.word = 0;
  pool.scratch = nullptr;
  pool.scratch_bytes = 0;
  pthread_mutex_unlock(&pool.busy);
}

// Scratch for one launch: the pool's when the pool is free, else of its own. Null when memory is out.
struct Lease {
  bool pooled;
  char* memory;
};

static Lease lease_scratch(size_t bytes) {
  Lease lease = {pthread_mutex_trylock(&pool.busy) == 0, nullptr};
  if (lease.pooled && pool.scratch_bytes >= bytes) {
    lease.memory = pool.scratch;
    return lease;
  }
  if (lease.pooled) {
    give_pages(pool.scratch);
    pool.scratch = nullptr;
    pool.scratch_bytes = 0;
  }
  void* memory = take_pages(bytes);
  if (lease.pooled && memory) {
    pool.scratch = (char*)memory;
    pool.scratch_bytes = bytes;
  }
  lease.memory = (char*)memory;
  return lease;
}

static void end_lease(Lease lease) {
  if (lease.pooled)
    pthread_mutex_unlock(&pool.busy);
  else
    give_pages(lease.memory);
}
