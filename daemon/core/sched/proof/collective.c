/* Finds where the members of groups meet. Two walks over all ranks: one counts, one joins. */
#include "core/sched/proof/collective.h"

#include "core/plan/groups.h"

int32_t cs_collective_group(const struct cs_plan *plan, const struct cs_action *action,
                            int32_t rank)
{
    const int kind = cs_op_table[action->op].group;
    if (kind == CS_GROUP_NONE)
        return -1;
    const int32_t of = kind == CS_GROUP_COPIES ? plan->stages[action->stage].branch : -1;
    return cs_plan_group(plan, (enum cs_group_kind)kind, of, cs_plan_rank_of(plan, 0, rank));
}

/* what one copy of the program does in a group of the table */
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

static const struct cs_group *group_of(const struct matcher *m, int32_t comm)
{
    return &m->program->plan->group[comm];
}

static struct key *key_of(const struct matcher *m, int32_t comm, int32_t rank)
{
    int32_t copy = group_of(m, comm)->kind == CS_GROUP_WORLD ? 0 : rank / m->ranks_of_copy;
    return &m->key[comm * m->n_copies + copy];
}

/* The table of a repeated program's plan is that of the first copy; replicas are not in a program, nor
 * are those that share a stage. The first of the ranks that run a program stands for all of them. */
static bool is_member(const struct matcher *m, int32_t comm, int32_t rank)
{
    const struct cs_group *g = group_of(m, comm);
    const int32_t first = cs_plan_rank_of(m->program->plan, 0, rank % m->ranks_of_copy);
    return !cs_group_runs_one_program(g->kind) && cs_group_position(g, first) >= 0;
}

static void count_members(struct matcher *m)
{
    for (int32_t k = 0; k < m->n_comms * m->n_copies; k++) {
        const struct cs_group *g = group_of(m, k / m->n_copies);
        m->key[k].n_members = g->kind == CS_GROUP_WORLD ? m->program->n_ranks : g->n;
    }
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
        if (key == key_of(m, group->comm, r) && is_member(m, group->comm, r) &&
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
    struct matcher m = {
        .graph = graph, .program = program, .n_comms = cs_plan_collectives(program->plan)};
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
