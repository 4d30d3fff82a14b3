/* Groups of collectives; see collective.h. Two walks over all ranks: one counts, one joins. */
#include "core/sched/proof/collective.h"

int32_t cs_collective_group(const struct cs_plan *plan, const struct cs_action *action)
{
    const int group = cs_op_table[action->op].group;
    return group == CS_COMM_COPIES ? group + plan->stages[action->stage].branch : group;
}

/* a group of one copy of the program */
struct key {
    int32_t n_members;
    int32_t n_groups; /* most collectives of a member */
    uint32_t first;   /* in graph->group */
};

struct matcher {
    struct cs_precedence *graph;
    const struct cs_program *program;
    int32_t n_comms, n_copies, ranks_of_copy;
    struct key *key;     /* (n_comms, n_copies) */
    int32_t *seen;       /* (n_comms) collectives of the rank so far */
    uint32_t *n_present; /* by group */
};

static struct key *key_of(const struct matcher *m, int32_t comm, int32_t rank)
{
    int32_t copy = comm == CS_COMM_WORLD ? 0 : rank / m->ranks_of_copy;
    return &m->key[comm * m->n_copies + copy];
}

/* the plan of a repeated program names the embedding's and the head's stage of the first copy */
static bool is_member(const struct matcher *m, int32_t comm, int32_t rank)
{
    const struct cs_plan *plan = m->program->plan;
    int32_t own = rank % m->ranks_of_copy;
    if (comm == CS_COMM_REPLICAS)
        return false;
    return comm != CS_COMM_TIED || own == plan->stages[plan->embed_stage].rank ||
           own == plan->stages[plan->head_stage].rank;
}

static void count_members(struct matcher *m)
{
    const struct cs_plan *plan = m->program->plan;
    bool is_one = plan->stages[plan->embed_stage].rank == plan->stages[plan->head_stage].rank;
    m->key[CS_COMM_WORLD * m->n_copies].n_members = m->program->n_ranks;
    for (int32_t c = 0; c < m->n_copies; c++)
        m->key[CS_COMM_TIED * m->n_copies + c].n_members = is_one ? 1 : 2;
    for (int32_t s = 0; s < plan->n_stages; s++)
        if (plan->stages[s].copies > 1)
            key_of(m, CS_COMM_COPIES + plan->stages[s].branch, plan->stages[s].rank)->n_members++;
}

/* the rank's collectives in order; is_joining: they meet, else they are counted */
static void walk_rank(struct matcher *m, int32_t rank, bool is_joining)
{
    const struct cs_rank_program *rp = &m->program->rank[rank];
    for (uint32_t i = 0; i < rp->n_fifo[CS_STREAM_COMM]; i++) {
        const struct cs_action *a = &rp->actions[rp->fifo[CS_STREAM_COMM][i]];
        if (a->comm < 0 || !is_member(m, a->comm, rank))
            continue;
        struct key *key = key_of(m, a->comm, rank);
        int32_t nth = m->seen[a->comm]++;
        if (!is_joining) {
            key->n_groups = nth < key->n_groups ? key->n_groups : nth + 1;
            continue;
        }
        uint32_t g = key->first + (uint32_t)nth;
        struct cs_precedence_group *group = &m->graph->group[g];
        m->graph->done[m->graph->base[rank] + a->id] = m->graph->n_actions + m->graph->n_pairs + g;
        m->n_present[g]++;
        if (group->rank < 0) {
            group->rank = rank;
            group->action = a->id;
        }
    }
    for (uint32_t i = 0; i < rp->n_fifo[CS_STREAM_COMM]; i++) {
        int32_t comm = rp->actions[rp->fifo[CS_STREAM_COMM][i]].comm;
        if (comm >= 0)
            m->seen[comm] = 0;
    }
}

