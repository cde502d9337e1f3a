// Convolution in FP32: a work item makes BLOCK_X x BLOCK_Y output pixels of BLOCK_S slices, a slice being four channels.
// Layouts and loads are those of ../opencl/conv.cl.
//
// In front of it stand constants: KERNEL_W, KERNEL_H, STRIDE_X, STRIDE_Y, PAD_LEFT, PAD_TOP, BLOCK_X,
// BLOCK_Y, BLOCK_S and the size of a work group, GROUP_X, GROUP_Y, GROUP_Z.

struct Sizes { in_w: i32, in_h: i32, in_slices: i32, out_w: i32, out_h: i32, out_slices: i32 }

@group(0) @binding(0) var<storage, read> source: array<vec4f>;
@group(0) @binding(1) var<storage, read> weights: array<vec4f>;
@group(0) @binding(2) var<storage, read> bias: array<vec4f>;
@group(0) @binding(3) var<storage, read_write> result: array<vec4f>;
@group(0) @binding(4) var<uniform> sizes: Sizes;

@compute @workgroup_size(GROUP_X, GROUP_Y, GROUP_Z)
fn main(@builtin(global_invocation_id) item: vec3u) {
  let first_x = i32(item.x) * BLOCK_X;
  let first_y = i32(item.y) * BLOCK_Y;
  let first_s = i32(item.z) * BLOCK_S;
  if (first_x >= sizes.out_w || first_y >= sizes.out_h || first_s >= sizes.out_slices) { return; }

  var sum: array<vec4f, BLOCK_S * BLOCK_Y * BLOCK_X>;
  for (var s = 0; s < BLOCK_S; s++) {
    for (var p = 0; p < BLOCK_Y * BLOCK_X; p++) { sum[s * BLOCK_Y * BLOCK_X + p] = bias[first_s + s]; }
  }

  var offset: array<i32, BLOCK_Y * BLOCK_X>;
  var inside: array<f32, BLOCK_Y * BLOCK_X>;
  var pixel: array<vec4f, BLOCK_Y * BLOCK_X>;
  for (var ky = 0; ky < KERNEL_H; ky++) {
    for (var kx = 0; kx < KERNEL_W; kx++) {
      // Pixels outside are read from the nearest one inside and count as zero.
      for (var p = 0; p < BLOCK_Y * BLOCK_X; p++) {
        let in_x = (first_x + p % BLOCK_X) * STRIDE_X + kx - PAD_LEFT;
        let in_y = (first_y + p / BLOCK_X) * STRIDE_Y + ky - PAD_TOP;
        offset[p] = clamp(in_y, 0, sizes.in_h - 1) * sizes.in_w + clamp(in_x, 0, sizes.in_w - 1);
        inside[p] = select(0.0, 1.0, in_x >= 0 && in_x < sizes.in_w && in_y >= 0 && in_y < sizes.in_h);
      }
      for (var slice = 0; slice < sizes.in_slices; slice++) {
        for (var p = 0; p < BLOCK_Y * BLOCK_X; p++) {
          pixel[p] = source[slice * sizes.in_h * sizes.in_w + offset[p]] * inside[p];
        }
        for (var s = 0; s < BLOCK_S; s++) {
          let at = ((((first_s + s) * KERNEL_H + ky) * KERNEL_W + kx) * sizes.in_slices + slice) * 4;
          let w0 = weights[at];
          let w1 = weights[at + 1];
          let w2 = weights[at + 2];
          let w3 = weights[at + 3];
          for (var p = 0; p < BLOCK_Y * BLOCK_X; p++) {
            sum[s * BLOCK_Y * BLOCK_X + p] += w0 * pixel[p].x + w1 * pixel[p].y + w2 * pixel[p].z + w3 * pixel[p].w;
          }
        }
      }
    }
  }

  for (var s = 0; s < BLOCK_S; s++) {
    for (var p = 0; p < BLOCK_Y * BLOCK_X; p++) {
      let x = first_x + p % BLOCK_X;
      let y = first_y + p / BLOCK_X;
      if (first_s + s < sizes.out_slices && y < sizes.out_h && x < sizes.out_w) {
        result[((first_s + s) * sizes.out_h + y) * sizes.out_w + x] = sum[s * BLOCK_Y * BLOCK_X + p];
      }
    }
  }
}
