// steps[y][x] = how many steps z -> z^2 + c stays within radius 2, at most `most`.
// Launch: any grid; a thread takes pixels a whole grid apart.
struct Window { double left, top, step; };

extern "C" __global__ void mandelbrot(unsigned short* steps, int width, int height, int most,
                                      const __grid_constant__ Window window) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < width * height;
       i += gridDim.x * blockDim.x) {
    const double re = window.left + i % width * window.step;
    const double im = window.top + i / width * window.step;
    double x = 0, y = 0;
    int n = 0;
    while (n < most && x * x + y * y <= 4.0) {
      const double next = x * x - y * y + re;
      y = 2 * x * y + im;
      x = next;
      ++n;
    }
    steps[i] = (unsigned short)n;
  }
}
