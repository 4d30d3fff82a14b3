/* Interleaved, zero-bubble and colocated schedules against their closed forms; slots of the next
 * step; bounds on running ahead. */
#include "core/sched/sim/lab.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "core/sched/orders/interleaved.h"

enum { MAX_P = 16, MAX_STAGES = 40 };

static uint64_t seed = 23;

static int next_random(int below)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (int)((seed >> 33) % (uint64_t)below);
}

struct outcome {
    double makespan;
    double busy[MAX_STAGES], span_idle[MAX_STAGES], bubble[MAX_STAGES], exposed[MAX_STAGES];
    double module_bubble[4];
    int32_t peak[MAX_STAGES];
};

static struct outcome run_modules(const char *schedule, const struct cs_lab_module *modules, int n,
                                  int m, double hop, const struct cs_lab_tuning *tuning)
{
    struct cs_lab_options options = {schedule, m, hop};
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_lab *lab = NULL;
    struct cs_lab_result r;
    struct cs_err err = {.text = ""};
    struct outcome out = {0};
    if (cs_lab_make_tuned(modules, n, &options, tuning, arena, &lab, &err) != CS_OK ||
        cs_lab_simulate(lab, arena, &r, &err) != CS_OK)
        fail_msg("%s, %d slots: %s", schedule, m, err.text);
    assert_in_range(lab->n_stages, 1, MAX_STAGES);
    out.makespan = r.makespan;
    for (int s = 0; s < lab->n_stages; s++) {
        assert_int_equal(r.left[s], 0);
        out.busy[s] = r.busy[s];
        out.peak[s] = r.peak[s];
        out.bubble[s] = r.bubble[s];
        out.span_idle[s] = r.span_idle[s];
        out.exposed[s] = r.exposed[s];
    }
    for (int i = 0; i < n && i < 4; i++)
        out.module_bubble[i] = r.module_bubble[i];
    cs_arena_free(arena);
    return out;
}

static const double *same(double value)
{
    static double v[8][MAX_P];
    static int next;
    next = (next + 1) % 8;
    for (int i = 0; i < MAX_P; i++)
        v[next][i] = value;
    return v[next];
}

static struct outcome chain(const char *schedule, int p, int m, double f, double b, double w,
                            int chunks)
{
    struct cs_lab_module llm = {"llm", NULL, p, same(f), same(b), w > 0 ? same(w) : NULL};
    return run_modules(schedule, &llm, 1, m, 0, &(struct cs_lab_tuning){.chunks = chunks});
}

static int least(int a, int b)
{
    return a < b ? a : b;
}

static void interleaved_ramp_is_p_minus_1_chunks(void **state)
{
    (void)state;
    for (int p = 2; p <= 8; p++)
        for (int v = 2; v <= 4; v++)
            for (int m = p; m <= 4 * p; m += p) {
                double f = v * (1 + m % 3), b = v * (1 + (m + p) % 4), t = f + b;
                struct outcome r = chain("interleaved", p, m, f, b, 0, v);
                assert_true(r.makespan == m * t + (p - 1) * t / v);
                for (int s = 0; s < p; s++) {
                    assert_int_equal(r.peak[s], least(m * v, 2 * (p - s - 1) + (v - 1) * p + 1));
                    assert_true(fabs(r.bubble[s] - (p - 1.0) / (v * m + p - 1)) < 1e-12);
                }
            }
}

static void interleaved_takes_any_number_of_slots(void **state)
{
    (void)state;
    for (int p = 1; p <= 6; p++)
        for (int v = 1; v <= 4; v++)
            for (int m = 1; m <= 20; m++) {
                double t = 3 * v;
                struct outcome r = chain("interleaved", p, m, v, 2 * v, 0, v);
                int padded = (m + p - 1) / p * p;
                assert_true(r.makespan >= m * t);
                assert_true(r.makespan <= padded * t + (p - 1) * t / v);
                for (int s = 0; s < p; s++)
                    assert_true(r.busy[s] == m * t);
            }
}

