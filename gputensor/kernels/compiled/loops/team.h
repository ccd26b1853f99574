// Consecutive stages, each divided into pieces that threads share.
//
// One thread is the leader. It opens a stage, computes pieces, and waits for the pieces that other
// threads have begun. A piece belongs to the thread that claims it first, so no thread waits for a
// late one; without helpers the leader computes all pieces. A thread begins with its own share of
// the pieces, whose memory may still be in its cache from the previous stage.
#ifndef GPUTENSOR_TEAM
#define GPUTENSOR_TEAM

#include <sched.h>

#include "matrices.h"

namespace CAPABILITY {

constexpr int MOST_PIECES = 64;

template <class F> class Team {
 public:
  // Run body(stage, piece) for all pieces of a stage before any piece of the next stage.
  static void run(const Call& call, i64 stages, int pieces, const F& body) {
    Team team(stages, pieces, smaller(call.threads, pieces), body);
    call.share(as_body(take_part), &team, team.threads, 1);
  }

 private:
  struct alignas(64) Counter { i64 value; };

  Team(i64 stages, int pieces, int threads, const F& body)
      : stages(stages), pieces(pieces), threads(threads), body(body) {
    for (int piece = 0; piece < pieces; ++piece) claimed[piece].value = -1;
    open.value = -1, done.value = 0;
  }

  static void take_part(Team& team, i64 first, i64 last) {
    for (i64 unit = first; unit < last; ++unit) unit ? team.help((int)unit) : team.lead();
  }

  static i64 look(const Counter& at) { return __atomic_load_n(&at.value, __ATOMIC_ACQUIRE); }

  template <class Until> static void wait(const Until& until) {
    for (int looks = 0; !until(); ++looks) {
      if (looks > 4096) sched_yield();
#if defined(__x86_64__)
      _mm_pause();
#endif
    }
  }

  void lead() {
    for (i64 stage = 0; stage < stages; ++stage) {
      __atomic_store_n(&open.value, stage, __ATOMIC_RELEASE);
      work(stage, 0);
      wait([&] { return look(done) == (stage + 1) * pieces; });
    }
    __atomic_store_n(&open.value, stages, __ATOMIC_RELEASE);
  }

  void help(int unit) {
    const int first = unit * pieces / threads;
    for (i64 seen = -1; seen < stages;) {
      i64 now = seen;
      wait([&] { return (now = look(open)) != seen; });
      seen = now;
      if (seen < stages) work(seen, first);
    }
  }

  void work(i64 stage, int first) {
    for (int k = 0; k < pieces; ++k) {
      const int piece = (first + k) % pieces;
      i64 before = stage - 1;
      if (!__atomic_compare_exchange_n(&claimed[piece].value, &before, stage, false,
                                       __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
        continue;
      body(stage, piece);
      __atomic_fetch_add(&done.value, 1, __ATOMIC_ACQ_REL);
    }
  }

  const i64 stages;
  const int pieces, threads;
  const F& body;
  Counter open, done, claimed[MOST_PIECES];
};

}  // namespace CAPABILITY

#endif
