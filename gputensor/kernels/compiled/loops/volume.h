// Arrays of images as volumes: see Volume.
#ifndef GPUTENSOR_VOLUME_H
#define GPUTENSOR_VOLUME_H

#include "capability.h"

namespace CAPABILITY {

// An array's dimensions (n, c, d, h, w). Missing dimensions have size 1.
struct Volume : abi::Array {
  // spatial: the number of spatial dimensions of the array
  Volume(const abi::Array& given, i64 spatial) {
    data = given.data, size = given.size, dtype = given.dtype, itemsize = given.itemsize;
    for (ndim = 0; ndim < 5; ++ndim) shape[ndim] = 1, stride[ndim] = 0;
    for (int from = given.ndim, to = 5; from-- > 0;) {
      --to;
      if (to == 4 - spatial) to = 1;
      shape[to] = given.shape[from], stride[to] = given.stride[from];
    }
  }
};

}  // namespace CAPABILITY

#endif