/* What plans say that encoders keep is what their programs keep, of every stage, with any number of slots. */
static void encoders_ahead_of_chunks_keep_what_is_said(void **state)
{
    (void)state;
    for (int i = 0; i < 600; i++) {
        const int p = 1 + next_random(5), v = 1 + next_random(4), m = 1 + next_random(24);
        const int e[2] = {1 + next_random(3), 1 + next_random(3)};
        const struct cs_lab_module modules[] = {
            {"vision", "llm", e[0], same(1), same(2), NULL},
            {"depth",  "llm", e[1], same(3), same(1), NULL},
            {"llm",    NULL,  p,    same(2), same(4), NULL}
        };
        const struct outcome o =
            run_modules("interleaved", modules, 3, m, 0, &(struct cs_lab_tuning){.chunks = v});
        for (int s = 0; s < e[0] + e[1]; s++) {
            const int hops = s < e[0] ? e[0] - s : e[0] + e[1] - s;
            const int said = cs_interleaved_live(p, v, m, hops);
            if (o.peak[s] != said)
                fail_msg("%d ranks, %d chunks, %d slots, %d hops: %d said, %d kept", p, v, m, hops,
                         said, o.peak[s]);
        }
    }
}

static void one_chunk_is_plain_1f1b(void **state)
{
    (void)state;
    for (int p = 1; p <= 6; p++)
        for (int m = 1; m <= 12; m++) {
            struct outcome a = chain("interleaved", p, m, 2, 3, 0, 1),
                           b = chain("1f1b", p, m, 2, 3, 0, 0);
            assert_true(a.makespan == b.makespan);
            for (int s = 0; s < p; s++)
                assert_int_equal(a.peak[s], b.peak[s]);
        }
}

static void zb_h1_ramp_is_p_minus_1_times_f_plus_b_minus_w(void **state)
{
    (void)state;
    for (int p = 2; p <= MAX_P; p++)
        for (int m = p; m <= 64; m += 1 + p / 2) {
            struct outcome r = chain("zb-h1", p, m, 3, 3, 3, 0);
            double t = 9, ramp = (p - 1) * 3.0;
            if (r.makespan != m * t + ramp)
                fail_msg("p %d m %d: %g, not %g", p, m, r.makespan, m * t + ramp);
            double plain = chain("1f1b", p, m, 3, 3, 3, 0).makespan;
            assert_true(3 * (r.makespan - m * t) == plain - m * t); /* a third of the bubble */
            for (int s = 0; s < p; s++)
                assert_int_equal(r.peak[s], p);
        }
}

static void zb_h1_holds_for_unequal_parts(void **state)
{
    (void)state;
    for (int p = 2; p <= 10; p++)
        for (int m = 2 * p; m <= 40; m += 3) {
            static const double parts[][3] = {
                {4, 4, 3},
                {5, 5, 2},
                {4, 5, 4},
                {5, 4, 4}
            };
            for (size_t i = 0; i < CS_ARRAY_LEN(parts); i++) {
                double f = parts[i][0], b = parts[i][1], w = parts[i][2];
                double want = m * (f + b + w) + (p - 1) * (f + b - w);
                double got = chain("zb-h1", p, m, f, b, w, 0).makespan;
                if (!(got <= want))
                    fail_msg("p %d m %d %g %g %g: %g, not %g", p, m, f, b, w, got, want);
            }
        }
}

static void late_zb_h2_has_no_bubble_inside_and_2p_minus_1_live_slots(void **state)
{
    (void)state;
    for (int p = 2; p <= MAX_P; p++)
        for (int m = 2 * p - 1; m <= 64; m += 1 + p / 2) {
            struct outcome r = chain("zb-h2-late", p, m, 3, 3, 3, 0);
            if (r.makespan != 9 * m + (p - 1) * 3)
                fail_msg("p %d m %d: %g", p, m, r.makespan);
            for (int s = 0; s < p; s++) {
                assert_true(r.span_idle[s] == 0);
                assert_int_equal(r.peak[s], 2 * p - 1);
            }
        }
}

