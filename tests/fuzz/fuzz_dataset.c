/* libFuzzer target: any bytes as a data set (the index of a file in memory), every item through the
 * tolerant parser, the record reader and every built-in template.
 *
 *   clang -fsanitize=fuzzer,address,undefined -Idaemon tests/fuzz/fuzz_dataset.c <core/base,
 *   core/doc, input/data, input/chat, input/tok> -ljansson ... */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "input/chat/template.h"
#include "input/data/dataset.h"
#include "input/data/record/record.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const tokens[] = {"<image>", "<|audio|>"};

static void render_all(const struct cs_record *record)
{
    const char *names[64];
    int n = cs_template_names(names, 64);
    struct cs_rendering rendering = {0};

    for (int i = 0; i < n; i++) {
        json_t *node = json_pack("{s:s}", "name", names[i]);
        struct cs_template chat;
        struct cs_err err = {0};
        if (cs_template_read(node, record->arena, &chat, &err) != CS_OK)
            abort();
        if (cs_template_render(&chat, record, tokens, 2, &rendering, &err) == CS_OK) {
            size_t at = 0; /* segments tile the text */
            for (size_t k = 0; k < rendering.n; k++) {
                if (rendering.segments[k].begin != at)
                    abort();
                at = rendering.segments[k].end;
            }
            if (at != rendering.text.len)
                abort();
        }
        json_decref(node);
    }
    cs_rendering_free(&rendering);
}

static const struct cs_record_keys *keys_of(struct cs_arena *arena)
{
    const struct cs_record_encoder encoder[] = {
        {.name = "vision", .token = tokens[0], .key = "", .has_video = true},
        {.name = "audio",  .token = tokens[1], .key = "", .has_sound = true}
    };
    struct cs_record_keys *keys = NULL;
    if (cs_record_keys_new(encoder, 2, arena, &keys, NULL) != CS_OK)
        abort();
    return keys;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[64];
    struct cs_dataset *set = NULL;
    struct cs_err err = {0};
    const struct cs_dataset_options options = {.root = "/"};
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_findings findings = {.arena = arena};
    const struct cs_record_keys *keys = keys_of(arena);
    int fd = memfd_create("fuzz", MFD_CLOEXEC);

    if (fd == -1 || write(fd, data, size) != (ssize_t)size)
        abort();
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    if (cs_dataset_open(path, &options, keys, &set, &err) == CS_OK) {
        for (uint64_t i = 0; i < cs_dataset_count(set) && i < 100; i++) {
            struct cs_record *record = NULL;
            if (cs_dataset_read(set, i, &findings, &record, &err) == CS_OK)
                render_all(record);
            cs_record_free(record);
        }
    }
    cs_dataset_close(set);
    cs_arena_free(arena);
    close(fd);
    return 0;
}
