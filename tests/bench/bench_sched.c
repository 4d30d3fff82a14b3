/* How long lowering with verification and simulation take as the number of stages grows, and what
 * the schedules make of a pipeline with a large frozen encoder. No arguments. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "core/sched/lower/lower.h"
#include "core/sched/sim/forecast.h"
#include "core/sched/sim/lab.h"

enum { SLOTS = 64, ROUNDS = 3 };

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* a chain in which every stage has its own program and its own times: no two ranks are alike */
static void make_chain(struct cs_plan *plan, int n, const char *schedule)
{
    *plan = (struct cs_plan){.n_stages = n,
                             .n_edges = n - 1,
                             .n_ranks = n,
                             .schedule = schedule,
                             .embed_stage = 0,
                             .head_stage = n - 1};
    plan->stages = calloc((size_t)n, sizeof *plan->stages);
    plan->edges = calloc((size_t)n, sizeof *plan->edges);
    if (!plan->stages || !plan->edges)
        abort();
    for (int i = 0; i < n; i++) {
        plan->stages[i] = (struct cs_stage){.name = "stage",
                                            .id = i,
                                            .index = i,
                                            .rank = i,
                                            .fwd_ns = 1000 + i % 7,
                                            .bwd_input_ns = 1000 + i % 5,
                                            .bwd_weight_ns = 900 + i % 3,
                                            .has_backward = true,
                                            .needs_input_grad = i > 0};
        plan->edges[i] = (struct cs_edge){.id = i,
                                          .from = i,
                                          .to = i + 1,
                                          .width = 8,
                                          .has_grad = true,
                                          .max_rows = 8,
                                          .feed = -1};
    }
}

static void time_one(int n, const char *schedule)
{
    struct cs_plan plan;
    double best[2] = {1e9, 1e9};
    uint64_t actions = 0;
    make_chain(&plan, n, schedule);
    for (int round = 0; round < ROUNDS; round++) {
        struct cs_arena *arena = cs_arena_new(0);
        struct cs_program *program = NULL;
        struct cs_sim_options options = {.hop_ns = 10};
        struct cs_sim_result result;
        struct cs_err err;
        double t0 = seconds();
        if (cs_program_make(&plan, NULL, SLOTS, false, arena, &program, &err) != CS_OK) {
            printf("%-8s %6d stages: %s\n", schedule, n, err.text);
            cs_arena_free(arena);
            break;
        }
        double t1 = seconds();
        if (cs_simulate(program, &options, arena, &result, &err) != CS_OK)
            abort();
        double t2 = seconds();
        best[0] = t1 - t0 < best[0] ? t1 - t0 : best[0];
        best[1] = t2 - t1 < best[1] ? t2 - t1 : best[1];
        actions = 0;
        for (int r = 0; r < n; r++)
            actions += program->rank[r].n_actions;
        cs_arena_free(arena);
    }
    if (actions)
        printf("%-8s %6d stages %9llu actions   lower and verify %7.1f ms   simulate %7.1f ms   "
               "both %5.0f ns per action\n",
               schedule, n, (unsigned long long)actions, best[0] * 1e3, best[1] * 1e3,
               (best[0] + best[1]) * 1e9 / (double)actions);
    free(plan.stages);
    free(plan.edges);
}

/* 256 data-parallel copies of 16 ranks: alike, one of them slow, every one simulated, and links
 * that messages share; and what a view is given of the 4096 stages */
static void time_copies(void)
{
    enum { RANKS = 16, COPIES = 256 };

    static int32_t slow[RANKS * COPIES], node[RANKS * COPIES], nic[RANKS * COPIES];
    struct cs_plan plan;
    struct cs_program *program = NULL;
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_err err;
    for (int32_t r = 0; r < RANKS * COPIES; r++) {
        slow[r] = r == 1000 ? 1500 : 1000;
        node[r] = r / 8;
        nic[r] = r / 8 * 8;
    }
    const struct cs_sim_links links = {node, nic};

    const struct {
        const char *name;
        struct cs_sim_options options;
    } rows[] = {
        {"alike",                  {.hop_ns = 10, .copies = COPIES}                       },
        {"one rank slow",          {.hop_ns = 10, .copies = COPIES, .rank_permille = slow}},
        {"every one",              {.hop_ns = 10, .copies = COPIES, .is_full = true}      },
        {"jitter",                 {.hop_ns = 10, .copies = COPIES, .jitter_permille = 50}},
        {"links shared, NIC of 8",
         {.link_bytes_per_s = 1000000000, .links = &links, .copies = COPIES}              },
    };

    make_chain(&plan, RANKS, "1f1b");
    if (cs_program_make(&plan, NULL, SLOTS, false, arena, &program, &err) != CS_OK)
        abort();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct cs_arena *scratch = cs_arena_new(0);
        struct cs_sim_result result;
        double start = seconds();
        if (cs_simulate(program, &rows[i].options, scratch, &result, &err) != CS_OK)
            abort();
        printf("%d copies of %d ranks, %-24s %3d classes   simulate %8.2f ms   step %lld ns\n",
               COPIES, RANKS, rows[i].name, result.n_classes, (seconds() - start) * 1e3,
               (long long)result.makespan_ns);
        cs_arena_free(scratch);
    }
    cs_arena_free(arena);
    free(plan.stages);
    free(plan.edges);
}

