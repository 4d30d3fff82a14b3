/* Videos that a record names: files, folders, lists of frames; and their places among the pictures. */
#include <stdio.h>
#include <string.h>

#include "input/data/record/record_read.h"

static enum cs_status add_frames(struct cs_record_reader *r, int e, const char *where,
                                 const json_t *list, double fps)
{
    const size_t n = json_array_size(list);
    struct cs_media_file video = {.name = cs_arena_strdup(r->record->arena, where),
                                  .is_video = true,
                                  .n_frames = (int32_t)n,
                                  .fps = fps};
    char place[CS_RECORD_PLACE];

    if (n == 0)
        return cs_record_refuse(r, where, list, "a video has frames");
    if (n > CS_RECORD_MAX_FRAMES)
        return cs_fail(r->err, CS_LIMIT, "%s: a video of %zu frames, at most %d", where, n,
                       CS_RECORD_MAX_FRAMES);
    struct cs_media_file *frames = CS_NEW_ARRAY(r->record->arena, struct cs_media_file, n);
    for (size_t i = 0; i < n; i++) {
        snprintf(place, sizeof place, "%s[%zu]", where, i);
        CS_TRY(cs_record_take_file(r, place, json_array_get(list, i), &frames[i]));
    }
    video.frames = frames;
    return cs_record_append_file(r, e, &r->videos[e], &r->n_videos[e], &video);
}

/* The rate at which pictures were taken; 0: is not said. */
static double fps_of(const json_t *node)
{
    return json_number_value(cs_doc_get(node, "fps|sample_fps", NULL));
}

static enum cs_status add_video(struct cs_record_reader *r, int e, const char *where,
                                const json_t *value, const json_t *node)
{
    const json_t *frames = json_is_object(value) ? cs_doc_get(value, "frames", NULL) : value;
    struct cs_media_file file = {0};

    node = json_is_object(value) ? value : node;
    if (json_is_array(frames))
        return add_frames(r, e, where, frames, fps_of(node));
    CS_TRY(cs_record_take_file(r, where, value, &file));
    file.is_video = true;
    file.fps = fps_of(node);
    return cs_record_append_file(r, e, &r->videos[e], &r->n_videos[e], &file);
}

enum cs_status cs_record_add_videos(struct cs_record_reader *r, int e, const char *where,
                                    const json_t *value, bool is_one, const json_t *node)
{
    char place[CS_RECORD_PLACE];
    const json_t *one = NULL;
    size_t i = 0;

    if (is_one || !json_is_array(value))
        return add_video(r, e, where, value, node);
    json_array_foreach(value, i, one)
    {
        snprintf(place, sizeof place, "%s[%zu]", where, i);
        CS_TRY(add_video(r, e, place, one, node));
    }
    return CS_OK;
}

/* What is taken of one list. */
struct taken {
    const struct cs_media_file *files;
    int32_t n, at;
};

static const struct cs_media_file *take(struct taken *t)
{
    return t->at < t->n ? &t->files[t->at++] : NULL;
}

/* Places of videos take videos, others pictures; where a kind has run out the other one's: "<image>" often
 * stands for a video. Files without a place come behind. */
static enum cs_status join(struct cs_record_reader *r, int e)
{
    struct cs_record *record = r->record;
    struct taken pictures = {record->files[e], record->n_files[e], 0};
    struct taken videos = {r->videos[e], r->n_videos[e], 0};
    struct cs_media_file *files = NULL;
    const struct cs_media_file *next = NULL;
    int32_t n = 0;

    for (int32_t t = 0; t < record->n_turns; t++)
        for (int32_t i = 0; i < record->turns[t].n_parts; i++) {
            const struct cs_part *part = &record->turns[t].parts[i];
            if (part->encoder != e)
                continue;
            next = take(part->is_video ? &videos : &pictures);
            if (next == NULL)
                next = take(part->is_video ? &pictures : &videos);
            if (next != NULL)
                CS_TRY(cs_record_append_file(r, e, &files, &n, next));
        }
    while ((next = take(&pictures)) != NULL || (next = take(&videos)) != NULL)
        CS_TRY(cs_record_append_file(r, e, &files, &n, next));
    record->files[e] = files;
    record->n_files[e] = n;
    return CS_OK;
}

enum cs_status cs_record_join_videos(struct cs_record_reader *r)
{
    for (int e = 0; e < r->keys->n; e++)
        if (r->n_videos[e] > 0)
            CS_TRY(join(r, e));
    return CS_OK;
}
