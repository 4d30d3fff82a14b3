/* Encodes and decodes trace files. */
#include "core/trace/tracefile.h"

#include <stdint.h>
#include <string.h>

#include "core/base/hash.h"

static const char file_magic[8] = {'C', 'S', 'T', 'R', 'A', 'C', 'E', '1'};

enum {
    RECORD_MAGIC = 0x43455243,
    FRAME_BYTES = 24,
    HASH_BYTES = 72,
    STAGE_BYTES = CS_TRACE_NAME + 8,
    NODE_BYTES = CS_TRACE_NODE_NAME + 8
};

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "trace files are little-endian");

static void put_u32(struct cs_buf *out, uint32_t v)
{
    cs_buf_add(out, &v, sizeof v);
}

static void put_i32(struct cs_buf *out, int32_t v)
{
    cs_buf_add(out, &v, sizeof v);
}

static void put_u64(struct cs_buf *out, uint64_t v)
{
    cs_buf_add(out, &v, sizeof v);
}

static void put_text(struct cs_buf *out, const char *text, size_t field)
{
    char *to = cs_buf_room(out, field);
    memset(to, 0, field);
    memcpy(to, text, strnlen(text, field - 1));
    out->len += field;
}

void cs_trace_head_encode(const struct cs_trace_head *head, struct cs_buf *out)
{
    cs_buf_add(out, file_magic, sizeof file_magic);
    const int nodes_bytes = head->n_nodes > 0 ? 8 + head->n_nodes * NODE_BYTES : 0;
    put_u32(out, (uint32_t)(2 * HASH_BYTES + 24 + head->n_stages * STAGE_BYTES + nodes_bytes));
    put_u32(out, 0);
    put_text(out, head->spec_hash, HASH_BYTES);
    put_text(out, head->plan_hash, HASH_BYTES);
    put_i32(out, head->generation);
    put_i32(out, head->n_ranks);
    put_i32(out, head->n_stages);
    put_i32(out, head->slots);
    put_u64(out, (uint64_t)head->predicted_ns);
    for (int s = 0; s < head->n_stages; s++) {
        put_text(out, head->stage[s].name, CS_TRACE_NAME);
        put_i32(out, head->stage[s].rank);
        put_i32(out, head->stage[s].node);
    }
    if (head->n_nodes > 0) {
        put_i32(out, head->n_nodes);
        put_i32(out, 0);
    }
    for (int n = 0; n < head->n_nodes; n++) {
        put_text(out, head->node[n].name, CS_TRACE_NODE_NAME);
        put_u64(out, (uint64_t)head->node[n].clock_offset_ns);
    }
}

static void put_keys(const struct cs_trace_record *record, struct cs_buf *out)
{
    put_i32(out, record->n_slots);
    put_i32(out, record->n_ranks);
    for (int r = 0; r < record->n_ranks; r++) {
        const struct cs_span_keys *keys = &record->keys[r];
        put_u32(out, keys->n);
        cs_buf_add(out, keys->key, keys->n * sizeof *keys->key);
        if (keys->n % 2 == 0) /* 4 + 12 n, to a multiple of 8 */
            put_u32(out, 0);
    }
}

static void put_events(const struct cs_trace_record *record, struct cs_buf *out)
{
    put_u64(out, (uint64_t)record->step);
    put_i32(out, record->n_slots);
    put_i32(out, record->generation);
    put_u64(out, (uint64_t)record->wall_ns);
    put_i32(out, record->n_ranks);
    put_u32(out, 0);
    for (int r = 0; r < record->n_ranks; r++) {
        put_u64(out, record->lost ? record->lost[r] : 0);
        put_u32(out, record->events[r].n);
        put_u32(out, 0);
        cs_buf_add(out, record->events[r].event, record->events[r].n * sizeof(struct cs_event));
    }
}

void cs_trace_record_encode(const struct cs_trace_record *record, struct cs_buf *out)
{
    size_t frame = out->len;
    put_u32(out, RECORD_MAGIC);
    put_u32(out, (uint32_t)record->type);
    put_u64(out, 0);
    put_u64(out, 0);
    if (record->type == CS_TRACE_PROGRAM)
        put_keys(record, out);
    else
        put_events(record, out);
    uint64_t bytes = out->len - frame - FRAME_BYTES;
    uint64_t sum = cs_fnv1a64(out->data + frame + FRAME_BYTES, bytes);
    memcpy(out->data + frame + 8, &bytes, sizeof bytes);
    memcpy(out->data + frame + 16, &sum, sizeof sum);
}

