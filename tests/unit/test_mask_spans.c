/* Goldens of masks: matrices, counts, tile maps. Source: Cornstarch, bitfield attention. */
#include "core/mask/runs.h"
#include "core/mask/span.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "core/base/hash.h"

#define TEXT(n)                                                                                    \
    {                                                                                              \
        CS_SPAN_TEXT, n, 0, -1                                                                     \
    }
#define PAD(n)                                                                                     \
    {                                                                                              \
        CS_SPAN_PADDING, n, 0, -1                                                                  \
    }
#define SPAN(m, n)                                                                                 \
    {                                                                                              \
        m, n, 0, -1                                                                                \
    }
#define SPANS(...) ((const struct cs_mask_span[]){__VA_ARGS__})
#define MAKE(kind, text, ...)                                                                      \
    make(SPANS(__VA_ARGS__), (int)CS_ARRAY_LEN(SPANS(__VA_ARGS__)),                                \
         (struct cs_mask_rule){kind, 3, 3}, text)

static struct cs_arena *arena;
static struct cs_mask_plan plan;
static struct cs_mask_runs runs;

static void make(const struct cs_mask_span *span, int n, struct cs_mask_rule rule,
                 enum cs_mask_text text)
{
    struct cs_err err = {.text = ""};
    cs_arena_free(arena);
    arena = cs_arena_new(0);
    if (cs_mask_from_spans(span, n, rule, text, arena, &plan, &err) != CS_OK ||
        cs_mask_runs_make(&plan, arena, &runs, &err) != CS_OK)
        fail_msg("%s", err.text);
}

static int64_t pairs(void)
{
    return cs_mask_row_pairs(&runs, arena, CS_NEW_ARRAY(arena, int32_t, plan.n_tokens));
}

static void check_rows(const char *const *want)
{
    int64_t ones = 0;
    for (int32_t i = 0; i < plan.n_tokens; i++) {
        struct cs_buf text = {0};
        cs_mask_text_row(&plan, i, &text);
        assert_string_equal(cs_buf_str(&text), want[i]);
        for (size_t c = 0; c < text.len; c++)
            ones += text.data[c] == '1';
        cs_buf_free(&text);
    }
    assert_int_equal(pairs(), ones);
}

static void two_modalities_give_the_golden_matrix(void **state)
{
    (void)state;
    static const char *const rows[] = {"10000000", "11000000", "00110000", "00110000",
                                       "11111000", "00000110", "00000110", "11111111"};
    MAKE(CS_MASK_CORNSTARCH, CS_TEXT_SEES_ALL, TEXT(2), SPAN(0, 2), TEXT(1), SPAN(1, 2), TEXT(1));
    check_rows(rows);
}

static void text_that_sees_text_only_skips_the_spans(void **state)
{
    (void)state;
    static const char *const rows[] = {"10000000", "11000000", "00110000", "00110000",
                                       "11001000", "00000110", "00000110", "11001001"};
    MAKE(CS_MASK_CORNSTARCH, CS_TEXT_SEES_TEXT, TEXT(2), SPAN(0, 2), TEXT(1), SPAN(1, 2), TEXT(1));
    check_rows(rows);
}

static void the_marker_bit_alone_is_padding(void **state)
{
    (void)state;
    const struct cs_mask_rule rule = {.kind = CS_MASK_CORNSTARCH};
    const struct cs_mask_token marker = {UINT64_C(1) << 62, 0, 0, -1};
    const struct cs_mask_token text = {CS_MASK_TEXT | UINT64_C(1) << 62, 0, 1, -1};
    assert_false(cs_mask_allows(rule, marker, marker));
    assert_false(cs_mask_allows(rule, text, marker));
    assert_true(cs_mask_allows(rule, text, text));
}

static void padding_has_an_empty_row_and_column(void **state)
{
    (void)state;
    for (int kind = 0; kind < CS_MASK_KINDS; kind++) {
        MAKE((enum cs_mask_kind)kind, CS_TEXT_SEES_ALL, TEXT(2), PAD(1), SPAN(0, 2), TEXT(1),
             PAD(2));
        for (int32_t i = 0; i < 8; i++) {
            struct cs_buf text = {0};
            cs_mask_text_row(&plan, i, &text);
            const char *row = cs_buf_str(&text);
            assert_true(row[2] == '0' && row[6] == '0' && row[7] == '0');
            if (i == 2 || i >= 6)
                assert_string_equal(row, "00000000");
            cs_buf_free(&text);
        }
    }
}

/* Two families have windows and pictures that see themselves: in one of them the window ends at a
 * picture, in the other it goes on inside. */
