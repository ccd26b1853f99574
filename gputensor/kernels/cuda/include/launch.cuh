// Numbers shared with launch.py, and the layouts that a variant may be limited to.
#ifndef GPUTENSOR_LAUNCH
#define GPUTENSOR_LAUNCH

// the largest block of all kernels; blocks are smaller for few elements
constexpr int THREADS = 256;

// 16-byte packs per operand and thread: 64 bytes of loads in flight for one input, and 32 bytes for
// each of two or three inputs.
constexpr int UNARY_PACKS = 4, BINARY_PACKS = 2;

// -DLAYOUT= one of these compiles only the entry for this layout.
#define ANY_LAYOUT 0
#define CONTIGUOUS 1
#define STRIDED 2
#define CAST 3
#define PACKED 4
#define ROWS 5
#define AFFINE 6
#define ELEMENTS 7
#define SUMS 8
#define PARTS 9
#define TURNED 10
#define COLUMNS 11
#define LISTS 12
#define HAS_LAYOUT(which) (LAYOUT == ANY_LAYOUT || LAYOUT == which)

#endif
