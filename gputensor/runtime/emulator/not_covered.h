// Words that a C++ compiler knows and that mean something else on a GPU, or nothing: a text that
// uses one does not compile. Included behind all else, before the text of a user.
#pragma once

#define asm gputensor_not_covered_asm
#define __asm gputensor_not_covered___asm
#define __asm__ gputensor_not_covered___asm__
#define malloc gputensor_not_covered_malloc
#define free gputensor_not_covered_free
#define __cluster_dims__(...) gputensor_not_covered___cluster_dims__

// g++ would call the C++ library's, which a kernel is not linked with.
#define GPUTENSOR_NO_HEAP __attribute__((error("a kernel has no heap")))
GPUTENSOR_NO_HEAP void* operator new(size_t);
GPUTENSOR_NO_HEAP void* operator new[](size_t);
