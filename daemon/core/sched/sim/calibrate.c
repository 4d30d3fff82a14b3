/* Adds up measured CPU times of actions by stage and rank, gives their means, reads and writes them. */
#include "core/sched/sim/calibrate.h"

#include <string.h>

#include "core/sched/sim/predict.h"

static const char schema[] = "cornstarch.profile.measured/1";

enum { MAX_ROWS = 1 << 15 };

static const int64_t max_sum_us = INT64_MAX / 1000;     /* so that a mean in ns fits */
static const int64_t max_mean_us = INT64_C(3600000000); /* so that sums of a simulation fit */

struct cs_measured *cs_measured_new(int32_t n_stages, int32_t n_ranks,
                                    const struct cs_device_class *device, struct cs_arena *arena)
{
    struct cs_measured *m = CS_NEW_ARRAY(arena, struct cs_measured, 1);
    size_t bytes = (size_t)(n_stages + n_ranks) * sizeof *m->row;
    struct cs_measured_cost *cost =
        CS_NEW_ARRAY(arena, struct cs_measured_cost, (size_t)(n_stages + n_ranks) * CS_OP_COUNT);
    memset(cost, 0, bytes);
    *m = (struct cs_measured){.n_stages = n_stages,
                              .n_ranks = n_ranks,
                              .device = device,
                              .row = (struct cs_measured_cost(*)[CS_OP_COUNT])(void *)cost};
    return m;
}

/* CS_OP_COUNT: no letter of a compute op */
static enum cs_op op_of(char letter)
{
    enum cs_op op = cs_op_of_letter(letter);
    return op != CS_OP_COUNT && cs_op_stream(op) == CS_STREAM_COMPUTE ? op : CS_OP_COUNT;
}

static int32_t row_of(const struct cs_measured *m, int32_t stage, int32_t rank)
{
    if (stage >= m->n_stages || rank < 0 || rank >= m->n_ranks)
        return -1;
    return stage >= 0 ? stage : m->n_stages + rank;
}

void cs_measured_add(struct cs_measured *m, const struct cs_span_keys *keys,
                     const struct cs_span_events *events)
{
    for (int32_t r = 0; r < m->n_ranks; r++)
        for (uint32_t i = 0; i < events[r].n; i++) {
            const struct cs_event *e = &events[r].event[i];
            if (e->kind != CS_EVENT_ACTION || (e->flags & CS_EVENT_EVAL) ||
                e->action >= keys[r].n || e->value < 0)
                continue;
            const struct cs_span_key *key = &keys[r].key[e->action];
            int32_t row = row_of(m, key->stage, r);
            enum cs_op op = op_of(key->letter);
            if (row < 0 || op == CS_OP_COUNT)
                continue;
            m->row[row][op].n++;
            m->row[row][op].cpu_us += e->value;
            m->row[row][op].wall_us += (int64_t)(e->end_ns - e->start_ns) / 1000;
        }
    m->n_steps++;
}

void cs_measured_note_step(struct cs_measured *m, int64_t step_ns)
{
    if (m->n_noted < CS_CALIBRATE_STEPS && step_ns > 0)
        m->noted_ns[m->n_noted++] = step_ns;
}

static int64_t mean_ns(const struct cs_measured_cost *cost)
{
    return cost->n > 0 ? (cost->cpu_us + cost->inside_us) * 1000 / cost->n : -1;
}

bool cs_measured_has_costs(const struct cs_measured *m)
{
    return m->permille == NULL || m->n_steps > 0;
}

int64_t cs_measured_mean_ns(const struct cs_measured *m, int32_t stage, int32_t rank, enum cs_op op)
{
    int32_t row = row_of(m, stage, rank);
    return row < 0 ? -1 : mean_ns(&m->row[row][op]);
}

int64_t cs_measured_sim_cost(void *user, const struct cs_program *program, int rank,
                             const struct cs_action *action)
{
    const struct cs_measured *m = user;
    int64_t ns = cs_measured_mean_ns(m, action->stage, rank, (enum cs_op)action->op);
    if (ns >= 0)
        return ns;
    struct cs_device_class device = *m->device;
    ns = cs_predict_cost(&device, program, rank, action);
    if (m->permille != NULL && action->stage < m->n_stages &&
        cs_op_is((enum cs_op)action->op, CS_OP_KIND_WORK))
        return ns * m->permille[action->stage] / 1000;
    if (action->op == CS_OP_SEND)
        return ns + m->hop_ns;
    return action->op == CS_OP_NORM ? ns + m->rest_ns : ns;
}

json_t *cs_measured_encode(const struct cs_measured *m, int32_t cores)
{
    json_t *costs = json_array();
    for (int32_t row = 0; row < m->n_stages + m->n_ranks; row++)
        for (int op = 0; op < CS_OP_COUNT; op++) {
            const struct cs_measured_cost *cost = &m->row[row][op];
            bool is_stage = row < m->n_stages;
            if (cost->n == 0)
                continue;
            json_t *json =
                json_pack("{s:i,s:s,s:I,s:I,s:I}", is_stage ? "stage" : "rank",
                          is_stage ? row : row - m->n_stages, "op", cs_op_letter((enum cs_op)op),
                          "n", (json_int_t)cost->n, "cpu_us", (json_int_t)cost->cpu_us, "mean_ns",
                          (json_int_t)mean_ns(cost));
            if (cost->inside_us > 0)
                json_object_set_new(json, "inside_us", json_integer((json_int_t)cost->inside_us));
            json_array_append_new(costs, json);
        }
    json_t *json =
        json_pack("{s:s,s:i,s:i,s:i,s:i,s:I,s:I,s:o}", "schema", schema, "stages", m->n_stages,
                  "ranks", m->n_ranks, "steps", m->n_steps, "cores", cores, "hop_ns",
                  (json_int_t)m->hop_ns, "rest_ns", (json_int_t)m->rest_ns, "costs", costs);
    json_t *permille = m->permille != NULL ? json_array() : NULL;
    for (int32_t s = 0; permille != NULL && s < m->n_stages; s++)
        json_array_append_new(permille, json_integer(m->permille[s]));
    if (permille != NULL)
        json_object_set_new(json, "permille", permille);
    return json;
}