/* A bounded reader; after a short read everything is zero and has_failed stays set. */
struct in {
    const char *bytes;
    size_t n, at;
    bool has_failed;
};

static void take(struct in *in, void *to, size_t n)
{
    if (in->has_failed || in->n - in->at < n) {
        in->has_failed = true;
        memset(to, 0, n);
        return;
    }
    memcpy(to, in->bytes + in->at, n);
    in->at += n;
}

static uint32_t take_u32(struct in *in)
{
    uint32_t v;
    take(in, &v, sizeof v);
    return v;
}

static int32_t take_i32(struct in *in)
{
    int32_t v;
    take(in, &v, sizeof v);
    return v;
}

static uint64_t take_u64(struct in *in)
{
    uint64_t v;
    take(in, &v, sizeof v);
    return v;
}

/* A number that calculations rest on. */
static int64_t take_i64(struct in *in, int64_t low, int64_t high)
{
    int64_t v = (int64_t)take_u64(in);
    in->has_failed |= v < low || v > high;
    return v;
}

static int32_t take_count(struct in *in)
{
    int32_t v = take_i32(in);
    in->has_failed |= v < 0;
    return v;
}

/* n items copied into the arena; the claim is checked against what is there before anything is
 * allocated */
static void *take_array(struct in *in, struct cs_arena *arena, size_t n, size_t item_bytes)
{
    if (in->has_failed || n > (in->n - in->at) / item_bytes) {
        in->has_failed = true;
        return NULL;
    }
    void *to = cs_arena_array(arena, item_bytes, n ? n : 1);
    take(in, to, n * item_bytes);
    return to;
}

/* The rest of the body; none in files of older releases. */
static void take_nodes(struct in *in, struct cs_arena *arena, struct cs_trace_head *out)
{
    out->n_nodes = 0;
    out->node = NULL;
    if (in->has_failed || in->at == in->n)
        return;
    out->n_nodes = take_i32(in);
    take_i32(in);
    if (in->has_failed || out->n_nodes < 1 || out->n_nodes > CS_TRACE_MAX_NODES ||
        in->n - in->at != (size_t)out->n_nodes * NODE_BYTES) {
        in->has_failed = true;
        return;
    }
    struct cs_trace_node *node = CS_NEW_ARRAY(arena, struct cs_trace_node, out->n_nodes);
    for (int n = 0; n < out->n_nodes; n++) {
        take(in, node[n].name, CS_TRACE_NODE_NAME);
        node[n].name[CS_TRACE_NODE_NAME - 1] = '\0';
        node[n].clock_offset_ns = (int64_t)take_u64(in);
    }
    out->node = node;
}

enum cs_status cs_trace_head_decode(const void *bytes, size_t n, struct cs_arena *arena,
                                    struct cs_trace_head *out, size_t *used, struct cs_err *err)
{
    struct in in = {.bytes = bytes, .n = n};
    char magic[sizeof file_magic], text[HASH_BYTES];
    take(&in, magic, sizeof magic);
    if (in.has_failed || memcmp(magic, file_magic, sizeof magic) != 0)
        return cs_fail(err, CS_CORRUPT, "not a trace file (it must begin with CSTRACE1)");
    uint32_t body = take_u32(&in);
    take_u32(&in);
    if (in.has_failed || body > n - in.at)
        return cs_fail(err, CS_CORRUPT, "the head of the trace file is cut off at byte %zu", n);
    in.n = in.at + body;
    take(&in, text, sizeof text);
    memcpy(out->spec_hash, text, 64);
    take(&in, text, sizeof text);
    memcpy(out->plan_hash, text, 64);
    out->spec_hash[64] = out->plan_hash[64] = '\0';
    out->generation = take_count(&in);
    out->n_ranks = take_i32(&in);
    out->n_stages = take_i32(&in);
    out->slots = take_count(&in);
    out->predicted_ns = take_i64(&in, 0, CS_EVENT_MAX_NS);
    if (in.has_failed || out->n_ranks < 1 || out->n_ranks > CS_TRACE_MAX_RANKS ||
        out->n_stages < 1 || out->n_stages > CS_TRACE_MAX_STAGES ||
        in.n - in.at < (size_t)out->n_stages * STAGE_BYTES)
        return cs_fail(err, CS_CORRUPT,
                       "the head of the trace file says %d ranks, %d stages in %u bytes",
                       out->n_ranks, out->n_stages, body);
    struct cs_trace_stage *stage = CS_NEW_ARRAY(arena, struct cs_trace_stage, out->n_stages);
    for (int s = 0; s < out->n_stages; s++) {
        take(&in, stage[s].name, CS_TRACE_NAME);
        stage[s].name[CS_TRACE_NAME - 1] = '\0';
        stage[s].rank = take_count(&in);
        in.has_failed |= stage[s].rank >= out->n_ranks;
        stage[s].node = take_count(&in);
    }
    out->stage = stage;
    take_nodes(&in, arena, out);
    if (in.has_failed || in.at != in.n)
        return cs_fail(err, CS_CORRUPT, "the head of the trace file says %d nodes in %u bytes",
                       out->n_nodes, body);
    *used = in.at;
    return CS_OK;
}

