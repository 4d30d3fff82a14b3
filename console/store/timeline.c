/* Builds the timeline of a step from a simulated plan or from measured rows, and sums it by
 * stage. */
#include "console/store/timeline.h"

#include <math.h>
#include <string.h>

#include "core/sched/lower/lower.h"
#include "core/sched/sim/predict.h"
#include "core/sched/span_keys.h"

enum { MAX_SLOTS = 65536 };

void cs_timeline_clear(struct cs_timeline *timeline)
{
    cs_arena_free(timeline->arena);
    *timeline = (struct cs_timeline){.step = -1};
}

static bool has_wait_events(const struct cs_span_input *in)
{
    for (int32_t r = 0; r < in->n_ranks; r++)
        for (uint32_t i = 0; i < in->events[r].n; i++)
            if (in->events[r].event[i].kind == CS_EVENT_WAIT)
                return true;
    return false;
}

/* Once for a step: a screen asks for every stage, and there may be thousands. */
static void add_up(struct cs_timeline *timeline)
{
    const struct cs_span_step *step = &timeline->spans;
    timeline->sum = CS_NEW_ARRAY(timeline->arena, struct cs_timeline_sum, step->n_stages);
    timeline->opt_ns = CS_NEW_ARRAY(timeline->arena, int64_t, step->n_ranks);
    for (int32_t i = 0; i < step->n_spans; i++) {
        const struct cs_span *span = &step->span[i];
        const int64_t length_ns = span->end_ns - span->start_ns;
        const enum cs_op op = cs_op_of_letter(span->key.letter);
        if (op == CS_OP_STEP && span->rank >= 0 && span->rank < step->n_ranks)
            timeline->opt_ns[span->rank] += length_ns;
        if (span->key.stage < 0 || span->key.stage >= step->n_stages || !span->key.is_compute)
            continue;
        struct cs_timeline_sum *sum = &timeline->sum[span->key.stage];
        const bool is_fwd = cs_op_does(op, CS_PART_FORWARD);
        *(is_fwd ? &sum->fwd_ns : &sum->bwd_ns) += length_ns;
        sum->n_fwd += is_fwd;
        sum->n_input += cs_op_does(op, CS_PART_INPUT);
        sum->n_weight += op == CS_OP_BWD_WEIGHT;
    }
}

void cs_timeline_set(struct cs_timeline *timeline, const struct cs_span_input *in, int64_t step,
                     int32_t slots)
{
    cs_timeline_clear(timeline);
    timeline->arena = cs_arena_new(0);
    timeline->step = step;
    timeline->slots = slots;
    timeline->has_waits = has_wait_events(in);
    cs_span_build(in, timeline->arena, &timeline->spans);
    add_up(timeline);
}

enum cs_status cs_timeline_predict(struct cs_timeline *timeline, const struct cs_plan *plan,
                                   const struct cs_graph *graph,
                                   const struct cs_device_class *device,
                                   struct cs_measured *measured, int32_t cores, struct cs_err *err)
{
    struct cs_arena *scratch = cs_arena_new(0);
    struct cs_device_class costs = *device;
    struct cs_sim_options options = {.cost = cs_predict_cost, .user = &costs};
    if (measured)
        options =
            (struct cs_sim_options){.cost = cs_measured_sim_cost, .user = measured, .cores = cores};
    struct cs_program *program = NULL;
    struct cs_sim_result sim;
    const struct cs_program_options how = {
        .n_slots = cs_plan_own_slots(plan, plan->slots)}; /* also what no worker runs */
    enum cs_status status = cs_program_make_with(plan, graph, &how, scratch, &program, err);
    if (status == CS_OK)
        status = cs_simulate(program, &options, scratch, &sim, err);
    if (status == CS_OK) {
        const int32_t world = cs_plan_world(plan);
        struct cs_span_events *events = CS_NEW_ARRAY(scratch, struct cs_span_events, world);
        for (int32_t r = 0; r < world; r++) { /* replicas are alike */
            const int32_t own = cs_plan_rank_in_replica(plan, r);
            events[r] = (struct cs_span_events){sim.events[own], program->rank[own].n_actions};
        }
        const struct cs_span_input in = {.n_ranks = world,
                                         .replicas = cs_plan_replicas(plan),
                                         .n_stages = plan->n_stages,
                                         .keys = cs_program_keys(program, scratch),
                                         .events = events};
        cs_timeline_set(timeline, &in, -1, plan->slots);
    }
    cs_arena_free(scratch);
    return status == CS_OK ? CS_OK : cs_wrap(err, status, "simulating the plan");
}

