/* The trace file of a job: pure encoding and decoding. It holds the events of the last steps
 * together with what is needed to draw them, so that it can be read with nothing beside it.
 *
 *   file      = head, records
 *   head      = "CSTRACE1", u32 bytes of the body, u32 0, body
 *   body      = char[72] spec hash, char[72] plan hash (hex, NUL-padded),
 *               i32 generation, i32 n_ranks, i32 n_stages, i32 slots a step is expected to have,
 *               i64 predicted step ns, n_stages times stage, nodes (absent in older files: one node)
 *   stage     = char[32] name, i32 rank, i32 node of that rank
 *   nodes     = i32 n_nodes, i32 0, n_nodes times { char[64] name, i64 clock offset ns }
 *   record    = u32 "CREC", u32 type, u64 bytes of the payload, u64 FNV-1a of the payload, payload
 *   PROGRAM   = the keys of a program, before the first step that uses it:
 *               i32 n_slots, i32 n_ranks,
 *               n_ranks times { u32 n, n struct cs_span_key, zeros to 8 bytes }
 *   STEP      = the events of a step: i64 step, i32 n_slots, i32 generation, i64 wall ns at its end,
 *               i32 n_ranks, i32 0,
 *               n_ranks times { u64 lost events, u32 n, u32 0, n struct cs_event }
 *   PREDICTED = the same, from the simulator, step -1
 *
 * All numbers are little-endian. Events are on the clock of the first node: the offset of theirs was
 * added when they were read. The end of a file may be torn (a runner was killed): reading stops at
 * the first record that is not whole. A later STEP of the same step supersedes an earlier one. */
#ifndef CS_TRACE_TRACEFILE_H
#define CS_TRACE_TRACEFILE_H

#include "core/base/buf.h"
#include "core/trace/span.h"

enum {
    CS_TRACE_NAME = 32,
    CS_TRACE_NODE_NAME = 64,
    CS_TRACE_MAX_RANKS = 4096,
    CS_TRACE_MAX_STAGES = 4096,
    CS_TRACE_MAX_NODES = 4096
};

struct cs_trace_stage {
    char name[CS_TRACE_NAME];
    int32_t rank, node; /* node: of the rank, 0 .. n_nodes - 1 */
};

struct cs_trace_node {
    char name[CS_TRACE_NODE_NAME];
    int64_t clock_offset_ns; /* what was added to its events */
};

struct cs_trace_head {
    char spec_hash[65], plan_hash[65];
    int32_t generation, n_ranks, n_stages, slots;
    int64_t predicted_ns;
    const struct cs_trace_stage *stage; /* (n_stages) */
    int32_t n_nodes;                    /* 0: not told, one */
    const struct cs_trace_node *node;   /* (n_nodes) */
};

enum cs_trace_type { CS_TRACE_PROGRAM = 1, CS_TRACE_STEP = 2, CS_TRACE_PREDICTED = 3 };

struct cs_trace_record {
    enum cs_trace_type type;
    int32_t n_slots, n_ranks, generation;
    int64_t step, wall_ns;
    const uint64_t *lost;                /* (n_ranks) STEP, PREDICTED */
    const struct cs_span_events *events; /* (n_ranks) STEP, PREDICTED */
    const struct cs_span_keys *keys;     /* (n_ranks) PROGRAM */
};

void cs_trace_head_encode(const struct cs_trace_head *head, struct cs_buf *out);
void cs_trace_record_encode(const struct cs_trace_record *record, struct cs_buf *out);

/* *used: bytes of the head. CS_CORRUPT names the offset. */
enum cs_status cs_trace_head_decode(const void *bytes, size_t n, struct cs_arena *arena,
                                    struct cs_trace_head *out, size_t *used,
                                    struct cs_err *err) CS_NODISCARD;
/* The record at *offset, which moves behind it; arrays are copied into arena. Records of unknown
 * type are skipped. CS_NOT_FOUND: the end, or a torn tail (*offset < n tells them apart).
 * CS_CORRUPT: a whole record whose content lies. */
enum cs_status cs_trace_record_decode(const void *bytes, size_t n, size_t *offset,
                                      struct cs_arena *arena, struct cs_trace_record *out,
                                      struct cs_err *err) CS_NODISCARD;

#endif
