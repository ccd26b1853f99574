// Report a kernel's fault and end its launch instead of the process. Faults are signals of the
// processor and reports of libasan.
#pragma once

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <time.h>

#include "memory_check.h"

namespace {

constexpr int WATCHED = 5;
struct sigaction old_actions[WATCHED];
const int watched[WATCHED] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};

#if defined(__x86_64__)
// In CUDA, integer division by zero, or of the most negative number by -1, has an unspecified
// result and does not trap. Set the quotient to the dividend and the remainder to 0, and skip the
// instruction.
bool skip_division(ucontext_t* u) {
  greg_t* r = u->uc_mcontext.gregs;
  const unsigned char* p = (const unsigned char*)r[REG_RIP];
  bool wide = false, narrow = false;
  for (;; ++p) {
    if ((*p & 0xf0) == 0x40) wide = *p & 8;
    else if (*p == 0x66) narrow = true;
    else break;
  }
  const unsigned char opcode = *p++;
  if (opcode != 0xf6 && opcode != 0xf7) return false;
  const unsigned char modrm = *p++, mode = modrm >> 6, rm = modrm & 7;
  if ((modrm >> 3 & 7) < 6) return false;
  if (mode != 3) {
    if (rm == 4) {
      const unsigned char sib = *p++;
      if (mode == 0 && (sib & 7) == 5) p += 4;
    } else if (mode == 0 && rm == 5) {
      p += 4;
    }
    p += mode == 1 ? 1 : mode == 2 ? 4 : 0;
  }
  if (opcode == 0xf6) r[REG_RAX] &= ~0xff00ll;
  else if (narrow) r[REG_RDX] &= ~0xffffll;
  else r[REG_RDX] = 0;
  if (opcode == 0xf7 && !narrow && !wide) r[REG_RAX] &= 0xffffffffll;
  r[REG_RIP] = (greg_t)p;
  return true;
}
#endif

void* instruction_of(const ucontext_t* u) {
#if defined(__x86_64__)
  return (void*)u->uc_mcontext.gregs[REG_RIP];
#elif defined(__aarch64__)
  return (void*)u->uc_mcontext.pc;
#else
  return nullptr;
#endif
}

// The size of an access that a signal reports; it is unknown.
constexpr unsigned long long SOME_BYTES = ~0ull;

int kind_of(const ucontext_t* u) {
#if defined(__x86_64__)
  return u->uc_mcontext.gregs[REG_ERR] & 2 ? WRITE : READ;
#else
  return -1;
#endif
}

bool on_guard_of(const unsigned char* p, const unsigned char* low, size_t nbytes) {
  return low && p < low + nbytes && p + GAP >= low;
}

void on_signal(int number, siginfo_t* info, void* raw) {
  if (!inside) {  // not a kernel's fault: the previous handler gets it when it happens again
    for (int i = 0; i < WATCHED; ++i)
      if (watched[i] == number) sigaction(number, &old_actions[i], nullptr);
    if (number == SIGABRT) raise(number);
    return;
  }
#if defined(__x86_64__)
  if (number == SIGFPE && skip_division((ucontext_t*)raw)) return;
#endif
  char what[600];
  const unsigned char* address = (const unsigned char*)info->si_addr;
  bool is_access = false;
  if (number == SIGFPE) snprintf(what, sizeof what, "arithmetic trap");
  else if (number == SIGABRT) snprintf(what, sizeof what, "abort()");
  else if (number == SIGILL) snprintf(what, sizeof what, "undefined behaviour, a trap by g++");
  else if (running && on_guard_of(address, stacks, MAX_THREADS * stack_size))
    snprintf(what, sizeof what, "the thread's stack of %zu KiB is full", stack_size >> 10);
  else if (!running && on_guard_of(address, grid_stack, GRID_STACK))
    snprintf(what, sizeof what, "the thread's stack of %zu KiB is full", GRID_STACK >> 10);
#if defined(__x86_64__)
  else if (info->si_code == SI_KERNEL)
    snprintf(what, sizeof what, "illegal address, of more bits than addresses have");
#endif
  else if ((uintptr_t)address < 1 << 16)
    snprintf(what, sizeof what, "null pointer");
  else {
    snprintf(what, sizeof what, "illegal address %p", (const void*)address);
    is_access = true;
  }
  write_report(what, nullptr, 0, *now.m->thread_index);
  // addr2line expects the address after a call, so add 1
  fault.pc = (char*)instruction_of((ucontext_t*)raw) + 1;
  if (is_access) {
    fault.address = address;
    fault.size = SOME_BYTES;
    fault.kind = kind_of((ucontext_t*)raw);
  }
  siglongjmp(escape, 1);
}

