// C++ identifiers that have a different meaning, or none, on a GPU. A text that uses one does not
// compile. Included last, before the text of a user.
#pragma once

#define asm gputensor_not_covered_asm
#define __asm gputensor_not_covered___asm
#define __asm__ gputensor_not_covered___asm__
#define malloc gputensor_not_covered_malloc
#define free gputensor_not_covered_free
#define __cluster_dims__(...) gputensor_not_covered___cluster_dims__

// Otherwise g++ would call the functions of the C++ library, which is not linked.
#define GPUTENSOR_NO_HEAP __attribute__((error("a kernel has no heap")))
GPUTENSOR_NO_HEAP void* operator new(size_t);
GPUTENSOR_NO_HEAP void* operator new[](size_t);
