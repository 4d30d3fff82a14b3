/* Fuzz target: a real trace file with bytes and numbers exchanged, its sums made to fit again; the screens
 * are drawn from it. */
#include <stdlib.h>
#include <string.h>

#include "core/base/hash.h"
#include "core/trace/tracefile.h"
#include "fuzz/edit.h"
#include "fuzz/screens.h"
#include "support/replay.h"

enum { RECORD_HEAD = 24, EDITS = 40 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Numbers at the borders of what a field may hold. */
static void edit_bytes(char *bytes, size_t n, struct fuzz_bytes *from)
{
    static const int64_t values[] = {
        0, 1, -1, 2, INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN, INT64_MAX / 2, 1 << 20};

    for (int i = 0; i < EDITS && from->n > 2; i++) {
        size_t at = fuzz_take(from, 65536) % n, width = fuzz_take(from, 2) ? 8 : 4;
        int64_t value = values[fuzz_take(from, sizeof values / sizeof values[0])];
        if (fuzz_take(from, 3) == 0)
            value = (int64_t)fuzz_take(from, 65536);
        at -= at % 4;
        if (at + width <= n)
            memcpy(bytes + at, &value, width);
    }
}

/* Walks the records as far as they go; their sums are those of what they hold. */
static void seal(char *bytes, size_t n)
{
    uint32_t body = 0;
    size_t at = 16;

    memcpy(&body, bytes + 8, sizeof body);
    for (at += body; at < n && n - at >= RECORD_HEAD;) {
        uint64_t payload = 0, sum = 0;
        memcpy(&payload, bytes + at + 8, sizeof payload);
        if (payload > n - at - RECORD_HEAD)
            return;
        sum = cs_fnv1a64(bytes + at + RECORD_HEAD, payload);
        memcpy(bytes + at + 16, &sum, sizeof sum);
        at += RECORD_HEAD + payload;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct cs_test_replay replay;
    struct fuzz_bytes bytes = {data, size};
    struct cs_store *store = cs_store_new();
    struct cs_err err = {0};
    char *copy = NULL;

    if (replay.arena == NULL) {
        struct cs_test_spec spec = cs_test_replay_spec();
        cs_test_replay_new(&replay, &spec, 2);
    }
    copy = malloc(replay.trace.len);
    fuzz_must(copy != NULL);
    memcpy(copy, replay.trace.data, replay.trace.len);
    edit_bytes(copy, fuzz_take(&bytes, 3) ? 1024 : replay.trace.len, &bytes);
    seal(copy, replay.trace.len);
    if (cs_store_trace(store, copy, replay.trace.len, &err) == CS_OK)
        fuzz_draw(store, &bytes);
    else
        fuzz_must(err.text[0] != '\0');
    cs_store_free(store);
    free(copy);
    return 0;
}
