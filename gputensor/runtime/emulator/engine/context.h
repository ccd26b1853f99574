// Switch between stacks. Assembly on x86-64 (about 5 ns), otherwise the C library, which makes a
// system call for the signal mask at each switch.
#pragma once

#include <stddef.h>
#include <ucontext.h>

namespace {

struct context {
#if defined(__x86_64__)
  void* sp;
#else
  ucontext_t state;
#endif
};

#if defined(__x86_64__)
extern "C" void gputensor_switch(void** save, void* load);
asm(R"(
.text
.local gputensor_switch
.type gputensor_switch,@function
gputensor_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  popq %rcx
  jmpq *%rcx
.size gputensor_switch,.-gputensor_switch
)");
#endif

void switch_context(context& from, context& to) {
#if defined(__x86_64__)
  gputensor_switch(&from.sp, to.sp);
#else
  swapcontext(&from.state, &to.state);
#endif
}

void begin_context(context& c, unsigned char* stack, size_t size, void (*function)()) {
#if defined(__x86_64__)
  void** top = (void**)(stack + size);
  // in place of the return address: a function is entered with the stack 8 bytes off a multiple of
  // 16
  *--top = nullptr;
  *--top = (void*)function;
  for (int i = 0; i < 6; ++i) *--top = nullptr;
  c.sp = top;
#else
  getcontext(&c.state);
  c.state.uc_stack.ss_sp = stack;
  c.state.uc_stack.ss_size = size;
  c.state.uc_link = nullptr;
  makecontext(&c.state, function, 0);
#endif
}

}  // namespace
