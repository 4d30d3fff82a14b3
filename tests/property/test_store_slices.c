/* Slices: random shapes cut at random, by random owners, before and after. Every element arrives
 * once and with its value, through arrays and through the files of a checkpoint; what is missing,
 * held twice or of another shape is named. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/philox.h"
#include "store/ckpt/checkpoint.h"
#include "support/tmpdir.h"

enum { ROUNDS = 400, RANKS = 5, COUNT = 9 * 9 * 9 * 9 };

static uint64_t draws;

/* 0 .. n - 1, the same in every run */
static int64_t draw(int64_t n)
{
    const uint32_t counter[4] = {(uint32_t)draws++, 0, 0, 0};
    uint32_t out[4];
    cs_philox(17, counter, out);
    return (int64_t)(out[0] % (uint64_t)n);
}

static struct cs_param random_param(void)
{
    struct cs_param p = {
        .id = 0, .name = "llm/w", .n_dims = (int32_t)(1 + draw(CS_TENSOR_DIMS)), .count = 1};
    for (int d = 0; d < p.n_dims; d++) {
        p.dim[d] = 1 + draw(p.n_dims > 4 ? 5 : 8);
        p.count *= p.dim[d];
    }
    return p;
}

/* Cut in two at a random place until pieces are few or small: rectangles in any arrangement. */
static int cut_rectangles(struct cs_slice from, int depth, struct cs_holding *out)
{
    const int d = (int)draw(from.n_dims);
    const int64_t size = from.end[d] - from.begin[d];
    if (depth == 0 || size < 2) {
        *out = (struct cs_holding){from, (int32_t)draw(RANKS)};
        return 1;
    }
    struct cs_slice second = from;
    from.end[d] = second.begin[d] = from.begin[d] + 1 + draw(size - 1);
    const int n = cut_rectangles(from, depth - 1, out);
    return n + cut_rectangles(second, depth - 1, out + n);
}

/* Ranges of the flat array, as replicas have them. */
static int cut_flat(const struct cs_slice *whole, struct cs_holding *out)
{
    struct cs_slice slice[CS_SLICE_FLAT_MAX];
    const int64_t count = cs_slice_count(whole);
    int n = 0;
    for (int64_t at = 0, end, back, size; at < count; at = end) {
        const int32_t owner = (int32_t)draw(RANKS);
        end = at + 1 + draw(count - at);
        const int n_slices = cs_slice_from_flat(whole, at, end - at, slice);
        assert_in_range(n_slices, 1, 2 * whole->n_dims - 1);
        assert_true(cs_slice_to_flat(whole, slice, n_slices, &back, &size));
        assert_true(back == at && size == end - at);
        for (int i = 0; i < n_slices; i++)
            out[n++] = (struct cs_holding){slice[i], owner};
    }
    return n;
}

static int cut(const struct cs_slice *whole, struct cs_holding *out)
{
    return draw(2) ? cut_flat(whole, out) : cut_rectangles(*whole, (int)draw(6), out);
}

static const char *name_of(const void *user, int32_t param)
{
    (void)param;
    return user;
}

static void copy(const struct cs_slice *what, const struct cs_slice *from, const float *source,
                 const struct cs_slice *to, float *target)
{
    const int64_t n = cs_slice_runs(what, from, to);
    for (int64_t i = 0; i < n; i++) {
        const struct cs_copy_run run = cs_slice_run(what, from, to, i);
        for (int64_t k = 0; k < run.n; k++)
            target[run.to + k] += source[run.from + k]; /* twice would show */
    }
}