static void time_forecast(int n)
{
    struct cs_plan plan;
    struct cs_program *program = NULL;
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_sim_options options = {.hop_ns = 10};
    struct cs_forecast forecast;
    struct cs_err err;
    make_chain(&plan, n, "1f1b");
    if (cs_program_make(&plan, NULL, SLOTS, false, arena, &program, &err) != CS_OK)
        abort();
    double start = seconds();
    if (cs_forecast_program(program, &options, 4, arena, &forecast, &err) != CS_OK)
        abort();
    printf("forecast of %d stages, memory curves and critical path of %d actions: %.1f ms\n", n,
           forecast.n_critical, (seconds() - start) * 1e3);
    cs_arena_free(arena);
    free(plan.stages);
    free(plan.edges);
}

static void compare(const char *what, const struct cs_lab_module *modules, int n, int slots,
                    const char *schedule, const struct cs_lab_tuning *tuning, double plain)
{
    struct cs_lab_options options = {schedule, slots, 0};
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_lab *lab = NULL;
    struct cs_lab_result r;
    struct cs_err err;
    if (cs_lab_make_tuned(modules, n, &options, tuning, arena, &lab, &err) != CS_OK ||
        cs_lab_simulate(lab, arena, &r, &err) != CS_OK) {
        printf("  %-34s %s\n", what, err.text);
    } else {
        double bubble = 0;
        for (int s = 0; s < lab->n_stages; s++)
            bubble += r.bubble[s] / lab->n_stages;
        printf("  %-34s step %6.0f   %5.1f %% of plain 1F1B   mean bubble %4.1f %%\n", what,
               r.makespan, 100 * r.makespan / plain, 100 * bubble);
    }
    cs_arena_free(arena);
}

/* three ranks of frozen encoder, three of LLM; 16 slots; work per rank equal */
static void frozen_encoder(void)
{
    static const double f[] = {24, 24, 24}, none[] = {0, 0, 0}, lf[] = {8, 8, 8}, lb[] = {8, 8, 8},
                        w[] = {8, 8, 8};
    static const double sum[] = {16, 16, 16};
    const struct cs_lab_module whole[] = {
        {"v",   "llm", 3, f,  none, NULL},
        {"llm", NULL,  3, lf, sum,  NULL}
    };
    const struct cs_lab_module split[] = {
        {"v",   "llm", 3, f,  none, NULL},
        {"llm", NULL,  3, lf, lb,   w   }
    };
    static const int leads[] = {1, 2, 3, 4, 8};
    double plain = (16 - 1 + 6) * 24;
    printf("frozen encoder on 3 ranks, LLM on 3, 16 slots, all ranks equally loaded:\n");
    compare("1f1b", whole, 2, 16, "1f1b", &(struct cs_lab_tuning){0}, plain);
    for (size_t i = 0; i < sizeof leads / sizeof *leads; i++) {
        char name[64];
        snprintf(name, sizeof name, "1f1b, %d slots of the next step", leads[i]);
        compare(name, whole, 2, 16, "1f1b",
                &(struct cs_lab_tuning){.lead_before = leads[i], .lead_after = leads[i]}, plain);
    }
    compare("1f1b, at most 1 slot ahead", whole, 2, 16, "1f1b", &(struct cs_lab_tuning){.ahead = 1},
            plain);
    compare("zb-h1", split, 2, 16, "zb-h1", &(struct cs_lab_tuning){0}, plain);
    compare("zb-h1, 4 slots of the next step", split, 2, 16, "zb-h1",
            &(struct cs_lab_tuning){.lead_before = 4, .lead_after = 4}, plain);
    compare("interleaved, 2 chunks", whole, 2, 16, "interleaved", &(struct cs_lab_tuning){0},
            plain);
}

int main(void)
{
    static const int sizes[] = {64, 256, 1024, 4096};
    struct rusage usage;
    printf("%d slots, best of %d, CPU time of one thread\n", SLOTS, ROUNDS);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        time_one(sizes[i], "1f1b");
    time_one(4096, "gpipe");
    time_one(4096, "zb-h1");
    getrusage(RUSAGE_SELF, &usage);
    printf("peak memory %.0f MiB\n", (double)usage.ru_maxrss / 1024);
    time_copies();
    time_forecast(4096);
    frozen_encoder();
    return 0;
}
