// conv.cl's arithmetic at stride 1 without padding, with loads shared in a work group: whatever several of its items need
// is read from global memory once at every step, by one of them, and passed on through local memory.

__kernel void conv_shared(__global const float4* source, __global const float4* weights, __global float4* result,
                          __local float4* pixels, __local float4* filters, const int in_w, const int in_h,
                          const int in_slices, const int out_w, const int out_h) {
  const int column = (int)get_local_id(1) * get_local_size(0) + get_local_id(0);
  const int columns = get_local_size(0) * get_local_size(1);
  const int first_x = (int)get_global_id(0) * BLOCK_X;
  const int first_y = (int)get_global_id(1) * BLOCK_Y;
  const int first_s = (int)get_global_id(2) * BLOCK_S;
  const int lz = get_local_id(2);

  float4 sum[BLOCK_S][BLOCK_Y][BLOCK_X];
  for (int s = 0; s < BLOCK_S; ++s)
    for (int y = 0; y < BLOCK_Y; ++y)
      for (int x = 0; x < BLOCK_X; ++x) sum[s][y][x] = (float4)(0);

  for (int ky = 0; ky < KERNEL_H; ++ky)
    for (int kx = 0; kx < KERNEL_W; ++kx)
      for (int slice = 0; slice < in_slices; ++slice) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (lz == 0)
          for (int y = 0; y < BLOCK_Y; ++y)
            for (int x = 0; x < BLOCK_X; ++x)
              pixels[(column * BLOCK_Y + y) * BLOCK_X + x] =
                  source[(slice * in_h + first_y + y + ky) * in_w + first_x + x + kx];
        if (column == 0)
          for (int s = 0; s < BLOCK_S; ++s)
            for (int c = 0; c < 4; ++c)
              filters[(lz * BLOCK_S + s) * 4 + c] =
                  weights[((((first_s + s) * KERNEL_H + ky) * KERNEL_W + kx) * in_slices + slice) * 4 + c];
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int s = 0; s < BLOCK_S; ++s) {
          __local const float4* filter = filters + (lz * BLOCK_S + s) * 4;
          for (int y = 0; y < BLOCK_Y; ++y)
            for (int x = 0; x < BLOCK_X; ++x) {
              const float4 pixel = pixels[(column * BLOCK_Y + y) * BLOCK_X + x];
              sum[s][y][x] += filter[0] * pixel.x + filter[1] * pixel.y + filter[2] * pixel.z + filter[3] * pixel.w;
            }
        }
      }

  for (int s = 0; s < BLOCK_S; ++s)
    for (int y = 0; y < BLOCK_Y; ++y)
      for (int x = 0; x < BLOCK_X; ++x) result[((first_s + s) * out_h + first_y + y) * out_w + first_x + x] = sum[s][y][x];
}
