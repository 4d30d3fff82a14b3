/* GIF by giflib: the first frame on its screen, as Pillow shows it. What the frame leaves bare has its
 * transparent colour, else colour 0; colours are looked up whether transparent or not. */
#include "input/picture/decoders.h"

#include <stdlib.h>
#include <string.h>

#include <gif_lib.h>

enum { COLOURS = 256, NO_COLOUR = -1 };

struct reader {
    const struct cs_picture_file *file;
    size_t at;
    GifFileType *gif;
    int transparent; /* index, NO_COLOUR: none */
};

static int on_read(GifFileType *gif, GifByteType *out, int n)
{
    struct reader *r = gif->UserData;
    const size_t left = r->file->n - r->at;
    const size_t taken = n < 0 ? 0 : (size_t)n < left ? (size_t)n : left;

    memcpy(out, r->file->bytes + r->at, taken);
    r->at += taken;
    return (int)taken;
}

static enum cs_status broken(const struct reader *r, struct cs_err *err)
{
    const char *why = GifErrorString(r->gif->Error);

    if (r->gif->Error == D_GIF_ERR_NOT_ENOUGH_MEM)
        return cs_fail(err, CS_NO_MEMORY, "%s: no memory to read it", r->file->name);
    return cs_fail(err, CS_CORRUPT, "%s: broken GIF: %s", r->file->name,
                   r->at == r->file->n ? "the file ends too early"
                   : why != NULL       ? why
                                       : "it has no picture");
}

/* Passes extensions up to the first frame. */
static enum cs_status find_frame(struct reader *r, struct cs_err *err)
{
    GifRecordType type = UNDEFINED_RECORD_TYPE;
    GifByteType *block = NULL;
    int code = 0;

    for (;;) {
        if (DGifGetRecordType(r->gif, &type) != GIF_OK || type == TERMINATE_RECORD_TYPE)
            return broken(r, err);
        if (type == IMAGE_DESC_RECORD_TYPE)
            return DGifGetImageDesc(r->gif) == GIF_OK ? CS_OK : broken(r, err);
        if (type != EXTENSION_RECORD_TYPE)
            continue;
        if (DGifGetExtension(r->gif, &code, &block) != GIF_OK)
            return broken(r, err);
        if (code == GRAPHICS_EXT_FUNC_CODE && block != NULL && block[0] >= 4 && (block[1] & 1))
            r->transparent = block[4];
        while (block != NULL)
            if (DGifGetExtensionNext(r->gif, &block) != GIF_OK)
                return broken(r, err);
    }
}

/* A frame may be larger than its screen, which then grows. */
static enum cs_status read_head(struct reader *r, struct cs_picture_head *head, struct cs_err *err)
{
    const GifImageDesc *frame = &r->gif->Image;

    CS_TRY(find_frame(r, err));
    const int64_t right = (int64_t)frame->Left + frame->Width;
    const int64_t bottom = (int64_t)frame->Top + frame->Height;
    const int64_t width = right > r->gif->SWidth ? right : r->gif->SWidth;
    const int64_t height = bottom > r->gif->SHeight ? bottom : r->gif->SHeight;
    if (frame->Width < 1 || frame->Height < 1 || frame->Left < 0 || frame->Top < 0)
        return cs_fail(err, CS_CORRUPT, "%s: broken GIF: its first frame is empty", r->file->name);
    *head = (struct cs_picture_head){.width = (int32_t)width, .height = (int32_t)height};
    return cs_picture_check_size(r->file, width, height, err);
}

/* RGB of every index; returns how many there are. Without a palette an index is a gray. */
static int colours_of(const struct reader *r, uint8_t out[COLOURS][CS_IMAGE_CHANNELS])
{
    const ColorMapObject *map =
        r->gif->Image.ColorMap != NULL ? r->gif->Image.ColorMap : r->gif->SColorMap;
    bool is_gray = true;

    for (int i = 0; i < COLOURS; i++)
        memset(out[i], i, CS_IMAGE_CHANNELS);
    for (int i = 0; map != NULL && i < map->ColorCount && i < COLOURS; i++) {
        const uint8_t rgb[] = {map->Colors[i].Red, map->Colors[i].Green, map->Colors[i].Blue};
        is_gray = is_gray && memcmp(out[i], rgb, sizeof(rgb)) == 0;
        memcpy(out[i], rgb, sizeof(rgb));
    }
    return is_gray ? COLOURS : map->ColorCount;
}

