// The begin of the bodies of rows and turned layouts: the operands of a variant, from its -D. It
// has no include guard, because it is included once per variant; see Note [Operand kinds].
#ifndef KINDS
#define KINDS RUNS, RUNS, RUNS, RUNS
#define WIDTHS 16, 16, 16, 16
#define UNIT 4
#define UNROLL 2
#endif
#ifndef HELD  // only pointwise_plan.py defines these
#define HELD 0
#define ALONG 0
#endif
#ifndef DRAWN
#define DRAWN 0
#endif
#ifndef OUTPUTS
#define OUTPUTS 1
#endif
#ifndef EDGES
#define EDGES 1
#endif
struct operands {
  typedef type_list<TYPES> types;
  template <int J> using type = typename types::template at<J>;
  static constexpr int count = types::count, outputs = OUTPUTS, unit = UNIT, unroll = UNROLL;
  static constexpr bool is_along = ALONG;
  // -DEDGES=0 assumes that units and tiles are whole, so that their instructions can be counted;
  // that variant is never run.
  static constexpr bool has_edges = EDGES;

  static DEVICE constexpr int kind(int j) {
    constexpr int kinds[] = {KINDS};
    return kinds[j];
  }
  static DEVICE constexpr int width(int j) {
    constexpr int widths[] = {WIDTHS};
    return widths[j];
  }
  static DEVICE constexpr bool is_drawn(int j) { return DRAWN >> j & 1; }
  static DEVICE constexpr bool is_held(int j) { return HELD >> j & 1; }
};
