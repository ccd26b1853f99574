// Numbers that kernels share with launch.py, and the layouts to which a variant may be limited.
#ifndef GPUTENSOR_LAUNCH
#define GPUTENSOR_LAUNCH

constexpr int THREADS = 256;  // the largest block of every kernel; smaller ones for few elements

// 16-byte packs per operand and thread: 64 bytes of loads in flight for one input, 32 bytes for
// each of two or three.
constexpr int UNARY_PACKS = 4, BINARY_PACKS = 2;

// -DLAYOUT= one of these compiles only that entry.
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