static struct outcome two(const char *schedule, int p, int m, double e, double g, double f,
                          double b, const struct cs_lab_tuning *tuning)
{
    const struct cs_lab_module modules[] = {
        {"v",   "llm", 1, same(e), same(g), NULL},
        {"llm", NULL,  p, same(f), same(b), NULL},
    };
    return run_modules(schedule, modules, 2, m, 0, tuning);
}

static void three_phase_adds_the_encoders_share(void **state)
{
    (void)state;
    for (int p = 2; p <= 8; p++)
        for (int m = p; m <= 4 * p; m += p) {
            double e = 2 * p, g = 3 * p; /* m F_e = m e / p */
            struct outcome r = two("three-phase", p, m, e, g, 1, 2, &(struct cs_lab_tuning){0});
            assert_true(r.makespan == m * e / p + (m + p - 1) * 3 + m * g / p);
            for (int s = 0; s < p; s++) {
                assert_int_equal(r.peak[s], m / p);
                assert_int_equal(r.peak[p + s], least(m, p - s));
            }
            struct cs_lab_tuning cut = {.chunks = 3};
            r = two("three-phase", p, m, e, g, 3, 6, &cut);
            assert_true(r.makespan == m * e / p + (m + (p - 1) / 3.0) * 9 + m * g / p);
        }
}

static void anchors_take_as_long_with_few_live_slots(void **state)
{
    (void)state;
    for (int p = 2; p <= 8; p++)
        for (int groups = 3; groups <= 6; groups++)
            for (int window = 1; window <= 3; window++) {
                struct cs_lab_tuning tuning = {.window = window};
                int m = groups * p;
                struct outcome a = two("anchors", p, m, p, 2 * p, 1, 2, &tuning),
                               b = two("three-phase", p, m, p, 2 * p, 1, 2, &tuning);
                if (window >= 2 && a.makespan != b.makespan)
                    fail_msg("p %d groups %d window %d: %g, three-phase %g", p, groups, window,
                             a.makespan, b.makespan);
                for (int s = 0; s < p; s++)
                    assert_in_range(a.peak[s], 1, window + 1);
            }
}

static void frozen_encoders_may_be_colocated(void **state)
{
    (void)state;
    for (int p = 1; p <= 5; p++)
        for (int m = 1; m <= 12; m++) {
            struct outcome r = two("three-phase", p, m, p, 0, 1, 2, &(struct cs_lab_tuning){0});
            assert_true(r.busy[0] == p * ((m + p - 1) / p));
            two("anchors", p, m, p, 0, 1, 2, &(struct cs_lab_tuning){.window = 1});
        }
}

static const char *const all[] = {"1f1b",  "gpipe",      "interleaved", "zb-h1",
                                  "zb-h2", "zb-h2-late", "three-phase", "anchors"};

struct random_case {
    double fwd[3][6], bwd[3][6], wgrad[3][6];
    struct cs_lab_module module[3];
    int n, slots;
    double hop;
    struct cs_lab_tuning tuning;
};

static struct random_case draw(void)
{
    struct random_case c = {.n = 1 + next_random(3), .hop = next_random(3)};
    int longest = 0, llm = 1 + next_random(5);
    for (int i = 0; i < c.n; i++) {
        bool is_llm = i == c.n - 1, trains = is_llm || next_random(2);
        int stages = is_llm ? llm : 1 + next_random(3);
        for (int s = 0; s < stages; s++) {
            c.fwd[i][s] = 12 * (1 + next_random(9));
            c.bwd[i][s] = trains ? 12 * (1 + next_random(9)) : 0;
            c.wgrad[i][s] = trains && next_random(3) ? 12 * next_random(5) : 0;
        }
        longest = !is_llm && stages > longest ? stages : longest;
    }
    static const char *const names[] = {"v", "a"};
    for (int i = 0; i < c.n; i++) {
        bool is_llm = i == c.n - 1;
        int stages = is_llm ? llm : 1 + next_random(longest);
        c.module[i] = (struct cs_lab_module){
            is_llm ? "llm" : names[i], is_llm ? NULL : "llm", stages, NULL, NULL, NULL};
        for (int s = 0; s < stages && !is_llm; s++)
            if (!(c.fwd[i][s] > 0))
                c.fwd[i][s] = 12;
    }
    c.slots = 2 * (longest + llm) + next_random(8);
    c.tuning = (struct cs_lab_tuning){.chunks = 1 + next_random(3), .window = 1 + next_random(3)};
    return c;
}