static bool has_nth(const struct matcher *m, int32_t comm, int32_t rank, int32_t nth)
{
    const struct cs_rank_program *rp = &m->program->rank[rank];
    for (uint32_t i = 0; i < rp->n_fifo[CS_STREAM_COMM]; i++)
        if (rp->actions[rp->fifo[CS_STREAM_COMM][i]].comm == comm && nth-- == 0)
            return true;
    return false;
}

static bool belongs(const struct matcher *m, int32_t comm, int32_t rank)
{
    const struct cs_plan *plan = m->program->plan;
    for (int32_t s = 0; s < plan->n_stages && comm >= CS_COMM_COPIES; s++)
        if (plan->stages[s].rank == rank && plan->stages[s].copies > 1 &&
            plan->stages[s].branch == comm - CS_COMM_COPIES)
            return true;
    return comm < CS_COMM_COPIES && is_member(m, comm, rank);
}

static void add_group(struct matcher *m, int32_t comm, int32_t nth)
{
    struct cs_precedence *graph = m->graph;
    graph->group[graph->n_groups++] =
        (struct cs_precedence_group){comm, nth, -1, -1, CS_PRECEDENCE_NONE};
    graph->n_nodes++;
}

/* the meeting of a group that a member misses never happens */
static void finish_group(struct matcher *m, const struct key *key, uint32_t g)
{
    struct cs_precedence_group *group = &m->graph->group[g];
    for (int32_t r = 0; m->n_present[g] < (uint32_t)key->n_members && r < m->program->n_ranks; r++)
        if (key == key_of(m, group->comm, r) && belongs(m, group->comm, r) &&
            !has_nth(m, group->comm, r, group->nth))
            group->absent = r;
    m->graph->node[m->graph->n_actions + m->graph->n_pairs + g] =
        (struct cs_precedence_node){.rank = group->rank,
                                    .action = group->action,
                                    .is_meeting = true,
                                    .is_dead = group->absent >= 0};
}

static void add_groups(struct matcher *m, struct cs_arena *arena)
{
    uint32_t total = 0;
    for (int32_t k = 0; k < m->n_comms * m->n_copies; k++)
        total += (uint32_t)m->key[k].n_groups;
    m->graph->group = CS_NEW_ARRAY(arena, struct cs_precedence_group, total + 1);
    m->n_present = CS_NEW_ARRAY(arena, uint32_t, total + 1);
    for (int32_t k = 0; k < m->n_comms * m->n_copies; k++) {
        m->key[k].first = m->graph->n_groups;
        for (int32_t nth = 0; nth < m->key[k].n_groups; nth++)
            add_group(m, k / m->n_copies, nth);
    }
}

void cs_precedence_match_collectives(struct cs_precedence *graph, struct cs_arena *arena)
{
    const struct cs_program *program = graph->program;
    struct matcher m = {.graph = graph, .program = program, .n_comms = CS_COMM_COPIES};
    for (int32_t s = 0; s < program->plan->n_stages; s++)
        if (program->plan->stages[s].branch + CS_COMM_COPIES >= m.n_comms)
            m.n_comms = program->plan->stages[s].branch + CS_COMM_COPIES + 1;
    m.n_copies = program->n_copies > 1 ? program->n_copies : 1;
    m.ranks_of_copy = program->n_ranks / m.n_copies;
    m.key = CS_NEW_ARRAY(arena, struct key, (size_t)m.n_comms * (size_t)m.n_copies);
    m.seen = CS_NEW_ARRAY(arena, int32_t, m.n_comms);
    count_members(&m);
    for (int32_t r = 0; r < program->n_ranks; r++)
        walk_rank(&m, r, false);
    add_groups(&m, arena);
    for (int32_t r = 0; r < program->n_ranks; r++)
        walk_rank(&m, r, true);
    for (int32_t k = 0; k < m.n_comms * m.n_copies; k++)
        for (int32_t nth = 0; nth < m.key[k].n_groups; nth++)
            finish_group(&m, &m.key[k], m.key[k].first + (uint32_t)nth);
}