static void a_window_bounds_pictures_or_does_not(void **state)
{
    static const char *const free_of_it[] = {"1000000", "1111110", "0111110", "0111110",
                                             "0111110", "0111110", "0000011"};
    static const char *const bound[] = {"1000000", "1111110", "0111110", "0011110",
                                        "0001110", "0000110", "0000011"};
    (void)state;
    for (int i = 0; i < 2; i++) {
        MAKE(i ? CS_MASK_IMAGE_WINDOW : CS_MASK_IMAGE_BIDIR_WINDOW, CS_TEXT_SEES_ALL, TEXT(1),
             SPAN(0, 5), TEXT(1));
        plan.rule.window = runs.rule.window = 2;
        check_rows(i ? bound : free_of_it);
    }
}

static void check_kind(enum cs_mask_kind kind, const char *const *rows)
{
    MAKE(kind, CS_TEXT_SEES_ALL, TEXT(1), SPAN(0, 2), SPAN(0, 1), TEXT(1), {CS_SPAN_TEXT, 1, 1, -1},
         {0, 1, 1, -1});
    check_rows(rows);
}

static void every_rule_on_two_images_and_two_documents(void **state)
{
    (void)state;
    static const char *const rows[CS_MASK_KINDS][7] = {
        [CS_MASK_CAUSAL] = {"1000000", "1100000", "1110000", "1111000", "1111100", "0000010",
                            "0000011"                                                                  },
        [CS_MASK_FULL] = {"1111100", "1111100", "1111100", "1111100", "1111100", "0000011",
                            "0000011"                                                                  },
        [CS_MASK_CORNSTARCH] = {"1000000", "0111000", "0111000", "0111000", "1111100", "0000010",
                            "0000001"                                                                  },
        [CS_MASK_IMAGE_BIDIR] = {"1000000", "1110000", "1110000", "1111000", "1111100", "0000010",
                            "0000011"                                                                  },
        [CS_MASK_WINDOW] = {"1000000", "1100000", "1110000", "0111000", "0011100", "0000010",
                            "0000011"                                                                  },
        [CS_MASK_PREFIX] = {"1110000", "1110000", "1110000", "1111000", "1111100", "0000011",
                            "0000011"                                                                  },
        [CS_MASK_ITEM] = {"1000000", "0110000", "0110000", "0001000", "1111100", "0000010",
                            "0000001"                                                                  },
        [CS_MASK_IMAGE_BIDIR_WINDOW] = {"1000000", "1110000", "1110000", "0111000", "0011100",
                            "0000010",                                                        "0000011"},
        [CS_MASK_IMAGE_WINDOW] = {"1000000", "1110000", "1110000", "0111000", "0011100", "0000010",
                            "0000011"                                                                  },
        [CS_MASK_MODALITY_BIDIR] = {"1000000", "1111000", "1111000", "1111000", "1111100",
                            "0000010",                                                        "0000011"},
    };
    for (int kind = 0; kind < CS_MASK_KINDS; kind++)
        check_kind((enum cs_mask_kind)kind, rows[kind]);
}

/* SHA-256 of the matrix as bytes 0 and 1, row by row */
static void check_hash(const char *start)
{
    struct cs_sha256 *sha = cs_sha256_new();
    char hex[65];
    for (int32_t i = 0; i < plan.n_tokens; i++) {
        struct cs_buf text = {0};
        cs_mask_text_row(&plan, i, &text);
        for (size_t c = 0; c < text.len; c++)
            text.data[c] = (char)(text.data[c] - '0');
        cs_sha256_add(sha, text.data, text.len);
        cs_buf_free(&text);
    }
    cs_sha256_end(sha, hex);
    cs_sha256_free(sha);
    hex[16] = '\0';
    assert_string_equal(hex, start);
}

static void allowed_pairs_are_the_golden_counts(void **state)
{
    (void)state;
    MAKE(CS_MASK_CORNSTARCH, CS_TEXT_SEES_ALL, TEXT(12), SPAN(0, 12), TEXT(40));
    assert_int_equal(pairs(), 2002);
    check_hash("aac09e0f56fb4047");
    MAKE(CS_MASK_CORNSTARCH, CS_TEXT_SEES_ALL, TEXT(4), SPAN(0, 12), TEXT(20), SPAN(1, 20),
         TEXT(8));
    assert_int_equal(pairs(), 1568);
    check_hash("ffeb6ff6f5286976");
    MAKE(CS_MASK_CORNSTARCH, CS_TEXT_SEES_ALL, TEXT(50), SPAN(0, 100), TEXT(106));
    assert_int_equal(pairs(), 32846);
    MAKE(CS_MASK_CORNSTARCH, CS_TEXT_SEES_ALL, TEXT(48), SPAN(0, 72), TEXT(44), SPAN(1, 36),
         TEXT(56));
    assert_int_equal(pairs(), 26722);
}

