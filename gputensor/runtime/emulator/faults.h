// Faults of a kernel end its launch with a sentence instead of the process: signals of the
// processor and reports of libasan.
#pragma once

#include <dlfcn.h>
#include <fcntl.h>

#include "memory_check.h"

namespace {

constexpr int WATCHED = 4;
struct sigaction old_actions[WATCHED];
const int watched[WATCHED] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};

#if defined(__x86_64__)
// CUDA's integer division by zero has an unspecified result and does not trap; neither does the
// most negative number by -1. Gives the dividend as quotient, 0 as remainder, and steps over.
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

void on_signal(int number, siginfo_t* info, void* raw) {
  if (!inside) {  // not ours: let the previous handler see the fault when it happens again
    for (int i = 0; i < WATCHED; ++i)
      if (watched[i] == number) sigaction(number, &old_actions[i], nullptr);
    return;
  }
#if defined(__x86_64__)
  if (number == SIGFPE && skip_division((ucontext_t*)raw)) return;
#endif
  char what[600];
  if (number == SIGFPE) snprintf(what, sizeof what, "arithmetic trap");
  else if (number == SIGILL) snprintf(what, sizeof what, "undefined behaviour, a trap by g++");
  else if ((unsigned char*)info->si_addr >= stacks &&
           (unsigned char*)info->si_addr < stacks + MAX_THREADS * stack_size)
    snprintf(what, sizeof what, "the thread's stack of %zu KiB is full", stack_size >> 10);
  else if ((uintptr_t)info->si_addr < 1 << 16)
    snprintf(what, sizeof what, "null pointer");
  else
    snprintf(what, sizeof what, "illegal address %p", info->si_addr);
  write_report(what, nullptr, 0, *now.m->thread_index);
  // addr2line takes an address for one behind a call, so this one is moved likewise
  fault.pc = (char*)instruction_of((ucontext_t*)raw) + 1;
  siglongjmp(escape, 1);
}

// SIGINT and SIGALRM end a kernel that runs on for ever; what they mean to Python comes after it.
constexpr int STOPS = 2;
struct sigaction old_stops[STOPS];
const int stops[STOPS] = {SIGINT, SIGALRM};

// Where the kernel is that was stopped at `pc`, as an address behind a call. The linker's stubs, by
// which a kernel calls the engine, have no line: then it is the call's.
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
  if (!inside) {  // another thread got it
    const struct sigaction& old = old_stops[number == stops[1]];
    if (old.sa_flags & SA_SIGINFO) old.sa_sigaction(number, info, raw);
    else if (old.sa_handler != SIG_IGN && old.sa_handler != SIG_DFL) old.sa_handler(number);
    return;
  }
  const unsigned char* pc = (const unsigned char*)instruction_of((ucontext_t*)raw);
  // In a hook the kernel is on its way to the engine, which knows its line.
  const bool in_hook = pc >= now.m->hooks_begin && pc < now.m->hooks_end;
  if (!in_hook && pc >= now.image_begin && pc < now.image_end)
    stop_here(number, behind(pc, (ucontext_t*)raw));
  stop_asked = number;
}

alignas(64) unsigned char signal_stack[64 << 10];
stack_t old_signal_stack;

// libasan has a report of its own for bad addresses.
bool ours(int number) { return !sanitized || number == SIGFPE || number == SIGILL; }

void watch_signals() {
  stack_t own = {};
  own.ss_sp = signal_stack;
  own.ss_size = sizeof signal_stack;
  sigaltstack(&own, &old_signal_stack);
  struct sigaction action = {};
  action.sa_sigaction = on_signal;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  for (int i = 0; i < WATCHED; ++i)
    if (ours(watched[i])) sigaction(watched[i], &action, &old_actions[i]);
  action.sa_sigaction = on_stop;
  for (int i = 0; i < STOPS; ++i) sigaction(stops[i], &action, &old_stops[i]);
  inside = 1;
}

void unwatch_signals() {
  inside = 0;
  for (int i = 0; i < WATCHED; ++i)
    if (ours(watched[i])) sigaction(watched[i], &old_actions[i], nullptr);
  for (int i = 0; i < STOPS; ++i) sigaction(stops[i], &old_stops[i], nullptr);
  sigaltstack(&old_signal_stack, nullptr);
}

// Copies what stands between `from` (behind it) and `to` into text; returns its length.
size_t cut(const char* report_text, const char* from, const char* to, char* text, size_t room) {
  const char* begin = strstr(report_text, from);
  if (!begin) return text[0] = 0;
  begin += strlen(from);
  const char* end = strstr(begin, to);
  const size_t n = end ? (size_t)(end - begin) : strlen(begin);
  return (size_t)snprintf(text, room, "%.*s", (int)(n < room ? n : room - 1), begin);
}

// A report of libasan, cut to what happened and the kernel's line:
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
  // name.cu:12, /folder/name.cu:12:5 or (object+0x1234): Python takes it apart
  write_report(what, line ? line + 1 : "", 0, *now.m->thread_index);
  // every further thread of the block may report the same; the first full report is enough to read
  static const int nowhere = open("/dev/null", O_WRONLY);
  __sanitizer_set_report_fd((void*)(intptr_t)nowhere);
}

}  // namespace
