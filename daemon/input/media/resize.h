/* Resampling, bit-equal to Pillow's Image.resize on 8-bit RGB, all six filters (antialiased; bicubic
 * with a = -0.5, Lanczos of three lobes): weights in double, normalised, 22-bit fixed point,
 * horizontal pass first, each pass rounded and clipped to 8 bits; a pass whose axis does not change is
 * skipped. The nearest pixel is taken as it is. Pillow 9 to 12; Pillow 13 differs at some sizes. */
#ifndef CS_INPUT_MEDIA_RESIZE_H
#define CS_INPUT_MEDIA_RESIZE_H

#include <stdint.h>

#include "core/base/status.h"

/* values as PIL.Image.Resampling and preprocessor_config.json's "resample" have them */
enum cs_resample {
    CS_RESAMPLE_NEAREST,
    CS_RESAMPLE_LANCZOS,
    CS_RESAMPLE_BILINEAR,
    CS_RESAMPLE_BICUBIC,
    CS_RESAMPLE_BOX,
    CS_RESAMPLE_HAMMING,
    CS_RESAMPLES
};

/* src (src_height, src_width, 3) -> dst (dst_height, dst_width, 3), caller's memory; sizes >= 1 */
enum cs_status cs_resize_rgb(const uint8_t *src, int32_t src_width, int32_t src_height,
                             uint8_t *dst, int32_t dst_width, int32_t dst_height,
                             enum cs_resample filter, struct cs_err *err) CS_NODISCARD;

/* How fine the weights are. Videos are resized by torchvision, whose weights have 16 bits: what comes out differs
 * from Pillow's by 1 here and there. */
enum cs_resize_weights {
    CS_RESIZE_FINE, /* Pillow: 22 bits behind the point */
    CS_RESIZE_SHORT /* torchvision on 8-bit tensors with antialias: as many as leave 16-bit weights */
};

enum cs_status cs_resize_rgb_with(const uint8_t *src, int32_t src_width, int32_t src_height,
                                  uint8_t *dst, int32_t dst_width, int32_t dst_height,
                                  enum cs_resample filter, enum cs_resize_weights weights,
                                  struct cs_err *err) CS_NODISCARD;

#endif