static void make_mixed(void)
{
    MAKE(CS_MASK_CORNSTARCH, CS_TEXT_SEES_ALL, TEXT(256), SPAN(0, 384), TEXT(128), SPAN(1, 64),
         TEXT(192));
}

static void the_mixed_sequence_has_the_golden_tile_map(void **state)
{
    (void)state;
    static const char *const rows[] = {
        "11110000000000000000000000000000", "22221111000000000000000000000000",
        "00000000222222222222000000000000", "00000000222222222222000000000000",
        "00000000222222222222000000000000", "22222222222222222222111100000000",
        "11111111111111111111111122110000", "22222222222222222222222222221111"};
    static const int64_t active[] = {4, 8, 12, 12, 12, 24, 28, 32};
    static const int64_t work[] = {8256, 24640, 49152, 49152, 49152, 90176, 59424, 122944};
    struct cs_mask_tiles tiles;
    struct cs_err err;
    make_mixed();
    assert_int_equal(cs_mask_tiles_make(&runs, 128, 32, arena, &tiles, &err), CS_OK);
    int32_t *row = CS_NEW_ARRAY(arena, int32_t, plan.n_tokens);
    int64_t block[8];
    assert_int_equal(cs_mask_row_pairs(&runs, arena, row), 452896);
    cs_mask_block_pairs(row, plan.n_tokens, 128, block);
    for (int q = 0; q < 8; q++) {
        struct cs_buf text = {0};
        const struct cs_mask_tile_counts n = cs_mask_tiles_count(&tiles, q);
        cs_mask_text_tiles(&tiles, q, &text);
        assert_string_equal(cs_buf_str(&text), rows[q]);
        assert_int_equal(n.count[CS_TILE_PARTIAL] + n.count[CS_TILE_ALL], active[q]);
        assert_int_equal(block[q], work[q]);
        cs_buf_free(&text);
    }
    const struct cs_mask_tile_counts all = cs_mask_tiles_count(&tiles, -1);
    assert_int_equal(all.count[0] + all.count[1] + all.count[2], 256);
    assert_int_equal(all.count[1] + all.count[2], 132);
    MAKE(CS_MASK_CAUSAL, CS_TEXT_SEES_ALL, TEXT(1024));
    assert_int_equal(pairs(), 524800);
}

static void whole_tiles_at_a_ragged_edge_count_as_all(void **state)
{
    (void)state;
    static const int32_t lengths[] = {57, 283, 1000};
    for (size_t i = 0; i < CS_ARRAY_LEN(lengths); i++) {
        struct cs_mask_tiles tiles;
        MAKE(CS_MASK_FULL, CS_TEXT_SEES_ALL, TEXT(lengths[i]));
        assert_int_equal(cs_mask_tiles_make(&runs, 128, 32, arena, &tiles, NULL), CS_OK);
        assert_int_equal(tiles.n_q, (lengths[i] + 127) / 128);
        assert_int_equal(tiles.n_k, (lengths[i] + 31) / 32);
        assert_int_equal(cs_mask_tiles_count(&tiles, -1).count[CS_TILE_ALL],
                         (int64_t)tiles.n_q * tiles.n_k);
    }
}

/* Qwen2-VL 1280x720: 1196 tokens; Whisper: 1500; SigLIP so400m/14 at 384: 729 per picture */
static void pairs_on_real_shapes_follow_the_formulas(void **state)
{
    (void)state;
    const int64_t n = 4096, image = 1196, audio = 1500, text = n - image - audio;
    MAKE(CS_MASK_CORNSTARCH, CS_TEXT_SEES_ALL, TEXT(200), SPAN(0, 1196), TEXT(200), SPAN(1, 1500),
         TEXT(1000));
    const int64_t seen = text * (text + 1) / 2 + 1200 * image + 1000 * audio;
    assert_int_equal(pairs(), seen + image * image + audio * audio);
    MAKE(CS_MASK_IMAGE_BIDIR, CS_TEXT_SEES_ALL, TEXT(100), SPAN(0, 729), SPAN(0, 729), TEXT(600));
    assert_int_equal(pairs(), INT64_C(2158) * 2159 / 2 + 2 * 729 * 728 / 2);
    MAKE(CS_MASK_MODALITY_BIDIR, CS_TEXT_SEES_ALL, TEXT(100), SPAN(0, 729), SPAN(0, 729),
         TEXT(600));
    assert_int_equal(pairs(), INT64_C(2158) * 2159 / 2 + 1458 * 1457 / 2);
}

