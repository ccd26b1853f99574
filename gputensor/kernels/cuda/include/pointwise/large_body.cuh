// The end of the body of a pointwise family: its entries for large layouts, rows and turned. It has
// no include guard, because it is included once per variant. FAMILY is the name of the including
// `.cu` file (module.py). The body defines before:
//   operands       by pointwise/operand_defines.cuh
//   VALUES         the number of value slots
//   large_body<P>  what walk_rows and walk_tiles compute, for parameters of type P
#if HAS_LAYOUT(ROWS)
typedef rows_params<operands::count, VALUES, DIMS> rows_call;
extern "C" __global__ void __launch_bounds__(THREADS)
FAMILY_rows(const __grid_constant__ rows_call p) {
  walk_rows<operands>(p, large_body<rows_call>{p});
}
#endif

#if HAS_LAYOUT(TURNED)
typedef turned_params<operands::count, VALUES, DIMS> turned_call;
extern "C" __global__ void __launch_bounds__(THREADS, 1)
FAMILY_turned(const __grid_constant__ turned_call p) {
  __shared__ uint4 shared[TILE_CELLS<operands>];
  walk_tiles<operands>(p, large_body<turned_call>{p}, shared);
}
#endif
