/* Writes small video files: AVI with frames that are not compressed, which every decoder returns as they were. */
#ifndef CS_TESTS_SUPPORT_AVI_H
#define CS_TESTS_SUPPORT_AVI_H

#include <stddef.h>
#include <stdint.h>

/* rgb (n, height, width, 3) -> a file of *size bytes, the caller's to free; rate / scale frames a second. width must
 * be a multiple of 4. */
uint8_t *cs_test_avi(const uint8_t *rgb, int n, int width, int height, int rate, int scale,
                     size_t *size);

#endif
