// The entry points of libasan; null if libasan is not loaded.
#pragma once

#include <stddef.h>

extern "C" {
void __asan_unpoison_memory_region(void const volatile*, size_t) __attribute__((weak));
void __asan_poison_memory_region(void const volatile*, size_t) __attribute__((weak));
void __asan_set_error_report_callback(void (*)(const char*)) __attribute__((weak));
void __sanitizer_set_report_fd(void*) __attribute__((weak));
void __sanitizer_start_switch_fiber(void**, const void*, size_t) __attribute__((weak));
void __sanitizer_finish_switch_fiber(void*, const void**, size_t*) __attribute__((weak));
}
