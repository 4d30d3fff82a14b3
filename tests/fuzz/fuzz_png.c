/* libFuzzer target: any bytes through the PNG decoder; what decodes is resized to a small square.
 *
 *   clang -fsanitize=fuzzer,address,undefined -Idaemon tests/fuzz/fuzz_png.c <core/base,
 * input/media/image.c, input/media/resize.c, store/fsio.c> -ljansson -lxxhash -lpng */
#include <stdint.h>
#include <stdlib.h>

#include "input/media/resize.h"
#include "input/picture/image.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct cs_image image = {0};
    struct cs_err err = {0};
    uint8_t out[16 * 16 * 3];

    if (cs_image_decode(data, size, "fuzz", 1 << 20, &image, &err) != CS_OK) {
        if (image.rgb != NULL || err.text[0] == '\0')
            abort();
        return 0;
    }
    if (cs_resize_rgb(image.rgb, image.width, image.height, out, 16, 16, CS_RESAMPLE_BICUBIC,
                      NULL) != CS_OK)
        abort();
    cs_image_free(&image);
    return 0;
}
