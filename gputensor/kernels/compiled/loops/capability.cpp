// The tables of all loops that are built for one capability.
#include "../engine/machine.h"
#include "capability.h"

namespace CAPABILITY {

#define FAMILIES(X) \
  X(activation) \
  X(argreduce) \
  X(attention) \
  X(binary) \
  X(comparison) \
  X(conv) \
  X(copy) \
  X(copy_pack) \
  X(copy_pieces) \
  X(counts) \
  X(criterion) \
  X(ctc) \
  X(distance) \
  X(embedding_bag) \
  X(exponential) \
  X(gather) \
  X(histogram) \
  X(lapack) \
  X(loss) \
  X(margin) \
  X(matmul) \
  X(moments) \
  X(nonzero) \
  X(norm) \
  X(order) \
  X(orthogonal) \
  X(pool_windows) \
  X(random) \
  X(range) \
  X(recurrent) \
  X(reduce) \
  X(sampling) \
  X(scan) \
  X(scatter) \
  X(search) \
  X(softmax) \
  X(special) \
  X(ternary) \
  X(triangle) \
  X(unary) \
  X(unique) \
  X(where)

#define DECLARE(NAME) extern const abi::Family NAME;
FAMILIES(DECLARE)
#undef DECLARE

extern const abi::Cast casts[abi::N_DTYPES][abi::N_DTYPES];
extern const abi::Cast widens[abi::N_DTYPES];
extern const abi::Move packs[], unpacks[];
extern const abi::Machine machine;

#define LIST(NAME) &NAME,
static const abi::Family* const families[] = {FAMILIES(LIST)};
#undef LIST

#define NAME_OF(X) #X
#define EXPANDED_NAME_OF(X) NAME_OF(X)
extern const abi::Capability capability = {
    EXPANDED_NAME_OF(CAPABILITY), families, sizeof families / sizeof *families,
    casts, widens, packs, unpacks, &machine,
};

}  // namespace CAPABILITY