/* Tile counts of 8192 tokens at 128 x 128: whole and partial tiles, and how much of the executed
 * area is allowed pairs. per_doc times in every document. */
struct shape {
    const char *name;
    enum cs_mask_kind kind;
    int32_t docs, per_doc, lead, image, tail; /* text, picture, text */
    int64_t full, partial;                    /* -1: the table has no count */
    double area, efficiency;
    double tall; /* efficiency of tiles of 192 x 128, 0: not checked */
};

static void check_shape(const struct shape *s)
{
    struct cs_mask_span span[64];
    struct cs_mask_tiles tiles;
    int n = 0;
    for (int32_t i = 0; i < s->docs * s->per_doc; i++) {
        const int32_t doc = i / s->per_doc;
        if (s->lead > 0)
            span[n++] = (struct cs_mask_span){CS_SPAN_TEXT, s->lead, doc, -1};
        if (s->image > 0)
            span[n++] = (struct cs_mask_span){0, s->image, doc, -1};
        if (s->tail > 0)
            span[n++] = (struct cs_mask_span){CS_SPAN_TEXT, s->tail, doc, -1};
    }
    make(span, n, (struct cs_mask_rule){s->kind, 0, 0}, CS_TEXT_SEES_ALL);
    const double all = (double)pairs(), tokens = plan.n_tokens;
    for (int32_t q = 128; q <= (s->tall > 0 ? 192 : 128); q += 64) {
        const double want = q == 128 ? s->efficiency : s->tall;
        assert_int_equal(cs_mask_tiles_make(&runs, q, 128, arena, &tiles, NULL), CS_OK);
        const struct cs_mask_tile_counts c = cs_mask_tiles_count(&tiles, -1);
        const double executed = (double)(c.count[CS_TILE_ALL] + c.count[CS_TILE_PARTIAL]) * q * 128;
        if (!(fabs(all / executed - want) <= 0.0051))
            fail_msg("%s: efficiency of %d x 128 is %.4f, want %.2f", s->name, (int)q,
                     all / executed, want);
        if (q == 128 && s->full >= 0) {
            assert_int_equal(c.count[CS_TILE_ALL], s->full);
            assert_int_equal(c.count[CS_TILE_PARTIAL], s->partial);
        }
    }
    if (!(fabs(all / (tokens * tokens) - s->area) <= 0.00051))
        fail_msg("%s: area %.5f, want %.3f", s->name, all / (tokens * tokens), s->area);
}

static void tile_counts_on_real_shapes_are_the_measured_ones(void **state)
{
    (void)state;
    static const struct shape shapes[] = {
        {"causal",             CS_MASK_CAUSAL,      1,  1,  8192, 0,    0,   2016, 64,  .500, .98, .96},
        {"8 documents",        CS_MASK_CAUSAL,      8,  1,  1024, 0,    0,   224,  64,  .063, .89, .72},
        {"8 (35 + 729 + 260)", CS_MASK_IMAGE_BIDIR, 8,  1,  35,   729,  260, 304,  104, .094, .95, .82},
        {"isolated",           CS_MASK_CORNSTARCH,  8,  1,  35,   729,  260, 264,  144, .091, .92, .79},
        {"8 (64 + 576 + 384)", CS_MASK_IMAGE_BIDIR, 8,  1,  64,   576,  384, -1,   -1,  .082, .92, .80},
        {"isolated",           CS_MASK_CORNSTARCH,  8,  1,  64,   576,  384, -1,   -1,  .078, .87, .76},
        {"2 x 8 (256 + 256)",  CS_MASK_IMAGE_BIDIR, 2,  8,  0,    256,  256, -1,   -1,  .258, .99, .92},
        {"isolated",           CS_MASK_ITEM,        2,  8,  0,    256,  256, -1,   -1,  .148, .97, .67},
        {"16 (196 + 316)",     CS_MASK_IMAGE_BIDIR, 1,  16, 0,    196,  316, -1,   -1,  .505, .99, .96},
        {"isolated",           CS_MASK_ITEM,        1,  16, 0,    196,  316, -1,   -1,  .325, .82, .71},
        {"4 (1500 + 548)",     CS_MASK_IMAGE_BIDIR, 4,  1,  0,    1500, 548, -1,   -1,  .192, .97, .91},
        {"11 SigLIP pictures", CS_MASK_FULL,        11, 1,  0,    729,  0,   -1,   -1,  .091, .75, .71},
        {"14 CLIP pictures",   CS_MASK_FULL,        14, 1,  0,    577,  0,   -1,   -1,  .071, .69, .64},
        {"31 ViT pictures",    CS_MASK_FULL,        31, 1,  0,    257,  0,   -1,   -1,  .032, .50, .45},
        {"5 Whisper clips",    CS_MASK_FULL,        5,  1,  0,    1500, 0,   -1,   -1,  .200, .87, .83},
    };
    for (size_t i = 0; i < CS_ARRAY_LEN(shapes); i++)
        check_shape(&shapes[i]);
}

