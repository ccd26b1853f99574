// The begin of each body: defaults with which a file compiles alone in an editor, and the types of
// a variant. It has no include guard, because it is included once per variant.
#ifndef SCALAR
#define SCALAR f32
#endif
#ifndef LAYOUT
#define LAYOUT ANY_LAYOUT
#endif
#ifndef DIMS
#define DIMS 8
#endif
typedef SCALAR scalar_t;
typedef acc_of<scalar_t>::type acc_t;
// Complex functions are long and contain calls. They spill registers if the compiler chooses the
// occupancy.
constexpr int LEAST_BLOCKS = is_complex<scalar_t> ? 1 : 0;