/* the times lie in the case itself, which is copied */
static struct outcome run_case(struct random_case *c, const char *schedule)
{
    for (int i = 0; i < c->n; i++) {
        c->module[i].fwd = c->fwd[i];
        c->module[i].bwd = c->bwd[i];
        c->module[i].wgrad = c->wgrad[i];
    }
    return run_modules(schedule, c->module, c->n, c->slots, c->hop, &c->tuning);
}

static void random_cases_run_under_every_schedule(void **state)
{
    (void)state;
    for (int round = 0; round < 150; round++)
        for (size_t k = 0; k < CS_ARRAY_LEN(all); k++) {
            struct random_case c = draw(), slower, scaled;
            struct outcome r = run_case(&c, all[k]);
            double work = 0, sum = 0;
            int llm = c.n - 1;
            for (int s = 0; s < c.module[llm].n_stages; s++) {
                double t = c.fwd[llm][s] + c.bwd[llm][s] + c.wgrad[llm][s];
                work = fmax(work, t * c.slots);
                sum += c.fwd[llm][s] + c.bwd[llm][s];
            }
            assert_true(r.makespan >= work && r.makespan >= sum);
            slower = c;
            slower.fwd[next_random(c.n)][0] += 12 * next_random(4);
            slower.hop += next_random(3);
            assert_true(run_case(&slower, all[k]).makespan >= r.makespan);
            scaled = c;
            scaled.hop *= 4;
            for (int i = 0; i < c.n; i++)
                for (int s = 0; s < 6; s++) {
                    scaled.fwd[i][s] *= 4;
                    scaled.bwd[i][s] *= 4;
                    scaled.wgrad[i][s] *= 4;
                }
            double want = 4 * r.makespan;
            assert_true(fabs(run_case(&scaled, all[k]).makespan - want) <= 1e-9 * want);
        }
}

/* 1F1B, GPipe and interleaved lists read backwards are the lists of the mirrored pipeline */
static void time_runs_backwards(void **state)
{
    (void)state;
    for (int round = 0; round < 100; round++) {
        int p = 2 + next_random(6), v = 1 + next_random(3), m = p * (1 + next_random(4));
        double f[MAX_P], b[MAX_P];
        for (int s = 0; s < p; s++) {
            f[s] = 6 * (1 + next_random(9));
            b[s] = 6 * (1 + next_random(9));
        }
        const struct cs_lab_module one = {"llm", NULL, p, f, b, NULL},
                                   other = {"llm", NULL, p, b, f, NULL};
        struct cs_lab_tuning tuning = {.chunks = v};
        assert_true(run_modules("interleaved", &one, 1, m, 1, &tuning).makespan ==
                    run_modules("interleaved", &other, 1, m, 1, &tuning).makespan);
    }
}

static void tighter_bounds_never_help_and_depth_is_enough(void **state)
{
    (void)state;
    for (int round = 0; round < 60; round++) {
        struct random_case c = draw();
        c.hop = 0;
        for (int i = 0; i < c.n - 1; i++)
            for (int s = 0; s < 6; s++)
                c.bwd[i][s] = c.wgrad[i][s] = 0;
        double before = INFINITY, free_run = run_case(&c, "1f1b").makespan;
        for (int ahead = 1; ahead <= c.slots; ahead++) {
            c.tuning.ahead = ahead;
            double now = run_case(&c, "1f1b").makespan;
            assert_true(now <= before && now >= free_run);
            before = now;
        }
        assert_true(before == free_run);
    }
}