static void every_element_arrives_once(void **state)
{
    static struct cs_holding have[COUNT], want[COUNT];
    static float whole_of[COUNT], old[COUNT], new[COUNT], back[COUNT];
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        const struct cs_param param = random_param();
        const struct cs_slice whole = cs_slice_whole(&param);
        const struct cs_owner_map from = {have, cut(&whole, have)}, to = {want, cut(&whole, want)};
        struct cs_arena *arena = cs_arena_new(0);
        struct cs_move *move;
        struct cs_err err = {0};
        int32_t n = 0;
        assert_int_equal(cs_owners_check(&from, &whole, "llm/w", &err), CS_OK);
        assert_int_equal(cs_moves_make(&from, &to, name_of, "llm/w", arena, &move, &n, &err),
                         CS_OK);
        memset(back, 0, sizeof back);
        for (int64_t i = 0; i < param.count; i++)
            whole_of[i] = (float)(i + 1);
        for (int32_t i = 0; i < n; i++) {
            const struct cs_slice *source = &have[move[i].from].slice;
            const struct cs_slice *target = &want[move[i].to].slice;
            memset(old, 0, sizeof old);
            memset(new, 0, sizeof new);
            copy(source, &whole, whole_of, source, old);
            copy(&move[i].slice, source, old, target, new);
            copy(&move[i].slice, target, new, &whole, back);
        }
        assert_memory_equal(back, whole_of, (size_t)param.count * sizeof *back);
        cs_arena_free(arena);
    }
}

/* An owner of the same element is preferred, and holding a thing twice does not move it twice. */
static void what_is_here_stays_here(void **state)
{
    const struct cs_param param = {.name = "llm/w", .n_dims = 1, .dim = {10}, .count = 10};
    const struct cs_slice whole = cs_slice_whole(&param);
    struct cs_slice half = whole;
    half.end[0] = 5;
    const struct cs_holding have[] =
        {
            {whole, 0},
            {half,  1}
    },
                            want[] = {{whole, 1}};
    const struct cs_owner_map from = {have, 2}, to = {want, 1};
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_move *move;
    struct cs_err err = {0};
    int32_t n;
    (void)state;
    assert_int_equal(cs_moves_make(&from, &to, name_of, "llm/w", arena, &move, &n, &err), CS_OK);
    assert_int_equal(n, 2);
    assert_int_equal(move[0].from, 1);
    assert_int_equal(move[0].slice.end[0], 5);
    assert_int_equal(move[1].from, 0);
    assert_int_equal(move[1].slice.begin[0], 5);
    cs_arena_free(arena);
}

/* --- through files ---------------------------------------------------------------------------- */

static float values[3][COUNT];

/* Every rank writes what the map says it owns. skip: an entry that is forgotten, -1: none */
static void write_ranks(const char *dir, const struct cs_param *param, struct cs_holding *held,
                        int n, int skip, struct cs_ckpt_file files[2 * RANKS])
{
    static float arrays[3][COUNT];
    static struct cs_ckpt_part part[COUNT];
    const struct cs_slice whole = cs_slice_whole(param);
    struct cs_err err = {0};
    for (int rank = 0; rank < RANKS; rank++) {
        int64_t at = 0;
        int n_parts = 0;
        memset(arrays, 0, sizeof arrays);
        for (int i = 0; i < n; i++) {
            if (held[i].owner != rank || i == skip)
                continue;
            for (int k = 0; k < 3; k++)
                copy(&held[i].slice, &whole, values[k], &held[i].slice, &arrays[k][at]);
            part[n_parts++] = (struct cs_ckpt_part){param, held[i].slice, &arrays[0][at],
                                                    &arrays[1][at], &arrays[2][at]};
            at += cs_slice_count(&held[i].slice);
        }
        if (cs_ckpt_write_rank(dir, 3, rank, part, n_parts, &files[2 * rank], &err) != CS_OK)
            fail_msg("%s", err.text);
    }
}

static enum cs_status commit(const char *dir, const struct cs_ckpt_file *files, int n,
                             struct cs_err *err)
{
    const struct cs_ckpt_origin origin = {"spec", "trained", "plan", 1, NULL, 0};
    json_t *trainer = json_pack("{s:i}", "step", 3);
    const enum cs_status status = cs_ckpt_commit(dir, 3, &origin, trainer, files, n, err);
    json_decref(trainer);
    return status;
}

static void make_values(int64_t count)
{
    for (int k = 0; k < 3; k++)
        for (int64_t i = 0; i < count; i++)
            values[k][i] = (float)(1000 * k + i + 1);
}