/* indices (height, width): those of the frame are written */
static enum cs_status read_lines(struct reader *r, uint8_t *indices, int32_t width,
                                 struct cs_err *err)
{
    static const struct {
        int first, step;
    } interlaced[] =
        {
            {0, 8},
            {4, 8},
            {2, 4},
            {1, 2}
    },
      plain[] = {{0, 1}};

    const GifImageDesc *frame = &r->gif->Image;
    const int passes = frame->Interlace ? (int)CS_ARRAY_LEN(interlaced) : 1;
    for (int p = 0; p < passes; p++) {
        const int first = frame->Interlace ? interlaced[p].first : plain[p].first;
        const int step = frame->Interlace ? interlaced[p].step : plain[p].step;
        for (int y = first; y < frame->Height; y += step)
            if (DGifGetLine(r->gif,
                            indices + (size_t)(frame->Top + y) * (size_t)width + frame->Left,
                            frame->Width) != GIF_OK)
                return broken(r, err);
    }
    return CS_OK;
}

static enum cs_status make_rgb(const struct reader *r, const uint8_t *indices,
                               const struct cs_picture_head *head, uint8_t *rgb, struct cs_err *err)
{
    uint8_t colours[COLOURS][CS_IMAGE_CHANNELS];
    const int n_colours = colours_of(r, colours);
    const size_t n = (size_t)head->width * (size_t)head->height;

    for (size_t i = 0; i < n; i++) {
        if (indices[i] >= n_colours)
            return cs_fail(err, CS_CORRUPT,
                           "%s: broken GIF: pixel (%zu, %zu) has colour %d of a palette of %d",
                           r->file->name, i % (size_t)head->width, i / (size_t)head->width,
                           indices[i], n_colours);
        memcpy(rgb + i * CS_IMAGE_CHANNELS, colours[indices[i]], CS_IMAGE_CHANNELS);
    }
    return CS_OK;
}

static enum cs_status read_pixels(struct reader *r, const struct cs_picture_head *head,
                                  struct cs_image *out, struct cs_err *err)
{
    const size_t n = (size_t)head->width * (size_t)head->height;
    uint8_t *indices = malloc(n);
    enum cs_status status = CS_OK;

    out->rgb = malloc(n * CS_IMAGE_CHANNELS);
    if (indices == NULL || out->rgb == NULL) {
        status = cs_fail(err, CS_NO_MEMORY, "%s: no memory for %zu pixels", r->file->name, n);
    } else {
        memset(indices, r->transparent == NO_COLOUR ? 0 : r->transparent, n);
        status = read_lines(r, indices, head->width, err);
    }
    if (status == CS_OK)
        status = make_rgb(r, indices, head, out->rgb, err);
    free(indices);
    return status;
}

/* out NULL: the head alone */
static enum cs_status run(const struct cs_picture_file *file, struct cs_picture_head *head,
                          struct cs_image *out, struct cs_err *err)
{
    struct reader r = {.file = file, .transparent = NO_COLOUR};
    int code = 0;

    r.gif = DGifOpen(&r, on_read, &code);
    if (r.gif == NULL)
        return code == D_GIF_ERR_NOT_ENOUGH_MEM
                   ? cs_fail(err, CS_NO_MEMORY, "%s: no memory to read it", file->name)
                   : cs_fail(err, CS_CORRUPT, "%s: broken GIF: %s", file->name,
                             r.at == file->n ? "the file ends too early" : "its header is wrong");
    enum cs_status status = read_head(&r, head, err);
    if (status == CS_OK && out != NULL)
        status = read_pixels(&r, head, out, err);
    (void)DGifCloseFile(r.gif, &code);
    return status;
}

enum cs_status cs_gif_decode(const struct cs_picture_file *file, struct cs_picture_head *head,
                             struct cs_image *out, struct cs_err *err)
{
    return run(file, head, out, err);
}

enum cs_status cs_gif_probe(const struct cs_picture_file *file, struct cs_picture_head *head,
                            struct cs_err *err)
{
    return run(file, head, NULL, err);
}
