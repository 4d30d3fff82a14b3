/* Masks and token balance: how long the planner's share of a slot takes and how even it comes out.
 * Prints; asserts nothing about time. Usage: bench_balance */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/mask/span.h"
#include "core/plan/tokens/balance_tokens.h"

static double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static void make_sequence(int32_t tokens, struct cs_arena *arena, struct cs_mask_plan *mask)
{
    struct cs_mask_span span[512];
    struct cs_err err = {.text = ""};
    int n = 0;
    for (int32_t at = 0; at < tokens;
         n++) { /* pictures and clips of 256..3839 tokens, text between */
        int32_t want = n % 2 ? 256 * (1 + n * 7 % 15) : 64 + n * 53 % 700;
        want = want < tokens - at ? want : tokens - at;
        span[n] = (struct cs_mask_span){n % 2 ? n / 2 % 3 : CS_SPAN_TEXT, want, 0, -1};
        at += want;
    }
    const struct cs_mask_rule rule = {.kind = CS_MASK_CORNSTARCH};
    if (cs_mask_from_spans(span, n, rule, CS_TEXT_SEES_ALL, arena, mask, &err) != CS_OK)
        abort();
}

static void bench_balance(int32_t tokens, int32_t ranks)
{
    enum { REPEAT = 20 };
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_mask_plan mask;
    struct cs_mask_runs runs;
    struct cs_mask_tiles tiles;
    const int32_t n = (tokens - 1) / CS_BALANCE_BLOCK + 1;
    make_sequence(tokens, arena, &mask);
    double *work = CS_NEW_ARRAY(arena, double, n), best_us[3] = {1e12, 1e12, 1e12};
    int32_t *rows = CS_NEW_ARRAY(arena, int32_t, tokens);
    static const struct cs_balance_cost cost = {0, 1, 1, 0};
    for (int i = 0; i < REPEAT; i++) {
        struct cs_arena *own = cs_arena_new(0);
        const double t0 = now_us();
        if (cs_mask_runs_make(&mask, own, &runs, NULL) != CS_OK)
            abort();
        const double t1 = now_us();
        cs_mask_row_pairs(&runs, own, rows);
        const double t2 = now_us();
        if (cs_mask_tiles_make(&runs, CS_BALANCE_BLOCK, 32, own, &tiles, NULL) != CS_OK)
            abort();
        const double t3 = now_us();
        cs_balance_work(&cost, tokens, CS_BALANCE_BLOCK, NULL, &tiles, work);
        best_us[0] = fmin(best_us[0], t1 - t0);
        best_us[1] = fmin(best_us[1], t2 - t1);
        best_us[2] = fmin(best_us[2], t3 - t2);
        cs_arena_free(own);
    }
    printf("%6d tokens, %2d ranks: runs %.0f us, pairs %.0f us, tile map %.0f us\n", (int)tokens,
           (int)ranks, best_us[0], best_us[1], best_us[2]);
    for (int how = 0; how < CS_BALANCE_HOWS; how++) {
        const struct cs_balance_options options = {.how = (enum cs_balance_how)how,
                                                   .ranks = ranks,
                                                   .nodes = how == CS_BALANCE_EXACT ? 100000 : 0};
        struct cs_balance_result r = {0};
        double us = 1e12, ratio = 0;
        for (int i = 0; i < REPEAT; i++) {
            struct cs_arena *own = cs_arena_new(0);
            const double t0 = now_us();
            if (cs_balance(work, n, &options, own, &r, NULL) != CS_OK)
                abort();
            us = fmin(us, now_us() - t0);
            ratio = r.max / r.mean;
            cs_arena_free(own);
        }
        printf("    %-8s max/mean %.4f  %8.0f us%s\n",
               cs_balance_how_name((enum cs_balance_how)how), ratio, us,
               r.is_proven ? "  proven" : "");
    }
    static const struct cs_balance_cost by_pairs = {1, 0, 0, 1000};
    const struct cs_balance_options options = {.ranks = ranks};
    double whole_us = 1e12;
    for (int i = 0; i < REPEAT; i++) {
        struct cs_arena *own = cs_arena_new(0);
        struct cs_token_split split;
        const double t0 = now_us();
        if (cs_balance_tokens(&mask, &by_pairs, &options, own, &split, NULL, NULL) != CS_OK)
            abort();
        whole_us = fmin(whole_us, now_us() - t0);
        cs_arena_free(own);
    }
    printf("    mask to positions of every rank (pairs and linear layers, best): %.0f us\n",
           whole_us);
    cs_arena_free(arena);
}

int main(void)
{
    bench_balance(16384, 4);
    bench_balance(65536, 8);
    bench_balance(131072, 16);
    return 0;
}