static enum cs_status get(const json_t *object, const char *key, int64_t least, int64_t most,
                          int64_t *out, struct cs_err *err)
{
    const json_t *value = json_object_get(object, key);
    *out = json_integer_value(value);
    if (!json_is_integer(value) || *out < least || *out > most)
        return cs_fail(err, CS_CORRUPT, "measured profile: %s must be a whole number %lld..%lld",
                       key, (long long)least, (long long)most);
    return CS_OK;
}

static enum cs_status read_cost(struct cs_measured *m, const json_t *json, struct cs_err *err)
{
    bool is_stage = json_object_get(json, "stage") != NULL;
    const char *letter = json_string_value(json_object_get(json, "op"));
    enum cs_op op = letter && letter[0] && !letter[1] ? op_of(letter[0]) : CS_OP_COUNT;
    int64_t at, n, cpu_us, inside_us = 0;
    if (op == CS_OP_COUNT)
        return cs_fail(err, CS_CORRUPT, "measured profile: op '%s' is none that computes",
                       letter ? letter : "");
    CS_TRY(get(json, is_stage ? "stage" : "rank", 0, (is_stage ? m->n_stages : m->n_ranks) - 1, &at,
               err));
    CS_TRY(get(json, "n", 1, INT64_MAX, &n, err));
    CS_TRY(get(json, "cpu_us", 0, max_sum_us, &cpu_us, err));
    if (json_object_get(json, "inside_us") != NULL)
        CS_TRY(get(json, "inside_us", 0, max_sum_us - cpu_us, &inside_us, err));
    if ((cpu_us + inside_us) / n > max_mean_us)
        return cs_fail(err, CS_CORRUPT, "measured profile: op '%s' of %s %lld takes over an hour",
                       letter, is_stage ? "stage" : "rank", (long long)at);
    m->row[is_stage ? at : m->n_stages + at][op] =
        (struct cs_measured_cost){.n = n, .cpu_us = cpu_us, .inside_us = inside_us};
    return CS_OK;
}

/* absent where slots are as full as the plan's, and in older ones */
static enum cs_status read_permille(const json_t *json, struct cs_arena *arena,
                                    struct cs_measured *m, struct cs_err *err)
{
    const json_t *list = json_object_get(json, "permille");
    if (list == NULL)
        return CS_OK;
    if (!json_is_array(list) || json_array_size(list) != (size_t)m->n_stages)
        return cs_fail(err, CS_CORRUPT, "measured profile: permille must be a number per stage");
    int32_t *permille = CS_NEW_ARRAY(arena, int32_t, m->n_stages);
    for (int32_t s = 0; s < m->n_stages; s++) {
        const json_t *value = json_array_get(list, (size_t)s);
        const json_int_t n = json_integer_value(value);
        if (!json_is_integer(value) || n < 0 || n > 1000000)
            return cs_fail(err, CS_CORRUPT,
                           "measured profile: permille must be whole numbers 0..1000000");
        permille[s] = (int32_t)n;
    }
    m->permille = permille;
    return CS_OK;
}

enum cs_status cs_measured_decode(const json_t *json, const struct cs_device_class *device,
                                  struct cs_arena *arena, struct cs_measured **out, int32_t *cores,
                                  struct cs_err *err)
{
    int64_t n_stages, n_ranks, n_steps, n_cores, hop_ns = 0, rest_ns = 0;
    const char *found = json_string_value(json_object_get(json, "schema"));
    const json_t *costs = json_object_get(json, "costs");
    if (!found || strcmp(found, schema) != 0)
        return cs_fail(err, CS_CORRUPT, "measured profile: the schema is '%s', not %s",
                       found ? found : "", schema);
    CS_TRY(get(json, "stages", 1, MAX_ROWS, &n_stages, err));
    CS_TRY(get(json, "ranks", 1, MAX_ROWS, &n_ranks, err));
    CS_TRY(get(json, "steps", 0, INT32_MAX, &n_steps, err));
    CS_TRY(get(json, "cores", 0, INT32_MAX, &n_cores, err));
    if (json_object_get(json, "hop_ns") != NULL) /* older ones have neither */
        CS_TRY(get(json, "hop_ns", 0, max_mean_us * 1000, &hop_ns, err));
    if (json_object_get(json, "rest_ns") != NULL)
        CS_TRY(get(json, "rest_ns", 0, max_mean_us * 1000, &rest_ns, err));
    if (!json_is_array(costs))
        return cs_fail(err, CS_CORRUPT, "measured profile: costs must be a list");
    struct cs_measured *m = cs_measured_new((int32_t)n_stages, (int32_t)n_ranks, device, arena);
    for (size_t i = 0; i < json_array_size(costs); i++)
        CS_TRY(read_cost(m, json_array_get(costs, i), err));
    CS_TRY(read_permille(json, arena, m, err));
    m->n_steps = (int32_t)n_steps;
    m->hop_ns = hop_ns;
    m->rest_ns = rest_ns;
    *cores = (int32_t)n_cores;
    *out = m;
    return CS_OK;
}
