/* libFuzzer target: any bytes through the line reader, the check, the encoder and back.
 *
 *   clang -fsanitize=fuzzer,address,undefined -Idaemon tests/fuzz/fuzz_line.c <core/base,
 * core/wire> -ljansson
 *
 * The first byte picks how the rest is cut into reads and the length limit. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/wire/line.h"
#include "core/wire/wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int holds)
{
    if (!holds)
        abort();
}

/* what was accepted must survive encoding and decoding, and the canonical form must be stable */
static void round_trip(json_t *msg)
{
    struct cs_buf line = {0}, one = {0}, two = {0};
    struct cs_err err;
    json_t *back;
    must(cs_msg_encode(msg, &line, &err) == CS_OK);
    must(cs_line_parse(line.data, line.len - 1, &back, &err) == CS_OK);
    must(json_equal(msg, back));
    must(cs_msg_check(msg, &err) == cs_msg_check(back, NULL));
    cs_json_canonical(msg, &one);
    cs_json_canonical(back, &two);
    must(one.len == two.len && memcmp(one.data, two.data, one.len) == 0);
    struct cs_peer peer;
    (void)!cs_hello_check(msg, &peer, &err);
    json_decref(back);
    cs_buf_free(&line);
    cs_buf_free(&one);
    cs_buf_free(&two);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    struct cs_line_reader *reader = cs_line_reader_new();
    size_t piece = (data[0] & 7) ? (size_t)(data[0] & 7) * 3 : CS_LINE_FEED_MAX;
    if (data[0] & 8)
        cs_line_reader_limit(reader, 64);
    if (data[0] & 16)
        cs_line_reader_limit(reader, 0);
    for (size_t at = 1; at < size; at += piece) {
        size_t n = size - at < piece ? size - at : piece;
        if (cs_line_feed(reader, data + at, n, NULL) != CS_OK)
            break;
        for (;;) {
            json_t *msg;
            struct cs_err err;
            enum cs_status st = cs_line_next(reader, &msg, &err);
            if (msg)
                round_trip(msg);
            json_decref(msg);
            if (cs_line_reader_is_broken(reader) || (st == CS_OK && !msg))
                break;
        }
    }
    cs_line_reader_free(reader);
    return 0;
}