/* --- rows of event.spans ---------------------------------------------------------------------- */

struct row {
    int32_t rank;
    uint32_t action;
    int64_t start_us, end_us;
    struct cs_span_key key;
    bool has_key;
};

static bool read_int(const json_t *list, size_t i, int64_t low, int64_t high, int64_t *out)
{
    const json_t *value = json_array_get(list, i);
    *out = json_integer_value(value);
    return json_is_integer(value) && *out >= low && *out <= high;
}

static bool is_compute_letter(char letter)
{
    const enum cs_op op = cs_op_of_letter(letter);
    return op != CS_OP_COUNT && cs_op_stream(op) == CS_STREAM_COMPUTE;
}

static bool read_key(const json_t *list, struct row *row)
{
    const char *letter = json_string_value(json_array_get(list, 4));
    int64_t stage, slot, peer, is_grad;
    if (!letter || strlen(letter) != 1 || !read_int(list, 5, -1, INT16_MAX, &stage) ||
        !read_int(list, 6, -1, MAX_SLOTS, &slot) || !read_int(list, 7, -1, INT16_MAX, &peer) ||
        !read_int(list, 8, 0, 1, &is_grad))
        return false;
    row->key = (struct cs_span_key){.stage = (int16_t)stage,
                                    .peer = (int16_t)peer,
                                    .slot = (int32_t)slot,
                                    .letter = letter[0],
                                    .is_compute = is_compute_letter(letter[0]),
                                    .is_grad = (uint8_t)is_grad};
    row->has_key = true;
    return true;
}

static bool read_row(const json_t *list, int32_t n_ranks, struct row *row)
{
    int64_t rank, action;
    *row = (struct row){0};
    if (!read_int(list, 0, 0, n_ranks - 1, &rank) || !read_int(list, 1, 0, UINT32_MAX, &action) ||
        !read_int(list, 2, 0, INT64_MAX / 1000, &row->start_us) ||
        !read_int(list, 3, row->start_us, INT64_MAX / 1000, &row->end_us))
        return false;
    row->rank = (int32_t)rank;
    row->action = (uint32_t)action;
    return json_array_size(list) < 9 || read_key(list, row);
}

/* Events and keys by running number, so that a row's own key needs no program. */
struct table {
    struct cs_event *event;
    struct cs_span_key *key;
    uint32_t n;
};

static void add_row(struct table *tables, const struct row *row, const struct cs_span_keys *keys,
                    int64_t step)
{
    struct table *table = &tables[row->rank];
    struct cs_span_key key = row->key;
    if (!row->has_key) {
        if (!keys || row->action >= keys[row->rank].n)
            return;
        key = keys[row->rank].key[row->action];
    }
    table->key[table->n] = key;
    table->event[table->n] = (struct cs_event){.start_ns = (uint64_t)row->start_us * 1000,
                                               .end_ns = (uint64_t)row->end_us * 1000,
                                               .step = (uint32_t)step,
                                               .action = table->n,
                                               .kind = CS_EVENT_ACTION};
    table->n++;
}

static struct table *make_tables(const json_t *rows, int32_t n_ranks, struct cs_arena *arena)
{
    struct table *tables = CS_NEW_ARRAY(arena, struct table, n_ranks);
    uint32_t *count = CS_NEW_ARRAY(arena, uint32_t, n_ranks);
    struct row row;
    for (size_t i = 0; i < json_array_size(rows); i++)
        if (read_row(json_array_get(rows, i), n_ranks, &row))
            count[row.rank]++;
    for (int32_t r = 0; r < n_ranks; r++) {
        tables[r].event = CS_NEW_ARRAY(arena, struct cs_event, count[r]);
        tables[r].key = CS_NEW_ARRAY(arena, struct cs_span_key, count[r]);
    }
    return tables;
}

static const struct cs_span_keys *program_keys(const struct cs_plan *plan,
                                               const struct cs_graph *graph, int32_t slots,
                                               struct cs_arena *arena)
{
    struct cs_program *program = NULL;
    if (!plan || slots < 1 || slots > MAX_SLOTS ||
        cs_program_make(plan, graph, cs_plan_own_slots(plan, slots), false, arena, &program,
                        NULL) != CS_OK)
        return NULL;
    return cs_program_keys(program, arena);
}

static bool needs_keys(const json_t *rows)
{
    return json_array_size(rows) > 0 && json_array_size(json_array_get(rows, 0)) < 9;
}

