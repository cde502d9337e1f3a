// Depthwise convolution in FP32: a work item makes BLOCK_X x BLOCK_Y output pixels of BLOCK_S slices of four channels.
//
// source, result: [slice][y][x] of float4. bias: [slice] of float4. weights: [slice][kernel y][kernel x] of float4.
// Slices of weights and bias are padded to a multiple of BLOCK_S; channels beyond the last are zero. A slice beyond the last is
// computed from the last one's pixels and not written.
//
// At every position of the kernel, a work item loads BLOCK_X * BLOCK_Y * BLOCK_S pixels and BLOCK_S vectors of weights.
//
// Build options: those of conv.cl.

__kernel void dwconv(__global const float4* source, __global const float4* weights, __global const float4* bias,
                     __global float4* result, const int in_w, const int in_h, const int in_slices, const int out_w,
                     const int out_h, const int out_slices) {
  const int first_x = (int)get_global_id(0) * BLOCK_X;
  const int first_y = (int)get_global_id(1) * BLOCK_Y;
  const int first_s = (int)get_global_id(2) * BLOCK_S;
  if (first_x >= out_w || first_y >= out_h || first_s >= out_slices) return;

  float4 sum[BLOCK_S][BLOCK_Y][BLOCK_X];
  for (int s = 0; s < BLOCK_S; ++s)
    for (int y = 0; y < BLOCK_Y; ++y)
      for (int x = 0; x < BLOCK_X; ++x) sum[s][y][x] = bias[first_s + s];

  for (int ky = 0; ky < KERNEL_H; ++ky) {
    for (int kx = 0; kx < KERNEL_W; ++kx) {
      for (int s = 0; s < BLOCK_S; ++s) {
        const float4 weight = weights[((first_s + s) * KERNEL_H + ky) * KERNEL_W + kx];
        __global const float4* plane = source + min(first_s + s, in_slices - 1) * in_h * in_w;
        for (int y = 0; y < BLOCK_Y; ++y) {
          const int in_y = (first_y + y) * STRIDE_Y + ky - PAD_TOP;
          for (int x = 0; x < BLOCK_X; ++x) {
            const int in_x = (first_x + x) * STRIDE_X + kx - PAD_LEFT;
            // Pixels outside are read from the nearest one inside and count as zero.
            const float inside = (in_x >= 0 && in_x < in_w && in_y >= 0 && in_y < in_h) ? 1.0f : 0.0f;
            sum[s][y][x] += plane[clamp(in_y, 0, in_h - 1) * in_w + clamp(in_x, 0, in_w - 1)] * weight * inside;
          }
        }
      }
    }
  }

  for (int s = 0; s < BLOCK_S; ++s)
    for (int y = 0; y < BLOCK_Y; ++y)
      for (int x = 0; x < BLOCK_X; ++x)
        if (first_s + s < out_slices && first_y + y < out_h && first_x + x < out_w)
          result[((first_s + s) * out_h + first_y + y) * out_w + first_x + x] = sum[s][y][x];
}