static void leading_encoder_hides_its_ramp(void **state)
{
    (void)state;
    for (int e = 1; e <= 4; e++)
        for (int p = 1; p <= 5; p++) {
            int m = 16;
            const struct cs_lab_module modules[] = {
                {"v",   "llm", e, same(6), same(0), NULL},
                {"llm", NULL,  p, same(2), same(4), NULL},
            };
            struct outcome plain =
                run_modules("1f1b", modules, 2, m, 0, &(struct cs_lab_tuning){0});
            /* slowest stage m times, ramp of encoder and LLM */
            assert_true(plain.makespan == m * 6 + e * 6 + (p - 1) * 6);
            double before = plain.makespan;
            for (int lead = 0; lead <= m - p; lead++) {
                struct cs_lab_tuning steady = {.lead_before = lead, .lead_after = lead};
                struct outcome r = run_modules("1f1b", modules, 2, m, 0, &steady);
                assert_true(r.makespan <= before);
                before = r.makespan;
                for (int s = 0; s < e + p; s++)
                    assert_true(r.busy[s] == m * 6);
            }
            /* one ramp is left, of the LLM's ranks or of the encoder's, not the sum */
            assert_true(before == (m + (p > e ? p : e) - 1) * 6);
            struct outcome first =
                run_modules("1f1b", modules, 2, m, 0, &(struct cs_lab_tuning){.lead_after = 4});
            struct outcome last =
                run_modules("1f1b", modules, 2, m, 0, &(struct cs_lab_tuning){.lead_before = 4});
            assert_true(first.busy[0] == (m + 4) * 6 && last.busy[0] == (m - 4) * 6);
        }
}

static void figures_per_module_and_exposed_messages_add_up(void **state)
{
    (void)state;
    struct outcome r = two("1f1b", 3, 8, 1, 2, 1, 2, &(struct cs_lab_tuning){0});
    assert_true(fabs(r.module_bubble[0] - r.bubble[0]) < 1e-12);
    assert_true(fabs(r.module_bubble[1] - (r.bubble[1] + r.bubble[2] + r.bubble[3]) / 3) < 1e-12);
    for (int s = 0; s < 4; s++)
        assert_true(r.exposed[s] == 0);
    const struct cs_lab_module llm = {"llm", NULL, 2, same(2), same(4), NULL};
    struct outcome hop = run_modules("1f1b", &llm, 1, 1, 1, &(struct cs_lab_tuning){0});
    assert_true(hop.makespan == 2 + 1 + 6 + 1 + 4);
    assert_true(hop.exposed[0] == 1 && hop.exposed[1] == 1);
    assert_true(hop.span_idle[0] == 8 && hop.span_idle[1] == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(interleaved_ramp_is_p_minus_1_chunks),
        cmocka_unit_test(interleaved_takes_any_number_of_slots),
        cmocka_unit_test(encoders_ahead_of_chunks_keep_what_is_said),
        cmocka_unit_test(one_chunk_is_plain_1f1b),
        cmocka_unit_test(zb_h1_ramp_is_p_minus_1_times_f_plus_b_minus_w),
        cmocka_unit_test(zb_h1_holds_for_unequal_parts),
        cmocka_unit_test(late_zb_h2_has_no_bubble_inside_and_2p_minus_1_live_slots),
        cmocka_unit_test(three_phase_adds_the_encoders_share),
        cmocka_unit_test(anchors_take_as_long_with_few_live_slots),
        cmocka_unit_test(frozen_encoders_may_be_colocated),
        cmocka_unit_test(random_cases_run_under_every_schedule),
        cmocka_unit_test(time_runs_backwards),
        cmocka_unit_test(tighter_bounds_never_help_and_depth_is_enough),
        cmocka_unit_test(leading_encoder_hides_its_ramp),
        cmocka_unit_test(figures_per_module_and_exposed_messages_add_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