static void damaged_spans_are_refused_with_reasons(void **state)
{
    (void)state;

    static const struct {
        struct cs_mask_span span[2];
        struct cs_mask_rule rule;
        const char *want;
    } bad[] = {
        {{TEXT(0), TEXT(0)},                 {CS_MASK_CAUSAL, 0, 0}, "0 tokens"            },
        {{TEXT(1), TEXT(-1)},                {CS_MASK_CAUSAL, 0, 0}, "span 1 has -1 tokens"},
        {{TEXT(1), SPAN(61, 1)},             {CS_MASK_CAUSAL, 0, 0}, "61 modalities"       },
        {{{-1, 1, 1, -1}, TEXT(1)},          {CS_MASK_CAUSAL, 0, 0}, "document by document"},
        {{TEXT(1), {0, 1, 0, -2}},           {CS_MASK_CAUSAL, 0, 0}, "item -2"             },
        {{TEXT(1), TEXT(1)},                 {CS_MASK_WINDOW, 0, 0}, "window is 0"         },
        {{TEXT(1), TEXT(1)},                 {CS_MASK_PREFIX, 0, 0}, "prefix is 0"         },
        {{TEXT(INT32_MAX), TEXT(INT32_MAX)}, {CS_MASK_CAUSAL, 0, 0}, "4294967294 tokens"   },
    };

    for (size_t i = 0; i < CS_ARRAY_LEN(bad); i++) {
        struct cs_err err = {.text = ""};
        assert_int_equal(
            cs_mask_from_spans(bad[i].span, 2, bad[i].rule, CS_TEXT_SEES_ALL, arena, &plan, &err),
            CS_INVALID);
        assert_non_null(strstr(err.text, bad[i].want));
    }
}

static void permuted_rows_are_refused(void **state)
{
    (void)state;
    static const int32_t doc[] = {0, 0, 0}, pos[] = {0, 2, 1}, segment[] = {0, 3};
    const struct cs_mask_plan permuted = {
        .n_tokens = 3, .doc = doc, .pos = pos, .n_segments = 1, .segment = segment};
    struct cs_err err = {.text = ""};
    assert_int_equal(cs_mask_runs_make(&permuted, arena, &runs, &err), CS_INVALID);
    assert_non_null(strstr(err.text, "row 1 has position 2 after 0"));
}

static void names_of_rules_come_back(void **state)
{
    (void)state;
    enum cs_mask_kind kind = CS_MASK_FULL;
    for (int i = 0; i < CS_MASK_KINDS; i++) {
        assert_true(cs_mask_kind_from_name(cs_mask_kind_name((enum cs_mask_kind)i), &kind));
        assert_int_equal(kind, i);
    }
    assert_true(cs_mask_kind_from_name("packed", &kind));
    assert_int_equal(kind, CS_MASK_CAUSAL);
    assert_false(cs_mask_kind_from_name("causual", &kind));
}

static int clean_up(void **state)
{
    (void)state;
    cs_arena_free(arena);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_modalities_give_the_golden_matrix),
        cmocka_unit_test(text_that_sees_text_only_skips_the_spans),
        cmocka_unit_test(the_marker_bit_alone_is_padding),
        cmocka_unit_test(padding_has_an_empty_row_and_column),
        cmocka_unit_test(every_rule_on_two_images_and_two_documents),
        cmocka_unit_test(a_window_bounds_pictures_or_does_not),
        cmocka_unit_test(allowed_pairs_are_the_golden_counts),
        cmocka_unit_test(the_mixed_sequence_has_the_golden_tile_map),
        cmocka_unit_test(whole_tiles_at_a_ragged_edge_count_as_all),
        cmocka_unit_test(pairs_on_real_shapes_follow_the_formulas),
        cmocka_unit_test(tile_counts_on_real_shapes_are_the_measured_ones),
        cmocka_unit_test(damaged_spans_are_refused_with_reasons),
        cmocka_unit_test(permuted_rows_are_refused),
        cmocka_unit_test(names_of_rules_come_back),
    };
    return cmocka_run_group_tests(tests, NULL, clean_up);
}
