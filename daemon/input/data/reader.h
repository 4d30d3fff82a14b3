/* Reads the files of one encoder, pictures and videos or sounds: how large one is, what it becomes, its data.
 * Immutable once it is open: several threads may use it. */
#ifndef CS_INPUT_DATA_READER_H
#define CS_INPUT_DATA_READER_H

#include "core/model/graph.h"
#include "input/data/expand.h"
#include "input/data/media_file.h"
#include "input/data/sizes.h"
#include "input/media/cache.h"
#include "input/media/disk_cache.h"
#include "input/media/sound/features.h"
#include "input/media/video/video_layout.h"

/* Where what files become is kept. */
struct cs_reader_caches {
    struct cs_cache *memory;
    struct cs_disk_cache *disk; /* NULL: none */
};

struct cs_reader {
    const char *name; /* of the module */
    char settings
        [CS_DISK_KEY]; /* hash of all that decides what becomes of a file, but for how it is cut */
    int32_t index;     /* of the encoder */
    enum cs_item_kind
        kind; /* CS_ITEM_SOUND: of sounds; else of pictures, and videos if has_video */
    struct cs_sound_processor sound;
    enum cs_sound_family family; /* of sounds */
    bool has_video;
    struct cs_video_processor video;
    struct cs_processor processor; /* of pictures */
    struct cs_media_encoder encoder;
    struct cs_media_bounds bounds;
    bool
        is_blind; /* what a file becomes does not depend on its size: it need not be opened for it */
};

/* CS_INVALID: processor and encoder do not belong together. */
enum cs_status cs_reader_open(const struct cs_module *module, int32_t index, struct cs_reader *out,
                              struct cs_err *err) CS_NODISCARD;
/* Fills medium and layout of media->file, one of n_of_sample. */
enum cs_status cs_reader_lay_out(const struct cs_reader *reader, const struct cs_dataset *set,
                                 struct cs_sizes *sizes, int32_t n_of_sample,
                                 struct cs_arena *arena, struct cs_sample_media *media,
                                 struct cs_err *err) CS_NODISCARD;
/* Bytes of all items of a file together. */
size_t cs_reader_bytes(const struct cs_media_layout *layout);
/* data: (cs_reader_bytes) those of its items one behind the other. *is_saturated: a picture of 16-bit
 * gray was decoded (not taken from a cache). */
enum cs_status cs_reader_load(const struct cs_reader *reader, const struct cs_dataset *set,
                              const struct cs_reader_caches *caches,
                              const struct cs_sample_media *media, uint8_t *data,
                              bool *is_saturated, struct cs_err *err) CS_NODISCARD;

#endif
