// The library's permanent threads. See threads.h.
//
// Order    a thread first runs the units of its own part, then units left by other threads. A part
//          is contiguous in memory and may still be in the thread's cache from the previous call.
// Idle     a helper holds no lock. It checks for another call for 100 us, because most calls follow
//          each other closely and waking a thread takes 20 to 60 us. Between checks it lets other
//          threads of its CPU run. Then it sleeps in a semaphore.
// Places   Linux often wakes a thread on the CPU of the thread that wakes it, even if another CPU
//          is idle, and moves it only after some milliseconds. So before a call wakes a helper, it
//          removes its own CPU from those on which the helper may run. It does the same if an
//          awake helper waits for this CPU.
// Fork     a forked child has no helpers until it starts its own.
// Signals  helpers block all signals, so that the interpreter's threads receive them.
//
// A call wakes helpers. When the work is done, it cancels helpers that have not begun instead of
// waiting for them, so that a busy machine causes no delay. Only one call at a time has helpers.
// Concurrent calls from other threads, and calls from inside a body, run all their units
// themselves.
#include "threads.h"

#include <atomic>
#include <csignal>
#include <ctime>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace engine {
namespace {

using abi::i64;

// number of threads; checks for a helper that is about to end; how long a helper stays awake
constexpr int MOST = 256, SPINS = 2000;
constexpr i64 AWAKE_NS = 100'000;

struct alignas(64) Part {
  std::atomic<i64> next;
  i64 end;
};

struct Work {
  abi::Body body;
  void* context;
  i64 units, step;
  int threads;
  Part parts[MOST];
};

enum State { ASLEEP, AWAKE, ASKED, CALLED_OFF, AT_WORK };

struct alignas(64) Helper {
  std::atomic<int> state;
  std::atomic<int> thread, cpu;  // the kernel's number of the thread, 0 until it runs; its CPU
  int forbidden;                 // the CPU on which it may not run; -1 for none
  sem_t asked, ended;
};

Work work;
Helper helpers[MOST];
int started;
std::atomic<int> wanted{1};
pthread_mutex_t one_call = PTHREAD_MUTEX_INITIALIZER;

void wait(sem_t* semaphore) {
  while (sem_wait(semaphore)) {}  // interrupted by a signal handler
}

void take(int own) {
  for (int k = 0; k < work.threads; k++) {
    Part& part = work.parts[(own + k) % work.threads];
    for (i64 piece; (piece = part.next.fetch_add(1, std::memory_order_relaxed)) < part.end;) {
      const i64 first = piece * work.step, last = first + work.step;
      work.body(work.context, first, last < work.units ? last : work.units);
    }
  }
}

i64 now() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1'000'000'000ll + time.tv_nsec;
}

// Return true if a call has asked this helper to work; false if the helper is now asleep.
bool is_asked(Helper& me) {
  for (const i64 end = now() + AWAKE_NS;;) {
    int state = me.state;
    me.cpu.store(sched_getcpu(), std::memory_order_relaxed);
    if (state == ASKED && me.state.compare_exchange_strong(state, AT_WORK)) return true;
    if (state == CALLED_OFF) me.state.compare_exchange_strong(state, AWAKE);
    state = AWAKE;
    if (now() > end && me.state.compare_exchange_strong(state, ASLEEP)) return false;
    sched_yield();
  }
}

void* help(void* given) {
  Helper& me = *(Helper*)given;
  me.thread = int(syscall(SYS_gettid));
  for (;;) {
    wait(&me.asked);
    while (is_asked(me)) {
      take(1 + int(&me - helpers));
      me.state = AWAKE;
      sem_post(&me.ended);
    }
  }
}

// Let a helper run on all CPUs on which this thread may run, except one.
void forbid(Helper& helper, int cpu) {
  cpu_set_t others;
  if (!helper.thread || helper.forbidden == cpu || sched_getaffinity(0, sizeof others, &others))
    return;
  CPU_CLR(cpu, &others);
  if (CPU_COUNT(&others) && !sched_setaffinity(helper.thread, sizeof others, &others))
    helper.forbidden = cpu;
}

// Ask a helper to work. A helper that is awake checks by itself.
void ask(Helper& helper, int cpu) {
  if (helper.state.exchange(ASKED) == ASLEEP) {
    forbid(helper, cpu);
    sem_post(&helper.asked);
  } else if (helper.cpu.load(std::memory_order_relaxed) == cpu) {
    forbid(helper, cpu);
  }
}

void forget_helpers() {
  started = 0;
  pthread_mutex_init(&one_call, nullptr);
}

void start(int count) {
  static bool knows_of_forks;
  if (!knows_of_forks) knows_of_forks = !pthread_atfork(nullptr, nullptr, forget_helpers);
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_attr_t detached;
  pthread_attr_init(&detached);
  pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
  for (; started < count; started++) {
    Helper& next = helpers[started];
    next.state = ASLEEP, next.thread = 0, next.cpu = -1, next.forbidden = -1;
    sem_init(&next.asked, 0, 0);
    sem_init(&next.ended, 0, 0);
    pthread_t thread;
    // the system allows no more threads: fewer threads do the work
    if (pthread_create(&thread, &detached, help, &next)) break;
  }
  pthread_attr_destroy(&detached);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void end(Helper& helper) {
  int state = ASKED;
  if (helper.state.compare_exchange_strong(state, CALLED_OFF)) return;
  for (int spins = 0; sem_trywait(&helper.ended); spins++)
    if (spins == SPINS) return wait(&helper.ended);
}

}  // namespace

void share(abi::Body body, void* context, i64 units, i64 step) {
  const i64 pieces = (units + step - 1) / step;
  i64 count = wanted.load(std::memory_order_relaxed);
  if (count > pieces) count = pieces;
  if (count <= 1 || pthread_mutex_trylock(&one_call)) return body(context, 0, units);
  if (started < count - 1) start(int(count - 1));
  if (count > started + 1) count = started + 1;
  work.body = body, work.context = context;
  work.units = units, work.step = step, work.threads = int(count);
  for (i64 n = 0; n < count; n++) {
    work.parts[n].next = pieces * n / count;
    work.parts[n].end = pieces * (n + 1) / count;
  }
  const int cpu = sched_getcpu();
  for (i64 n = 0; n < count - 1; n++) ask(helpers[n], cpu);
  take(0);
  for (i64 n = 0; n < count - 1; n++) end(helpers[n]);
  pthread_mutex_unlock(&one_call);
}

void set_threads(int count) { wanted = count < 1 ? 1 : count > MOST ? MOST : count; }
int threads() { return wanted; }

}  // namespace engine