static void files_are_read_under_any_cut(void **state)
{
    static const char *const kinds[] = {"master", "exp_avg", "exp_avg_sq"};
    static struct cs_holding held[COUNT];
    static float got[COUNT];
    for (int round = 0; round < ROUNDS / 20; round++) {
        struct cs_ckpt_file files[2 * RANKS];
        struct cs_err err = {0};
        struct cs_ckpt *ckpt;
        const struct cs_param param = random_param();
        const struct cs_slice whole = cs_slice_whole(&param);
        make_values(param.count);
        write_ranks(*state, &param, held, cut(&whole, held), -1, files);
        if (commit(*state, files, 2 * RANKS, &err) != CS_OK ||
            cs_ckpt_open(tmpdir_path(*state, "ckpt-3"), &ckpt, &err) != CS_OK)
            fail_msg("%s", err.text);
        for (int i = 0; i < 30; i++) {
            const int64_t at = draw(param.count), n = 1 + draw(param.count - at);
            const int k = (int)draw(3);
            memset(got, 0, sizeof got);
            if (cs_ckpt_read_part(ckpt, &param, kinds[k], at, n, got, &err) != CS_OK)
                fail_msg("%s", err.text);
            assert_memory_equal(got, &values[k][at], (size_t)n * sizeof *got);
            assert_true(got[n] == 0);
        }
        cs_ckpt_close(ckpt);
    }
}

/* A commit opens what was written and says what is wrong, with the parameter and the range. */
static void refused(const char *dir, const struct cs_ckpt_file *files, int n, const char *what)
{
    struct cs_err err = {0};
    assert_int_equal(commit(dir, files, n, &err), CS_CORRUPT);
    if (strstr(err.text, "llm/w") == NULL || strstr(err.text, what) == NULL)
        fail_msg("\"%s\" does not say \"%s\" of llm/w", err.text, what);
    assert_int_equal(tmpdir_count(dir), 0);
}

static void faults_are_named(void **state)
{
    static const struct cs_param param = {
        .name = "llm/w", .n_dims = 2, .dim = {6, 4},
                .count = 24
    };
    static const struct cs_param other = {
        .name = "llm/w", .n_dims = 2, .dim = {6, 5},
                .count = 30
    };
    struct cs_slice whole = cs_slice_whole(&param), top = whole, bottom = whole, wide = bottom;
    struct cs_ckpt_file files[2 * RANKS];
    top.end[0] = 2;
    bottom.begin[0] = 2;
    struct cs_holding held[] = {
        {top,    0},
        {bottom, 1}
    };
    make_values(30);
    write_ranks(*state, &param, held, 2, 1, files); /* a gap */
    refused(*state, files, 2 * RANKS, "nobody holds [2:6,0:4]");
    write_ranks(*state, &param, held, 2, -1, files); /* the files of a rank were forgotten */
    refused(*state, files, 2, "nobody holds [2:6,0:4]");
    held[1].slice.begin[0] = 1; /* an overlap */
    write_ranks(*state, &param, held, 2, -1, files);
    refused(*state, files, 2 * RANKS, "[1:2,0:4] of llm/w is held twice");
    held[1].slice = bottom; /* two shapes */
    wide.begin[0] = 2;
    struct cs_ckpt_file mixed[4];
    struct cs_err err = {0};
    const struct cs_ckpt_part a = {&param, top, values[0], values[0], values[0]};
    const struct cs_ckpt_part b = {&other, wide, values[0], values[0], values[0]};
    assert_int_equal(cs_ckpt_write_rank(*state, 3, 0, &a, 1, &mixed[0], &err), CS_OK);
    assert_int_equal(cs_ckpt_write_rank(*state, 3, 1, &b, 1, &mixed[2], &err), CS_OK);
    refused(*state, mixed, 4, "one shape in");
}

static int make_dir(void **state)
{
    *state = tmpdir_new();
    return 0;
}

static int drop_dir(void **state)
{
    tmpdir_free(*state);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_element_arrives_once),
        cmocka_unit_test(what_is_here_stays_here),
        cmocka_unit_test_setup_teardown(files_are_read_under_any_cut, make_dir, drop_dir),
        cmocka_unit_test_setup_teardown(faults_are_named, make_dir, drop_dir),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