static void take_keys(struct in *in, struct cs_arena *arena, struct cs_trace_record *out)
{
    out->n_slots = take_count(in);
    out->n_ranks = take_i32(in);
    if (out->n_ranks < 1 || out->n_ranks > CS_TRACE_MAX_RANKS) {
        in->has_failed = true;
        return;
    }
    struct cs_span_keys *keys = CS_NEW_ARRAY(arena, struct cs_span_keys, out->n_ranks);
    for (int r = 0; r < out->n_ranks && !in->has_failed; r++) {
        keys[r].n = take_u32(in);
        keys[r].key = take_array(in, arena, keys[r].n, sizeof *keys[r].key);
        if (keys[r].n % 2 == 0)
            take_u32(in);
    }
    out->keys = keys;
}

static void take_events(struct in *in, struct cs_arena *arena, struct cs_trace_record *out)
{
    out->step = take_i64(in, -1, CS_EVENT_MAX_NS);
    out->n_slots = take_count(in);
    out->generation = take_count(in);
    out->wall_ns = take_i64(in, 0, INT64_MAX / 2);
    out->n_ranks = take_i32(in);
    take_u32(in);
    if (out->n_ranks < 1 || out->n_ranks > CS_TRACE_MAX_RANKS) {
        in->has_failed = true;
        return;
    }
    struct cs_span_events *events = CS_NEW_ARRAY(arena, struct cs_span_events, out->n_ranks);
    uint64_t *lost = CS_NEW_ARRAY(arena, uint64_t, out->n_ranks);
    for (int r = 0; r < out->n_ranks && !in->has_failed; r++) {
        lost[r] = take_u64(in);
        events[r].n = take_u32(in);
        take_u32(in);
        events[r].event = take_array(in, arena, events[r].n, sizeof *events[r].event);
    }
    out->events = events;
    out->lost = lost;
}

enum cs_status cs_trace_record_decode(const void *bytes, size_t n, size_t *offset,
                                      struct cs_arena *arena, struct cs_trace_record *out,
                                      struct cs_err *err)
{
    for (;;) {
        struct in in = {.bytes = bytes, .n = n, .at = *offset};
        uint32_t magic = take_u32(&in), type = take_u32(&in);
        uint64_t payload = take_u64(&in), sum = take_u64(&in);
        if (in.has_failed || magic != RECORD_MAGIC || payload > n - in.at ||
            cs_fnv1a64(in.bytes + in.at, payload) != sum)
            return cs_fail(err, CS_NOT_FOUND, "no whole record at byte %zu of %zu", *offset, n);
        size_t start = *offset;
        in.n = in.at + payload;
        *offset = in.n;
        *out = (struct cs_trace_record){.type = (enum cs_trace_type)type};
        if (type == CS_TRACE_PROGRAM)
            take_keys(&in, arena, out);
        else if (type == CS_TRACE_STEP || type == CS_TRACE_PREDICTED)
            take_events(&in, arena, out);
        else
            continue;
        if (in.has_failed || in.at != in.n)
            return cs_fail(err, CS_CORRUPT,
                           "the counts of the record at byte %zu do not fit its size", start);
        return CS_OK;
    }
}
