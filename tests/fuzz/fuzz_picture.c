/* libFuzzer target: any bytes as a picture. What decodes has the size that its header said, and can be
 * resized. */
#include <stdint.h>
#include <stdlib.h>

#include "fuzz/edit.h"
#include "input/media/resize.h"
#include "input/picture/image.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { PIXELS = 1 << 20 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct cs_image image = {0};
    struct cs_err err = {0};
    int32_t width = 0, height = 0;
    uint8_t out[16 * 16 * 3];
    const enum cs_status probed =
        cs_image_probe_bytes(data, size, "fuzz", PIXELS, &width, &height, NULL);

    if (cs_image_decode(data, size, "fuzz", PIXELS, &image, &err) != CS_OK) {
        fuzz_must(image.rgb == NULL && err.text[0] != '\0');
        return 0;
    }
    fuzz_must(probed == CS_OK && width == image.width && height == image.height);
    fuzz_must(cs_resize_rgb(image.rgb, image.width, image.height, out, 16, 16,
                            (enum cs_resample)(size % CS_RESAMPLES), NULL) == CS_OK);
    cs_image_free(&image);
    return 0;
}
