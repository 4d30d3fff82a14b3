/* Random plans; see random_plan.h. */
#include "tests/support/random_plan.h"

#include <string.h>

int cs_test_random(uint64_t *seed, int below)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (int)((*seed >> 33) % (uint64_t)below);
}

static void connect(struct cs_test_random_plan *m, int from, int to)
{
    struct cs_stage *a = &m->stage[from], *b = &m->stage[to];
    bool has_grad = a->has_backward && b->has_backward;
    m->edge[m->plan.n_edges] = (struct cs_edge){.id = m->plan.n_edges,
                                                .from = from,
                                                .to = to,
                                                .width = 8,
                                                .has_grad = has_grad,
                                                .max_rows = 1 + from};
    m->plan.n_edges++;
}

static void add_stages(struct cs_test_random_plan *m, uint64_t *seed, int b, int first_rank)
{
    bool trains = b == m->n_branches - 1 || cs_test_random(seed, 2);
    for (int s = 0; s < m->count[b]; s++) {
        int id = m->plan.n_stages++, rank = first_rank < 0 ? id : first_rank + s;
        m->stage[id] = (struct cs_stage){.name = "stage",
                                         .id = id,
                                         .branch = b,
                                         .index = s,
                                         .rank = rank,
                                         .fwd_ns = 1 + cs_test_random(seed, 9),
                                         .bwd_input_ns = trains ? 1 + cs_test_random(seed, 9) : 0,
                                         .bwd_weight_ns = trains ? cs_test_random(seed, 9) : 0,
                                         .has_backward = trains,
                                         .weight_bytes = 10 + cs_test_random(seed, 90),
                                         .state_bytes = trains ? cs_test_random(seed, 90) : 0,
                                         .saved_bytes = trains ? 1 + cs_test_random(seed, 90) : 0};
        if (rank >= m->plan.n_ranks)
            m->plan.n_ranks = rank + 1;
    }
}

void cs_test_random_plan(struct cs_test_random_plan *m, uint64_t *seed,
                         enum cs_test_placing placing, const char *schedule)
{
    memset(m, 0, sizeof *m);
    m->n_branches = 2 + cs_test_random(seed, 3);
    int same = 1 + cs_test_random(seed, 4), llm = m->n_branches - 1;
    for (int b = 0; b < m->n_branches; b++) {
        bool shares =
            placing == CS_TEST_COLOCATED || (placing == CS_TEST_ENCODERS_SHARE && b != llm);
        m->first[b] = m->plan.n_stages;
        m->count[b] = shares ? same : 1 + cs_test_random(seed, 5);
        add_stages(m, seed, b, placing == CS_TEST_OWN_RANKS ? -1 : shares ? 0 : same);
    }
    m->plan.stages = m->stage;
    m->plan.edges = m->edge;
    m->plan.schedule = schedule;
    m->plan.embed_stage = m->first[llm];
    m->plan.head_stage = m->plan.n_stages - 1;
    for (int b = 0; b < m->n_branches; b++) {
        for (int s = 0; s + 1 < m->count[b]; s++)
            connect(m, m->first[b] + s, m->first[b] + s + 1);
        if (b != llm)
            connect(m, m->first[b] + m->count[b] - 1, m->first[llm]);
    }
}
