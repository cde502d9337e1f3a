// dwconv.cl's arithmetic at stride 1 without padding and with one slice an item, with loads shared in a work group: a filter's
// vector is read from global memory once by one item and passed on through local memory. Pixels have nothing to share.

__kernel void dwconv_shared(__global const float4* source, __global const float4* weights, __global float4* result,
                            __local float4* filters, const int in_w, const int in_h, const int out_w, const int out_h) {
  const int x = get_global_id(0);
  const int y = get_global_id(1);
  const int s = get_global_id(2);
  const int lz = get_local_id(2);
  const bool first = get_local_id(0) == 0 && get_local_id(1) == 0;

  float4 sum = (float4)(0);
  for (int ky = 0; ky < KERNEL_H; ++ky)
    for (int kx = 0; kx < KERNEL_W; ++kx) {
      barrier(CLK_LOCAL_MEM_FENCE);
      if (first) filters[lz] = weights[(s * KERNEL_H + ky) * KERNEL_W + kx];
      barrier(CLK_LOCAL_MEM_FENCE);
      sum += source[(s * in_h + y + ky) * in_w + x + kx] * filters[lz];
    }
  result[(s * out_h + y) * out_w + x] = sum;
}