// SIGINT and SIGALRM end a kernel that does not terminate; Python's handlers run afterwards. SIGURG
// has no effect by default. It is used for the time limit, for a SIGINT that another thread
// received, and to interrupt again when the first signal found the thread in a library.
constexpr int STOPS = 3;
struct sigaction old_stops[STOPS];
const int stops[STOPS] = {SIGINT, SIGALRM, SIGURG};
constexpr long long LOOK_AGAIN_NS = 10000000;

volatile pid_t running_thread;  // 0 while no kernel runs
volatile bool looks_again;
int timer_id;
pid_t timer_thread, timer_process;
thread_local bool has_timer;  // a later thread may get the same thread id

pid_t this_thread() { return (pid_t)syscall(SYS_gettid); }

// One timer is enough, since one kernel runs at a time. Another thread gets a new timer.
bool get_timer() {
  const pid_t thread = running_thread, process = getpid();
  if (has_timer && timer_thread == thread && timer_process == process) return true;
  if (timer_thread && timer_process == process) syscall(SYS_timer_delete, timer_id);
  sigevent event = {};
  event.sigev_notify = SIGEV_THREAD_ID;
  event.sigev_signo = SIGURG;
  event.sigev_value.sival_ptr = &timer_id;
  event._sigev_un._tid = thread;
  timer_thread = syscall(SYS_timer_create, CLOCK_MONOTONIC, &event, &timer_id) ? 0 : thread;
  timer_process = process;
  return has_timer = timer_thread != 0;
}

// Send this thread SIGURG after `first_ns`, then repeatedly; 0 stops the timer.
void set_timer(long long first_ns) {
  if (!get_timer()) return;
  itimerspec when = {};
  when.it_value = {first_ns / 1000000000, first_ns % 1000000000};
  if (first_ns) when.it_interval = {0, LOOK_AGAIN_NS};
  syscall(SYS_timer_settime, timer_id, 0, &when, nullptr);
}

// Return the place of a kernel stopped at `pc`, as the address after a call. The linker's stubs for
// calls of the engine have no line; for a stub, return the return address of the call.
void* behind(const unsigned char* pc, ucontext_t* u) {
#if defined(__x86_64__)
  const unsigned char* p = pc;
  if (p[0] == 0xf3 && p[1] == 0x0f && p[2] == 0x1e && p[3] == 0xfa) p += 4;  // endbr64
  if (*p == 0xf2) ++p;                                                       // bnd
  if (p[0] == 0xff && p[1] == 0x25) return *(void**)u->uc_mcontext.gregs[REG_RSP];
#endif
  return (void*)(pc + 1);
}

void on_stop(int number, siginfo_t* info, void* raw) {
  if (!inside) {  // another thread received the signal
    const struct sigaction& old = old_stops[number == stops[1] ? 1 : number == stops[2] ? 2 : 0];
    const pid_t thread = running_thread;
    if (number == SIGINT && thread) {
      stop_asked = SIGURG;
      syscall(SYS_tgkill, getpid(), thread, SIGURG);
    }
    if (old.sa_flags & SA_SIGINFO) {
      old.sa_sigaction(number, info, raw);
    // the default action ends the process
    } else if (old.sa_handler == SIG_DFL && number != SIGURG) {
      sigaction(number, &old, nullptr);
      raise(number);
    } else if (old.sa_handler != SIG_IGN && old.sa_handler != SIG_DFL) {
      old.sa_handler(number);
    }
    return;
  }
  if (number == SIGURG) {
    if (!stop_asked && info->si_code != SI_TIMER) return;
    number = stop_asked ? stop_asked : OUT_OF_TIME;
  }
  const unsigned char* pc = (const unsigned char*)instruction_of((ucontext_t*)raw);
  // Code in a hook soon reaches the engine, which reports the kernel's line.
  const bool in_hook = pc >= now.m->hooks_begin && pc < now.m->hooks_end;
  if (!in_hook && pc >= now.image_begin && pc < now.image_end)
    stop_here(number, behind(pc, (ucontext_t*)raw));
  if (!looks_again) set_timer(LOOK_AGAIN_NS);  // it may be in a library and never reach the engine
  looks_again = true;
  stop_asked = number;
  forget_known();
}