enum cs_status cs_timeline_rows(struct cs_timeline *timeline, const json_t *rows, int64_t step,
                                int32_t slots, int32_t n_ranks, int32_t n_stages,
                                const struct cs_plan *plan, const struct cs_graph *graph,
                                struct cs_err *err)
{
    struct cs_arena *scratch = cs_arena_new(0);
    struct table *tables = make_tables(rows, n_ranks, scratch);
    const struct cs_span_keys *known =
        needs_keys(rows) ? program_keys(plan, graph, slots, scratch) : NULL;
    struct cs_span_events *events = CS_NEW_ARRAY(scratch, struct cs_span_events, n_ranks);
    struct cs_span_keys *keys = CS_NEW_ARRAY(scratch, struct cs_span_keys, n_ranks);
    struct row row;
    uint32_t n = 0;
    for (size_t i = 0; i < json_array_size(rows); i++)
        if (read_row(json_array_get(rows, i), n_ranks, &row))
            add_row(tables, &row, known, step);
    for (int32_t r = 0; r < n_ranks; r++) {
        events[r] = (struct cs_span_events){tables[r].event, tables[r].n};
        keys[r] = (struct cs_span_keys){tables[r].key, tables[r].n};
        n += tables[r].n;
    }
    const struct cs_span_input in = {.n_ranks = n_ranks,
                                     .n_stages = n_stages,
                                     .replicas = plan != NULL ? cs_plan_replicas(plan) : 1,
                                     .keys = keys,
                                     .events = events};
    if (n > 0)
        cs_timeline_set(timeline, &in, step, slots);
    cs_arena_free(scratch);
    return n > 0 ? CS_OK
                 : cs_fail(err, CS_INVALID, "step %lld has no span that fits the plan",
                           (long long)step);
}

void cs_timeline_waits(struct cs_timeline *timeline, const json_t *waits)
{
    const struct cs_span_step *step = &timeline->spans;
    if (!timeline->arena || json_array_size(waits) != (size_t)step->n_ranks)
        return;
    for (int32_t r = 0; r < step->n_ranks; r++) {
        const json_t *row = json_array_get(waits, (size_t)r);
        int64_t receive_us, send_us;
        if (!read_int(row, 0, 0, INT64_MAX / 1000, &receive_us) ||
            !read_int(row, 1, 0, INT64_MAX / 1000, &send_us))
            return;
        step->wait_ns[r][CS_WAIT_RECV] = receive_us * 1000;
        step->wait_ns[r][CS_WAIT_SEND] = send_us * 1000;
    }
    timeline->has_waits = step->n_ranks > 0;
}

/* --- figures ---------------------------------------------------------------------------------- */

struct cs_timeline_stage cs_timeline_stage(const struct cs_timeline *timeline, int32_t stage,
                                           int32_t rank)
{
    const struct cs_span_step *step = &timeline->spans;
    struct cs_timeline_stage out = {.wait_recv_ns = -1,
                                    .wait_send_ns = -1,
                                    .fwd_ns = (double)NAN,
                                    .bwd_ns = (double)NAN,
                                    .bubble = (double)NAN};
    if (!timeline->arena || stage < 0 || stage >= step->n_stages)
        return out;
    const struct cs_timeline_sum *sum = &timeline->sum[stage];
    if (rank >= 0 && rank < step->n_ranks)
        out.opt_ns = timeline->opt_ns[rank];
    out.n_fwd = sum->n_fwd;
    out.n_bwd = sum->n_input > sum->n_weight ? sum->n_input : sum->n_weight;
    out.fwd_ns = out.n_fwd ? (double)sum->fwd_ns / out.n_fwd : (double)NAN;
    out.bwd_ns = out.n_bwd ? (double)sum->bwd_ns / out.n_bwd : (double)NAN;
    out.busy_ns = step->busy_ns[stage];
    out.idle_ns = step->makespan_ns - out.busy_ns;
    out.bubble = step->bubble[stage];
    if (timeline->has_waits && rank >= 0 && rank < step->n_ranks) {
        out.wait_recv_ns = step->wait_ns[rank][CS_WAIT_RECV];
        out.wait_send_ns = step->wait_ns[rank][CS_WAIT_SEND];
    }
    return out;
}

double cs_timeline_work_ns(const struct cs_timeline_stage *stage)
{
    if (isnan(stage->fwd_ns) || isnan(stage->bwd_ns))
        return isnan(stage->fwd_ns) ? stage->bwd_ns : stage->fwd_ns;
    return stage->fwd_ns + stage->bwd_ns;
}
