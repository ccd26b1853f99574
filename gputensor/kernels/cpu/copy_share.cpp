// Units of a compiled loop, shared by standing threads.                              family: copy
//
// Shapes   any; `units` of work, `step` at a time, whatever they are to the loop.
// Order    a thread does those of a part of its own first, then what others have left.
// Source   Note [Standing threads] in runtime/cpu.py, whose hand-over this is without the
//          interpreter's lock, which a helper would have to get first.
//
// A helper is asked, and comes or is called off: nobody waits for one that has not begun. One call
// at a time has helpers; the others, of other threads, do all their units themselves. A forked
// child has no helpers until it starts its own.

#include <atomic>
#include <csignal>
#include <pthread.h>
#include <semaphore.h>

namespace {

typedef long long length;
typedef unsigned char byte;
typedef void (*Loop)(byte* dst, const byte* src, const void* table, length first, length last);

constexpr int MOST = 64, SPINS = 2000;  // threads; looks at a helper that is about to end

struct alignas(64) Part {
  std::atomic<length> next;
  length end;
};

struct Call {
  Loop loop;
  byte* dst;
  const byte* src;
  const void* table;
  length units, step;
  int threads;
  Part parts[MOST];
};

enum State { ASLEEP, ASKED, CALLED_OFF, AT_WORK };

struct alignas(64) Helper {
  std::atomic<int> state;
  sem_t asked, ended;
};

Call call;
Helper helpers[MOST];
int started;
pthread_mutex_t one_call = PTHREAD_MUTEX_INITIALIZER;

void wait(sem_t* semaphore) {
  while (sem_wait(semaphore)) {}  // a signal's handler came between
}

void work(int own) {
  for (int k = 0; k < call.threads; k++) {
    Part& part = call.parts[(own + k) % call.threads];
    for (length piece; (piece = part.next.fetch_add(1, std::memory_order_relaxed)) < part.end;) {
      const length first = piece * call.step, last = first + call.step;
      call.loop(call.dst, call.src, call.table, first, last < call.units ? last : call.units);
    }
  }
}

void* help(void* given) {
  Helper& me = *(Helper*)given;
  for (;;) {
    wait(&me.asked);
    for (int state = me.state; state != ASLEEP; state = me.state) {
      if (state == CALLED_OFF) {
        if (me.state.compare_exchange_strong(state, ASLEEP)) break;
      } else if (me.state.compare_exchange_strong(state, AT_WORK)) {
        work(1 + int(&me - helpers));
        me.state = ASLEEP;
        sem_post(&me.ended);
        break;
      }
    }
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
  pthread_sigmask(SIG_SETMASK, &all, &before);  // signals are for the interpreter's threads
  pthread_attr_t detached;
  pthread_attr_init(&detached);
  pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
  for (; started < count; started++) {
    Helper& next = helpers[started];
    next.state = ASLEEP;
    sem_init(&next.asked, 0, 0);
    sem_init(&next.ended, 0, 0);
    pthread_t thread;
    if (pthread_create(&thread, &detached, help, &next)) break;  // who is there does the work
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

#define ENTRY extern "C" __attribute__((visibility("default")))

ENTRY void share(Loop loop, byte* dst, const byte* src, const void* table, length units,
                 length step, length threads) {
  const length pieces = (units + step - 1) / step;
  if (threads > pieces) threads = pieces;
  if (threads > MOST) threads = MOST;
  if (threads <= 1 || pthread_mutex_trylock(&one_call)) return loop(dst, src, table, 0, units);
  if (started < threads - 1) start(int(threads - 1));
  if (threads > started + 1) threads = started + 1;
  call.loop = loop, call.dst = dst, call.src = src, call.table = table;
  call.units = units, call.step = step, call.threads = int(threads);
  for (length n = 0; n < threads; n++) {
    call.parts[n].next = pieces * n / threads;
    call.parts[n].end = pieces * (n + 1) / threads;
  }
  for (int n = 0; n < threads - 1; n++)  // one that was called off is about to look again
    if (helpers[n].state.exchange(ASKED) == ASLEEP) sem_post(&helpers[n].asked);
  work(0);
  for (int n = 0; n < threads - 1; n++) end(helpers[n]);
  pthread_mutex_unlock(&one_call);
}
