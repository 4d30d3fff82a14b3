/* Oracle tool: decode and resize pictures.
 *
 *   tool_image < jobs      a job is one line: FILE WIDTH HEIGHT FILTER OUT
 *
 * FILTER as Pillow numbers them, 0 to 5; -1 none (size ignored). OUT gets the raw RGB bytes. One line of
 * stdout per job: "ok WIDTH HEIGHT" or "STATUS: message". */
#include <stdio.h>
#include <stdlib.h>

#include "input/media/resize.h"
#include "input/picture/image.h"

static enum cs_status job(const char *file, int w, int h, int filter, const char *out, int size[2],
                          struct cs_err *err)
{
    struct cs_image image = {0};
    uint8_t *pixels = NULL;
    enum cs_status status = cs_image_read(file, 0, &image, err);
    FILE *f = NULL;

    if (status != CS_OK)
        return status;
    size[0] = filter < 0 ? image.width : w;
    size[1] = filter < 0 ? image.height : h;
    pixels = malloc((size_t)size[0] * (size_t)size[1] * 3);
    CS_ASSERT(pixels != NULL);
    status = cs_resize_rgb(image.rgb, image.width, image.height, pixels, size[0], size[1],
                           filter < 0 ? CS_RESAMPLE_BICUBIC : (enum cs_resample)filter, err);
    f = fopen(out, "wb");
    if (status == CS_OK && (f == NULL || fwrite(pixels, 3, (size_t)size[0] * (size_t)size[1], f) !=
                                             (size_t)size[0] * (size_t)size[1]))
        status = cs_fail(err, CS_IO, "cannot write %s", out);
    if (f != NULL)
        fclose(f);
    free(pixels);
    cs_image_free(&image);
    return status;
}

int main(void)
{
    char file[1024], out[1024];
    int w = 0, h = 0, filter = 0;

    while (scanf("%1023s %d %d %d %1023s", file, &w, &h, &filter, out) == 5) {
        struct cs_err err = {0};
        int size[2] = {0, 0};
        enum cs_status status = job(file, w, h, filter, out, size, &err);
        if (status == CS_OK)
            printf("ok %d %d\n", size[0], size[1]);
        else
            printf("%s: %s\n", cs_status_slug(status), err.text);
    }
    return 0;
}