alignas(64) unsigned char signal_stack[64 << 10];
stack_t old_signal_stack;

// libasan reports bad addresses itself.
bool ours(int number) { return !sanitized || number == SIGFPE || number == SIGILL; }

void watch_signals() {
  stack_t own = {};
  own.ss_sp = signal_stack;
  own.ss_size = sizeof signal_stack;
  sigaltstack(&own, &old_signal_stack);
  running_thread = this_thread();
  looks_again = false;
  struct sigaction action = {};
  action.sa_sigaction = on_signal;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  for (int i = 0; i < WATCHED; ++i)
    if (ours(watched[i])) sigaction(watched[i], &action, &old_actions[i]);
  action.sa_sigaction = on_stop;
  for (int i = 0; i < STOPS; ++i) {
    sigaction(stops[i], &action, &old_stops[i]);
    // A signal that the program ignores does not end a kernel: a shell's & and nohup ignore SIGINT.
    const bool is_ignored = stops[i] != SIGURG && old_stops[i].sa_handler == SIG_IGN;
    if (is_ignored) sigaction(stops[i], &old_stops[i], nullptr);
  }
  if (chosen.limit_ms) set_timer((long long)chosen.limit_ms * 1000000);
  inside = 1;
}

// Restore a handler, unless the program has set another one in the meantime.
void put_back(int number, const struct sigaction& old) {
  struct sigaction present;
  sigaction(number, &old, &present);
  const bool was_ours = present.sa_sigaction == on_signal || present.sa_sigaction == on_stop;
  if (!was_ours) sigaction(number, &present, nullptr);
}

void unwatch_signals() {
  inside = 0;
  if (has_timer && timer_thread == running_thread && timer_process == getpid()) set_timer(0);
  running_thread = 0;
  for (int i = 0; i < WATCHED; ++i)
    if (ours(watched[i])) put_back(watched[i], old_actions[i]);
  for (int i = 0; i < STOPS; ++i) put_back(stops[i], old_stops[i]);
  sigaltstack(&old_signal_stack, nullptr);
}

// Copy the part between `from` and `to` into text; return its length.
size_t cut(const char* report_text, const char* from, const char* to, char* text, size_t room) {
  const char* begin = strstr(report_text, from);
  if (!begin) return text[0] = 0;
  begin += strlen(from);
  const char* end = strstr(begin, to);
  const size_t n = end ? (size_t)(end - begin) : strlen(begin);
  return (size_t)snprintf(text, room, "%.*s", (int)(n < room ? n : room - 1), begin);
}

// Reduce a report of libasan to the error and the kernel's line:
//   ==1==ERROR: AddressSanitizer: heap-buffer-overflow on address 0x… at pc …
//   WRITE of size 4 at 0x… thread T0
//       #0 0x… in (anonymous namespace)::v0::name((anonymous namespace)::v0::P) name.cu:12
void on_sanitizer_report(const char* text) {
  if (!inside || fault.what[0]) return;
  char error[64], size[16], frame[512], what[768];
  cut(text, "AddressSanitizer: ", " on ", error, sizeof error);
  const bool writes = cut(text, "WRITE of size ", " ", size, sizeof size) != 0;
  if (!writes) cut(text, "READ of size ", " ", size, sizeof size);
  cut(text, "    #0 ", "\n", frame, sizeof frame);
  const char* line = strrchr(frame, ' ');
  snprintf(what, sizeof what, "%s, %s of %s bytes", error, writes ? "write" : "read", size);
  // name.cu:12, /folder/name.cu:12:5 or (object+0x1234), which Python parses
  write_report(what, line ? line + 1 : "", 0, *now.m->thread_index);
  // further threads of the block may report the same error; the first report is enough
  static const int nowhere = open("/dev/null", O_WRONLY);
  __sanitizer_set_report_fd((void*)(intptr_t)nowhere);
}

}  // namespace
